"""Cuts of scores: a label is predicted where its score is above its cut.

Every cut that can be best for a measure lies just below the score of a row that has the label, or above all scores:
lowering it further only adds rows without the label. So there are no more candidates than true labels, and the best is
found among all of them.

Label by label, the highest micro-F1 is found by Dinkelbach's iteration (Management Science, 1967): for a value F, each
label on its own takes the cut of most `2 hits - F predicted`; F becomes what these cuts reach, until it rises no more.

See Eqs. (44) and (45) of docs/mathematics.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MEASURES = ("micro_f1", "macro_f1", "hamming")
"""What cuts may be chosen for."""

Matrix = NDArray[np.float64]
Truth = NDArray[np.bool_]


class Candidates(NamedTuple):
    """Candidates are cuts, highest first, with what they predict: each an array of shape (n_candidates,)."""

    cuts: Matrix
    hits: NDArray[np.int64]
    predicted: NDArray[np.int64]


def best_cuts(scores: Matrix, Y: Truth, measure: str, *, shared: bool) -> Matrix:
    """Return the cuts of the highest F1, or the lowest Hamming loss, on these rows; of equally good ones, the highest.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_labels), float64
    Y : ndarray of shape (n_samples, n_labels), bool
        The true labels.
    measure : {"micro_f1", "macro_f1", "hamming"}
    shared : bool
        Whether one cut is that of all labels, or each has its own.

    Returns
    -------
    ndarray of shape (n_labels,), float64
    """
    if not shared:
        return _own_cuts(scores, Y, measure)
    cut = _shared_macro_cut(scores, Y) if measure == "macro_f1" else _shared_cut(scores, Y, measure)
    return np.full(scores.shape[1], cut)


def value(scores: Matrix, Y: Truth, measure: str) -> float:
    """Return what `best_cuts` makes as large as it can: the measure of predicting what scores above 0.

    F1, where a label that is never true and never predicted counts 0; or the share of decisions that are right.
    """
    shown = scores > 0
    if measure == "hamming":
        return float((shown == Y).mean())
    hits, total = (shown & Y).sum(axis=0), shown.sum(axis=0) + Y.sum(axis=0)
    if measure == "micro_f1":
        return float(2.0 * hits.sum() / max(1, total.sum()))
    return float((2.0 * hits / np.maximum(total, 1)).mean())


def candidates(scores: Matrix, y: Truth) -> Candidates:
    """Return the cuts that can be best for a label, or for all labels as one; both arrays of shape (n_samples,)."""
    ranked, true = np.sort(scores), np.sort(scores[y])
    values = np.unique(true)[::-1]
    below = np.searchsorted(ranked, values, side="left")
    cuts = np.where(below > 0, between(ranked[below - 1], values), np.nextafter(values, -np.inf))
    return Candidates(
        np.concatenate([[np.nextafter(ranked[-1], np.inf)], cuts]),
        np.concatenate([[0], len(true) - np.searchsorted(true, values, side="left")]),
        np.concatenate([[0], len(ranked) - below]),
    )


def between(lower: Matrix, upper: Matrix) -> Matrix:
    """Return the middle of numbers that differ; never the upper one, so that it is above the cut."""
    middle = lower + (upper - lower) / 2
    return np.where(middle < upper, middle, lower)


def _own_cuts(scores: Matrix, Y: Truth, measure: str) -> Matrix:
    of_labels = [candidates(scores[:, label], Y[:, label]) for label in range(Y.shape[1])]
    if measure == "hamming":
        chosen = [np.argmax(2 * each.hits - each.predicted) for each in of_labels]
    elif measure == "macro_f1":
        chosen = [np.argmax(_f1(each.hits, each.predicted, each.hits[-1])) for each in of_labels]
    else:
        chosen = _most_micro_f1(of_labels, int(Y.sum()))
    return np.array([each.cuts[best] for each, best in zip(of_labels, chosen, strict=True)])


def _most_micro_f1(of_labels: list[Candidates], n_true: int) -> list[Any]:
    """Return for each label which candidate it takes."""
    reached, f1, chosen = -1.0, 0.0, [np.intp(0) for _ in of_labels]
    while f1 > reached:
        reached = f1
        chosen = [np.argmax(2.0 * each.hits - f1 * each.predicted) for each in of_labels]
        taken = list(zip(of_labels, chosen, strict=True))
        hits, predicted = (
            sum(int(getattr(each, part)[best]) for each, best in taken) for part in Candidates._fields[1:]
        )
        f1 = float(_f1(hits, predicted, n_true))
    return chosen


def _shared_cut(scores: Matrix, Y: Truth, measure: str) -> float:
    found = candidates(scores.ravel(), Y.ravel())
    if measure == "hamming":
        return float(found.cuts[np.argmax(2 * found.hits - found.predicted)])
    return float(found.cuts[np.argmax(_f1(found.hits, found.predicted, found.hits[-1]))])


def _shared_macro_cut(scores: Matrix, Y: Truth) -> float:
    """Go down the scores of all labels and add up by how much each one changes the F1 of its label."""
    n_samples, n_labels = scores.shape
    order = np.argsort(-scores.ravel(), kind="stable")
    ranked, by_label = scores.ravel()[order], np.argsort(order % n_labels, kind="stable")
    hits = np.cumsum(Y.ravel()[order[by_label]].reshape(n_labels, n_samples), axis=1)
    f1 = _f1(hits, np.arange(1, n_samples + 1), hits[:, -1:])
    change = np.empty(len(order))
    change[by_label] = np.diff(f1, axis=1, prepend=0.0).ravel()
    last = np.flatnonzero(np.concatenate([ranked[1:] < ranked[:-1], [True]]))  # of equal scores
    worth = np.cumsum(change)[last]
    best = int(np.argmax(worth))
    if worth[best] <= 0:
        return float(np.nextafter(ranked[0], np.inf))
    if last[best] + 1 == len(ranked):
        return float(np.nextafter(ranked[-1], -np.inf))
    return float(between(ranked[last[best] + 1], ranked[last[best]]))


def _f1(hits: Any, predicted: Any, n_true: Any) -> NDArray[Any]:
    """Return F1; 0 where nothing is true and nothing predicted."""
    return np.asarray(2.0 * hits / np.maximum(predicted + n_true, 1))
