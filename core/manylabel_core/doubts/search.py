"""Search for the most doubtful labels of learnt examples, by held-out probabilities and similar examples."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core.doubts.held_out import (
    HeldOut,
    Judges,
    held_out,
    judge_of,
    known,
    learn_halves,
    take_rows,
    take_targets,
    weights_of,
)
from manylabel_core.doubts.neighbours import Neighbours, Similarity
from manylabel_core.rows import Rows, Targets

LEAST_SEEN = 5
"""Minimum number of examples with a label that a judge must have learnt to judge the label."""
CANDIDATES, LEAST_CANDIDATES = 10, 500
"""Number of pairs for which neighbours are found: per listed pair, and the minimum."""
SIMILAR, FEATURES = 3, 5
"""Maximum numbers of similar examples, and of features, listed as evidence."""
_LEAST_PROBABILITY, _LEAST_SHARE = 1e-9, 0.01
_COUNTED_ROWS = 10_000


class Doubt(NamedTuple):
    """Doubtful label of an example.

    Attributes
    ----------
    row, label : number of the example, and column of the label.
    given : whether the label was given.
    probability : held-out probability of the label.
    base : weighted share of the examples with the label, among those whose truth about it is known.
    seen : number of examples with the label that the judge has learnt.
    share : share of the nearest examples that have the label, weighted by similarity and by the weight of the example.
    score : log-odds that order a list; higher is more doubtful.
    similar : numbers of similar examples whose truth contradicts the given one, the most similar first.
    features : columns of features that contradict the given truth, and their contributions to the score of the label.
    """

    row: int
    label: int
    given: bool
    probability: float
    base: float
    seen: int
    share: float
    score: float
    similar: tuple[int, ...]
    features: tuple[tuple[int, float], ...]


class Doubts(NamedTuple):
    """Lists of doubts, the most doubtful first.

    Attributes
    ----------
    missing : labels that are probable but were not given.
    wrong : labels that are improbable but were given.
    too_rare : number of labels of which no judge has learnt enough examples.
    """

    missing: list[Doubt]
    wrong: list[Doubt]
    too_rare: int


class _Best:
    """The most doubtful pairs so far: a column each of row, label, probability, seen and score."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.pairs = np.zeros((5, 0))

    def add(self, pairs: NDArray[np.float64]) -> None:
        """Add pairs with finite scores."""
        both = np.concatenate([self.pairs, pairs], axis=1)
        if both.shape[1] > self._most:
            limit = -np.partition(-both[4], self._most - 1)[self._most - 1]
            both = both[:, both[4] >= limit]
        self.pairs = _in_order(both)[:, : self._most]


