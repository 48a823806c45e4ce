"""Thresholds of scores: a label is predicted for the rows with a score above the threshold.

An optimal threshold is just below the score of a row with the label, or above all scores: a threshold that is only
slightly lower adds rows without the label. So all candidates can be tried: there are no more than true labels.
Dinkelbach's iteration finds the thresholds per label with the highest micro-F1 (Management Science, 1967), Eqs. (40)
and (41) of docs/mathematics.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MEASURES = ("micro_f1", "macro_f1", "hamming")
"""Metrics for which decision thresholds can be tuned."""

HALF = 0.5
"""Threshold for regressions on 0 and 1 if none is fitted."""

Matrix = NDArray[np.float64]
Truth = NDArray[np.bool_]
Counts = NDArray[np.int64] | Matrix
"""Numbers of rows, or sums of their weights."""


class Candidates(NamedTuple):
    """Candidate thresholds, highest first, with their counts: arrays of shape (n_candidates,)."""

    cuts: Matrix
    hits: Counts
    predicted: Counts


def best_cuts(scores: Matrix, Y: Truth, measure: str, weights: Matrix | None = None, *, shared: bool) -> Matrix:
    """Return the thresholds with the highest F1 or the lowest Hamming loss; in a tie the highest thresholds.

    Parameters
    ----------
    scores, Y : ndarrays of shape (n_samples, n_labels), float64 and bool
        Scores and true labels.
    measure : {"micro_f1", "macro_f1", "hamming"}
    weights : ndarray of shape (n_samples,), float64, optional
        Sample weights.
    shared : bool
        Whether all labels have one threshold.
    """
    if not shared:
        return _own_cuts(scores, Y, measure, weights)
    if measure == "macro_f1":
        return np.full(scores.shape[1], _shared_macro_cut(scores, Y, weights))
    cut = _shared_cut(scores, Y, measure, weights)
    return np.full(scores.shape[1], cut)


def value(scores: Matrix, Y: Truth, measure: str, weights: Matrix | None = None) -> float:
    """Return the objective of `best_cuts` if labels with scores above 0 are predicted: F1, with 0/0 = 0, or the share
    of correct decisions."""
    shown = scores > 0
    if measure == "hamming":
        right = shown == Y
        return float(right.mean() if weights is None else weights @ right.mean(axis=1) / weights.sum())
    hits, total = _total(shown & Y, weights), _total(shown, weights) + _total(Y, weights)
    if measure == "micro_f1":
        hits, total = hits.sum(), total.sum()
    return float((2.0 * hits / np.where(total > 0, total, 1)).mean())


def candidates(scores: Matrix, y: Truth, weights: Matrix | None = None) -> Candidates:
    """Return the candidate thresholds of a label, or of all labels together; arrays of shape (n_samples,)."""
    ranked, true = np.sort(scores), np.sort(scores[y])
    values = np.unique(true)[::-1]
    below = np.searchsorted(ranked, values, side="left")
    cuts = np.where(below > 0, between(ranked[below - 1], values), np.nextafter(values, -np.inf))
    hits: Counts = len(true) - np.searchsorted(true, values, side="left")
    predicted: Counts = len(ranked) - below
    if weights is not None:
        hits, predicted = _highest(scores[y], weights[y])[hits], _highest(scores, weights)[predicted]
    cuts = np.concatenate([[np.nextafter(ranked[-1], np.inf)], cuts])
    return Candidates(cuts, np.concatenate([[0], hits]), np.concatenate([[0], predicted]))


def _highest(scores: Matrix, weights: Matrix) -> Matrix:
    """Return the total weight of the k highest scores for k = 0, 1, ..., n_samples."""
    return np.concatenate([[0.0], np.cumsum(weights[np.argsort(-scores, kind="stable")])])


def _total(of: Truth, weights: Matrix | None) -> Any:
    """Return the weighted number of true values per label, (n_labels,)."""
    return of.sum(axis=0) if weights is None else weights @ of


def between(lower: Matrix, upper: Matrix) -> Matrix:
    """Return the midpoint of two different numbers, always below the larger one."""
    middle = lower + (upper - lower) / 2
    return np.where(middle < upper, middle, lower)


def _own_cuts(scores: Matrix, Y: Truth, measure: str, weights: Matrix | None) -> Matrix:
    of_labels = [candidates(scores[:, label], Y[:, label], weights) for label in range(Y.shape[1])]
    if measure == "hamming":
        chosen = [np.argmax(2 * each.hits - each.predicted) for each in of_labels]
    elif measure == "macro_f1":
        chosen = [np.argmax(_f1(each.hits, each.predicted, each.hits[-1])) for each in of_labels]
    else:
        chosen = _most_micro_f1(of_labels, _total(Y, weights).sum())
    return np.array([each.cuts[best] for each, best in zip(of_labels, chosen, strict=True)])


def _most_micro_f1(of_labels: list[Candidates], n_true: Any) -> list[Any]:
    """Return the chosen candidate of each label, by Dinkelbach's iteration."""
    reached, f1, chosen = -1.0, 0.0, [np.intp(0) for _ in of_labels]
    while f1 > reached:
        reached = f1
        chosen = [np.argmax(2.0 * each.hits - f1 * each.predicted) for each in of_labels]
        taken = list(zip(of_labels, chosen, strict=True))
        hits, predicted = (
            sum(getattr(each, part)[best].item() for each, best in taken) for part in Candidates._fields[1:]
        )
        f1 = float(_f1(hits, predicted, n_true))
    return chosen


