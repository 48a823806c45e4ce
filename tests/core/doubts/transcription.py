"""The recipe of doubtful labels in plain NumPy, on dense matrices and one example at a time."""

import numpy as np

from manylabel_core import FALT
from manylabel_core.rows import NO_WEIGHTS, Rows, Targets


def logit(p, least=1e-9):
    p = np.clip(p, least, 1 - least)
    return np.log(p / (1 - p))


def half_of(i):
    """Return the half of an example: of each pair, one is in each half, and a multiplicative hash says which."""
    swapped = (i // 2) * 0x9E3779B97F4A7C15 % 2**64 >= 2**63
    return 1 - i % 2 if swapped else i % 2


def probabilities(X, signs, existing, weights):
    """Return the probability of each pair by the model that has not learnt its example, and what that model has seen.

    `signs` has 1 for true, -1 for false, 0 for unknown; `existing` the number of labels at each example.
    """
    n, n_labels = signs.shape
    found, seen = np.full(signs.shape, np.nan), np.zeros((2, n_labels), dtype=int)
    for k in (0, 1):
        pipeline = FALT().pipeline
        pipeline.grow(X.shape[1], n_labels)
        for i in (i for i in range(n) if half_of(i) == k):
            pipeline.learn(*one(X, signs, existing, weights, i))
            seen[k] += signs[i] > 0
        for i in (i for i in range(n) if half_of(i) != k):
            found[i] = pipeline.probabilities(pipeline.score(one(X, signs, existing, weights, i)[0]))[0]
    return found, seen


def one(X, signs, existing, weights, i):
    stored = np.flatnonzero(X[i])
    rows = Rows(np.array([0, len(stored)]), stored.astype(np.int32), X[i, stored].astype(np.float32))
    complete = bool((signs[i, : existing[i]] != 0).all())
    listed = np.flatnonzero(signs[i] > 0 if complete else signs[i] != 0)
    weight = NO_WEIGHTS if weights is None else weights[i : i + 1]
    facts = np.array([complete]), np.array([existing[i]], dtype=np.int64), weight
    return rows, Targets(np.array([0, len(listed)]), listed.astype(np.int32), signs[i, listed].astype(np.int8), *facts)


def nearest(X, i):
    """Return the ten most similar other examples, the most similar first, and their cosines."""
    n = len(X)
    counts = (X != 0).sum(0)
    scaled = X.astype(np.float64)
    for column in range(X.shape[1]):
        if 2 * counts[column] > n:
            scaled[:, column] = (scaled[:, column] - scaled[:, column].mean()) / max(scaled[:, column].std(), 1e-6)
            counts[column] = n
    scaled = scaled * np.sqrt(np.log(1 + n / np.maximum(counts, 1)))
    scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)
    cosines = scaled @ scaled[i]
    others = sorted((j for j in range(n) if j != i), key=lambda j: (-cosines[j], j))[:10]
    return others, np.maximum(cosines[others], 1e-6)


def doubts(X, signs, existing=None, weights=None, top=100):
    """Return (row, label, probability, share, score) of missing and of wrong labels."""
    n, n_labels = signs.shape
    existing = np.full(n, n_labels) if existing is None else existing
    p, seen = probabilities(X, signs, existing, weights)
    w = np.ones(n) if weights is None else weights
    # Labels that came after a complete example are false for it.
    truth = signs.copy()
    for i in range(n):
        if (signs[i, : existing[i]] != 0).all():
            truth[i, existing[i] :] = -1
    prior = logit((w @ (truth > 0) + 0.5) / (w @ (truth != 0) + 1))
    missing, wrong = [], []
    for i in range(n):
        for label in range(n_labels):
            if seen[1 - half_of(i), label] < 5 or truth[i, label] == 0:
                continue
            z = float(logit(p[i, label]))
            if truth[i, label] > 0:
                wrong.append((prior[label] / 2 - z, i, label))
            else:
                missing.append((z, i, label))
    candidates = [sorted(each, key=lambda c: (-c[0], c[1:]))[: max(10 * top, 500)] for each in (missing, wrong)]
    lists = []
    for given, chosen in enumerate(candidates):
        found = []
        for score, i, label in chosen:
            near, cosines = nearest(X, i)
            share = float((cosines * w[near]) @ (truth[near, label] > 0) / (cosines * w[near]).sum())
            score = score if given else (score + logit(share, 0.01)) / 2
            found.append((i, label, float(p[i, label]), share, float(score)))
        lists.append(sorted(found, key=lambda c: (-c[4], c[:2]))[:top])
    return lists
