"""The rules of a vocabulary's health in plain Python and NumPy: one example, and one pair of labels, at a time."""

import numpy as np


def pair_sums(truth, weights, p):
    """Return, by ordered pair (a, b): weight with both; over the examples with a and without b the weight, and the
    weighted sums of p_a and of p_b."""
    n_labels = truth.shape[1]
    together, only, own, other = np.zeros((4, n_labels, n_labels))
    for i, w in enumerate(weights):
        for a in np.flatnonzero(truth[i] > 0):
            for b in range(n_labels):
                if b != a and truth[i, b] > 0:
                    together[a, b] += w
                elif truth[i, b] < 0:
                    only[a, b] += w
                    own[a, b] += w * p[i, a]
                    other[a, b] += w * p[i, b]
    return together, only, own, other


def wilson(hits, n, z=1.645):
    p = hits / n
    return (p + z * z / (2 * n) - z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)


def suggestions(truth, weights, p, likeness):
    """Return (kind, why, label, other).

    `truth` has 1, -1 and 0 for unknown; `p` the held-out probabilities, or None for the rules by counts; `likeness` the
    difference of the names of pairs (a < b).
    """
    n, n_labels = truth.shape
    counts, known = weights @ (truth > 0), weights @ (truth != 0)
    likely = np.zeros(truth.shape) if p is None else np.nan_to_num(p)
    judged = np.ones(n_labels, bool) if p is None else ~np.isnan(p).any(0)
    together, only, own, other = pair_sums(truth, weights, likely)
    mean = weights @ likely / weights.sum()
    K = np.maximum(other - only * mean[None, :], 0)
    O = np.maximum(own - only * mean[:, None], 0)  # noqa: E741
    alike = K * K.T / ((O + 2) * (O.T + 2)) * judged[:, None] * judged[None, :]
    found, merged = [], set()

    def merge(kind, why, a, b):
        label, into = (a, b) if (counts[a], -a) < (counts[b], -b) else (b, a)
        merged.update([(a, b), (b, a)])
        found.append((kind, why, label, into))

    def rarer(a, b):
        return together[a, b] + min(only[a, b], only[b, a])

    pairs = [(a, b) for a in range(n_labels) for b in range(a + 1, n_labels) if counts[a] > 0 and counts[b] > 0]
    for a, b in pairs:
        if (a, b) not in likeness:
            continue
        how = likeness[a, b]
        small, large = (a, b) if counts[a] <= counts[b] else (b, a)
        holds = how == "spelling"
        holds |= how == "plural" and rarer(a, b) >= 5 and together[a, b] >= 0.8 * rarer(a, b)
        if p is not None and together[a, b] <= 0.1 * rarer(a, b):
            if counts[small] < 10:
                pull = 0.0
                if only[small, large] > 0 and only[large, small] > 0 and judged[large]:
                    pull = (K[small, large] / only[small, large]) / max(O[large, small] / only[large, small], 1e-9)
                holds |= pull >= 0.5 and O[large, small] >= 0.5 and counts[large] >= 10
            else:
                holds |= alike[a, b] >= 0.1
        if holds:
            merge("name", how, a, b)
    for a, b in pairs if p is not None else ():
        if rarer(a, b) >= 10 and together[a, b] <= 0.1 * rarer(a, b) and alike[a, b] >= 0.4 and (a, b) not in merged:
            merge("merge", "alike", a, b)
    for a, b in pairs:
        jaccard = together[a, b] / max(together[a, b] + only[a, b] + only[b, a], 1e-300)
        if rarer(a, b) >= 5 and jaccard >= 0.9 and (a, b) not in merged:
            merge("merge", "together", a, b)
    implied = set()
    for a in range(n_labels):
        for b in range(n_labels):
            m = together[a, b] + only[a, b]
            if a == b or m < 10 or wilson(together[a, b], m) < 0.9:
                continue
            if counts[b] >= 1.5 * counts[a] and counts[b] <= 0.5 * known[b]:
                implied.add((a, b))
    for a, b in implied:
        if (a, b) not in merged and not any((a, c) in implied and (c, b) in implied for c in range(n_labels)):
            found.append(("parent", "implied", a, b))
    for a in np.flatnonzero(counts > 0).tolist():
        at = np.flatnonzero(truth[:, a] > 0)
        gap = n - 1 - at[-1]
        if gap >= 1000 and counts[a] >= 5 and gap >= 3 * max(1, *np.diff(at), 1):
            found.append(("pause", "unused", a, None))
        if gap >= 1000 and counts[a] < 5 and gap >= n / 2:
            found.append(("pause", "rare", a, None))
    for a in range(n_labels) if p is not None else ():
        yes, no = weights * (truth[:, a] > 0), weights * (truth[:, a] < 0)
        if judged[a] and yes.sum() >= 50 and no.sum() >= 50:
            t, f = yes @ likely[:, a] / yes.sum(), no @ likely[:, a] / no.sum()
            if t * (1 - f) / max(f * (1 - t), 1e-12) < 1.2:
                found.append(("vague", "unlearnable", a, None))
    return found