def _shared_cut(scores: Matrix, Y: Truth, measure: str, weights: Matrix | None) -> float:
    of_pairs = None if weights is None else np.repeat(weights, Y.shape[1])
    found = candidates(scores.ravel(), Y.ravel(), of_pairs)
    if measure == "hamming":
        return float(found.cuts[np.argmax(2 * found.hits - found.predicted)])
    return float(found.cuts[np.argmax(_f1(found.hits, found.predicted, found.hits[-1]))])


def _shared_macro_cut(scores: Matrix, Y: Truth, weights: Matrix | None) -> float:
    """Return the common threshold with the highest macro-F1: each score, from the top, changes the F1 of its label."""
    n_samples, n_labels = scores.shape
    order = np.argsort(-scores.ravel(), kind="stable")
    ranked, by_label = scores.ravel()[order], np.argsort(order % n_labels, kind="stable")
    true = Y.ravel()[order[by_label]].reshape(n_labels, n_samples)
    if weights is None:
        hits, predicted = np.cumsum(true, axis=1), np.arange(1, n_samples + 1)
    else:
        counts = weights[order[by_label] // n_labels].reshape(n_labels, n_samples)
        hits, predicted = np.cumsum(counts * true, axis=1), np.cumsum(counts, axis=1)
    f1 = _f1(hits, predicted, hits[:, -1:])
    change = np.empty(len(order))
    change[by_label] = np.diff(f1, axis=1, prepend=0.0).ravel()
    last = np.flatnonzero(np.concatenate([ranked[1:] < ranked[:-1], [True]]))  # scores are equal
    worth = np.cumsum(change)[last]
    best = int(np.argmax(worth))
    if worth[best] <= 0:
        return float(np.nextafter(ranked[0], np.inf))
    if last[best] + 1 == len(ranked):
        return float(np.nextafter(ranked[-1], -np.inf))
    return float(between(ranked[last[best] + 1], ranked[last[best]]))


def _f1(hits: Any, predicted: Any, n_true: Any) -> NDArray[Any]:
    """Return F1, with 0/0 = 0."""
    total = predicted + n_true
    return np.asarray(2.0 * hits / np.where(total > 0, total, 1))


def half_or_best_cuts(scores: Matrix, Y: Matrix) -> Matrix:
    """Return the threshold with the highest F1 of each label, (n_labels,); 0.5 if all rows or no row have the label."""
    found = np.full(scores.shape[1], HALF)
    both = (Y == 1).any(axis=0) & (Y == 0).any(axis=0)
    found[both] = best_cuts(scores[:, both], Y[:, both] == 1, "macro_f1", shared=False)
    return found