def find_doubts(
    rows: Rows,
    targets: Targets,
    judges: Judges,
    n_features: int,
    n_labels: int,
    *,
    top: int = 100,
    n_vector_values: int = 0,
    listed: NDArray[np.bool_] | None = None,
    settled: Collection[tuple[int, int]] = (),
    parents: NDArray[np.int32] | None = None,
    report: Callable[[int, int], Any] = lambda done, total: None,
    observe: Callable[[HeldOut, NDArray[np.int8]], Any] = lambda block, truth: None,
) -> Doubts:
    """Return the most doubtful labels of examples.

    Each judge learns one half of the examples, and judges the other half. If the arrays are memory-mapped files, memory
    contains only the judges, the candidates and one block of examples.

    Parameters
    ----------
    rows, targets : examples in the order in which they were learnt.
    judges : two equal untrained models with all columns; they need calibration.
    n_features, n_labels : numbers of columns; `n_features` does not count vectors.
    top : maximum number of pairs in each list.
    n_vector_values : number of values of all vectors.
    listed : ndarray of shape (n_labels,), bool; labels that can be listed. None: all.
    settled : pairs of an example and a label that are never listed.
    parents : ndarray of shape (n_labels,), int32; the label that each label implies, -1 for none. Ancestors of a listed
        or given label are not listed.
    report : callback with the number of examples processed in all passes, and their total.
    observe : callback with each block of held-out probabilities, and the truth of its examples (see `known`); it must
        neither change the arrays nor use them later.

    Raises
    ------
    ValueError
        If the judges have no calibration.
    """
    n_rows, done = len(targets.complete), 0

    def advance(n: int) -> None:
        nonlocal done
        done += n
        report(done, 4 * n_rows)

    seen = learn_halves(rows, targets, judges, n_labels, advance)
    base = _shares(targets, n_labels)
    prior = logit(base)
    allowed = np.ones(n_labels, dtype=np.bool_) if listed is None else listed
    implied = _implied(parents, n_labels)
    hidden = np.array(sorted(settled), dtype=np.int64).reshape(-1, 2)
    best = {given: _Best(max(CANDIDATES * top, LEAST_CANDIDATES)) for given in (False, True)}
    for judge, chosen, probabilities in held_out(rows, judges, seen, advance):
        truth = known(take_targets(targets, chosen), n_labels)
        observe(HeldOut(judge, chosen, probabilities), truth)
        truth[:, ~(allowed & (seen[judge] >= LEAST_SEEN))] = 0
        if len(hidden):
            _hide(truth, chosen, hidden)
        if implied is not None:
            truth[(sp.csr_array(truth > 0) @ implied).toarray() > 0] = 0
        z = logit(probabilities)
        for given, scores in ((False, z), (True, prior / 2 - z)):
            i, label = np.nonzero(truth == (1 if given else -1))
            best[given].add(np.array([chosen[i], label, probabilities[i, label], seen[judge, label], scores[i, label]]))
    similarity = Similarity(rows, n_features, n_vector_values)
    lists = []
    for given in (False, True):
        pairs = _without_ancestors(best[given].pairs, parents)
        pairs = pairs[:, :top] if given else pairs
        queries, at = np.unique(pairs[0].astype(np.int64), return_inverse=True)
        near = similarity.neighbours(queries, advance)
        labels = pairs[1].astype(np.int64)
        shares, similar = _compared(targets, near, at, labels, given)
        if not given:
            pairs[4] = (pairs[4] + logit(shares, _LEAST_SHARE)) / 2
        found = list[Doubt]()
        for n in np.lexsort((labels, pairs[0], -pairs[4]))[:top].tolist():
            row, label, p, times, score = pairs[:, n].tolist()
            evidence = float(shares[n]), float(score), similar[n], _features(rows, judges, int(row), int(label), given)
            found.append(Doubt(int(row), int(label), given, p, float(base[int(label)]), int(times), *evidence))
        lists.append(found)
    report(4 * n_rows, 4 * n_rows)
    missing, wrong = lists
    return Doubts(missing, wrong, int((allowed & (seen < LEAST_SEEN).all(0)).sum()))


def logit(p: Any, least: float = _LEAST_PROBABILITY) -> NDArray[np.float64]:
    """Return the log-odds of probabilities, after clipping to between `least` and 1 - `least`."""
    p = np.clip(p, least, 1 - least)
    odds: NDArray[np.float64] = np.log(p / (1 - p))
    return odds


