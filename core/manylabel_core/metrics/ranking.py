"""Ranking metrics of the labels of an example, averaged over examples.

`Y` are the true labels: 0 and 1, ndarray or sparse, of shape (n_samples, n_labels). `scores` is an ndarray of the same
shape without NaN. `sample_weight` has the weights of the examples, (n_samples,): above 0, at most 1,000; None is 1.
If scores tie, the worst order counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.metrics.inputs import as_scored, mean, ratio, scored_blocks, weights_of


class Ranking(NamedTuple):
    """Rows of a matrix, sorted by ascending score; arrays are (n_rows, n_columns) unless stated otherwise."""

    relevant: NDArray[np.bool_]
    """Whether the entry at each place is relevant."""
    start: NDArray[np.int64]
    """First place of the entries that tie with the entry at a place."""
    stop: NDArray[np.int64]
    """Place after the last of these entries."""
    before: NDArray[np.int64]
    """Number of relevant entries before a place, (n_rows, n_columns + 1)."""

    @property
    def n_relevant(self) -> NDArray[np.int64]:
        """Return the number of relevant entries, (n_rows,)."""
        return self.before[:, -1]

    def take(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of relevant entries before each rank."""
        return np.take_along_axis(self.before, places, axis=1)


def sort_by_score(relevant: NDArray[np.bool_], scores: NDArray[Any]) -> Ranking:
    """Sort each row by score, and find the ties."""
    n, width = scores.shape
    order = np.argsort(scores, axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    relevant = np.take_along_axis(relevant, order, axis=1)
    edge = np.ones((n, width + 1), dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=edge[:, 1:-1])
    places = np.arange(width + 1)
    start = np.maximum.accumulate(np.where(edge, places, 0), axis=1)[:, :-1]
    stop = np.minimum.accumulate(np.where(edge, places, width)[:, ::-1], axis=1)[:, ::-1][:, 1:]
    before = np.zeros((n, width + 1), dtype=np.int64)
    np.cumsum(relevant, axis=1, out=before[:, 1:])
    return Ranking(relevant, start, stop, before)


def ranking_loss(Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean share of (relevant, irrelevant) pairs in wrong order.

    Ties count as errors. scikit-learn: `label_ranking_loss`, which counts ties the same way.

    Examples
    --------
    >>> ranking_loss([[1, 0, 0], [1, 1, 0]], [[0.9, 0.9, 0.1], [0.3, 0.2, 0.1]])
    0.25
    """
    losses = [np.zeros(0)]
    Y, scores = as_scored(Y, scores)
    for relevant, values in scored_blocks(Y, scores):
        ranking = sort_by_score(relevant, values)
        misranked = (ranking.take(ranking.stop) * ~ranking.relevant).sum(axis=1)
        losses.append(ratio(misranked, ranking.n_relevant * (values.shape[1] - ranking.n_relevant)))
    return mean(np.concatenate(losses), weights_of(sample_weight, scores))


def average_precision(Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean precision at the ranks of the relevant labels.

    The rank of a label is the number of labels that score as high or higher. An example without relevant labels counts
    0; in scikit-learn's `label_ranking_average_precision_score`, which is otherwise equal, it counts 1.

    Examples
    --------
    >>> average_precision([[1, 0, 0], [0, 1, 1]], [[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]])
    0.7916666666666666
    """
    means = [np.zeros(0)]
    Y, scores = as_scored(Y, scores)
    for relevant, values in scored_blocks(Y, scores):
        ranking = sort_by_score(relevant, values)
        hits = ranking.n_relevant[:, None] - ranking.take(ranking.start)
        precisions = hits / (values.shape[1] - ranking.start)
        means.append(ratio((precisions * ranking.relevant).sum(axis=1), ranking.n_relevant))
    return mean(np.concatenate(means), weights_of(sample_weight, scores))


def one_error(Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return the share of the examples whose highest-scoring label is not relevant.

    A relevant label must score higher than every irrelevant one, so a tie at the top is an error, and so is an example
    without relevant labels. scikit-learn does not have this metric.

    Examples
    --------
    >>> one_error([[1, 0], [0, 1]], [[0.9, 0.1], [0.9, 0.1]])
    0.5
    """
    errors = [np.zeros(0, dtype=bool)]
    Y, scores = as_scored(Y, scores)
    for relevant, values in scored_blocks(Y, scores):
        best = values.max(axis=1, initial=-np.inf, where=relevant)
        rival = values.max(axis=1, initial=-np.inf, where=~relevant)
        errors.append(~(relevant.any(axis=1) & ((best > rival) | relevant.all(axis=1))))
    return mean(np.concatenate(errors), weights_of(sample_weight, scores))


def coverage(Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None = None, *, normalize: bool = False) -> float:
    """Return the mean number of steps down the ranking until every relevant label is passed: the largest rank minus 1.

    The rank of a label is the number of labels that score as high or higher. An example without relevant labels takes 0
    steps. scikit-learn: `coverage_error`, which does not subtract 1 (and gives 0 as well for such an example).

    Parameters
    ----------
    normalize : bool, default=False
        Divide by n_labels, which makes the measure comparable between datasets: in [0, 1).

    Examples
    --------
    >>> coverage([[1, 0, 0], [0, 0, 1]], [[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]])
    1.0
    >>> coverage([[1, 0, 0], [0, 0, 1]], [[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]], normalize=True)
    0.3333333333333333
    """
    steps = [np.zeros(0)]
    width = 1
    Y, scores = as_scored(Y, scores)
    for relevant, values in scored_blocks(Y, scores):
        lowest = values.min(axis=1, initial=np.inf, where=relevant)
        passed = (values >= lowest[:, None]).sum(axis=1)
        width = max(1, values.shape[1])
        steps.append(np.where(relevant.any(axis=1), passed - 1, 0))
    return mean(np.concatenate(steps), weights_of(sample_weight, scores)) / (width if normalize else 1)