def _in_order(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return pairs by descending score, then by row and label."""
    ordered: NDArray[np.float64] = pairs[:, np.lexsort((pairs[1], pairs[0], -pairs[4]))]
    return ordered


def _shares(targets: Targets, n_labels: int) -> NDArray[np.float64]:
    """Return the smoothed weighted share of the examples with each label, among those with known truth."""
    weights, true, told = weights_of(targets), np.zeros(n_labels), np.zeros(n_labels)
    whole = 0.0
    for first in range(0, len(weights), _COUNTED_ROWS):
        part = targets.part(first, min(first + _COUNTED_ROWS, len(weights)))
        own = weights[first : first + _COUNTED_ROWS]
        each, is_true = np.repeat(own, np.diff(part.indptr)), part.signs > 0
        partial = np.repeat(~part.complete, np.diff(part.indptr))
        true += np.bincount(part.indices[is_true], each[is_true], minlength=n_labels)
        told += np.bincount(part.indices[partial], each[partial], minlength=n_labels)
        whole += float(own[part.complete].sum())
    shares: NDArray[np.float64] = (true + 0.5) / (told + whole + 1)
    return shares


def _implied(parents: NDArray[np.int32] | None, n_labels: int) -> sp.csr_array | None:
    """Return the matrix with a 1 in the row of each label, in the column of its parent."""
    if parents is None or not (parents >= 0).any():
        return None
    children = np.flatnonzero(parents >= 0)
    ones = np.ones(len(children), dtype=np.int32)
    return sp.csr_array((ones, (children, parents[children])), shape=(n_labels, n_labels))


def _hide(truth: NDArray[np.int8], chosen: NDArray[np.int64], pairs: NDArray[np.int64]) -> None:
    """Make the truth of pairs unknown; `chosen` are ascending."""
    at = np.minimum(np.searchsorted(chosen, pairs[:, 0]), len(chosen) - 1)
    here = chosen[at] == pairs[:, 0]
    truth[at[here], pairs[here, 1]] = 0


def _without_ancestors(pairs: NDArray[np.float64], parents: NDArray[np.int32] | None) -> NDArray[np.float64]:
    """Return the pairs, without pairs whose label is an ancestor of another label of the same example."""
    if parents is None:
        return pairs
    ancestors = set[tuple[int, int]]()
    for row, label in pairs[:2].T.astype(np.int64).tolist():
        while (label := int(parents[label])) >= 0 and (row, label) not in ancestors:
            ancestors.add((row, label))
    kept = [pair not in ancestors for pair in map(tuple, pairs[:2].T.astype(np.int64).tolist())]
    return pairs[:, kept]


def _compared(
    targets: Targets, near: Neighbours, at: NDArray[np.intp], labels: NDArray[np.int64], given: bool
) -> tuple[NDArray[np.float64], list[tuple[int, ...]]]:
    """Return for each pair the share of the neighbours with the label, and the similar examples that contradict the
    label.

    A neighbour whose truth is unknown counts as one without the label, and contradicts nothing.
    """
    found = np.unique(near.rows)
    own = take_targets(targets, found)
    weights = dict(zip(found.tolist(), weights_of(own).tolist(), strict=True))
    signs = {
        row: dict(zip(own.indices[first:last].tolist(), own.signs[first:last].tolist(), strict=True))
        for row, first, last in zip(found.tolist(), own.indptr[:-1].tolist(), own.indptr[1:].tolist(), strict=True)
    }
    complete = dict(zip(found.tolist(), own.complete.tolist(), strict=True))
    shares, similar = np.zeros(len(labels)), list[tuple[int, ...]]()
    for n, (query, label) in enumerate(zip(at.tolist(), labels.tolist(), strict=True)):
        rows = near.rows[query].tolist()
        truth = [signs[row].get(label, -1 if complete[row] else 0) for row in rows]
        w = np.array([weights[row] for row in rows]) * near.similarities[query].astype(np.float64)
        if len(rows):
            shares[n] = w[np.array(truth) > 0].sum() / w.sum()
        contrary = -1 if given else 1
        similar.append(tuple([row for row, true in zip(rows, truth, strict=True) if true == contrary][:SIMILAR]))
    return shares, similar


def _features(rows: Rows, judges: Judges, row: int, label: int, given: bool) -> tuple[tuple[int, float], ...]:
    """Return the features that contradict the truth, and their contributions, the largest first."""
    own = take_rows(rows, np.array([row]))
    try:
        (found,) = judge_of(judges, row).explain(own, [label], FEATURES)
    except ValueError:  # too many features to explain
        return ()
    sign = -1 if given else 1
    parts = [
        (column, contribution)
        for column, contribution in zip(found.features.tolist(), found.contributions.tolist(), strict=True)
        if sign * contribution > 0
    ]
    return tuple(sorted(parts, key=lambda part: (-sign * part[1], part[0])))
