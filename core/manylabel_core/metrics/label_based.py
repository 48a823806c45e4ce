"""Metrics per label, and metrics that pool all labels.

`Y` are the true and `P` the predicted labels: 0 and 1, ndarray or sparse, of shape (n_samples, n_labels); `scores` is
an ndarray of the same shape. `sample_weight` has the weights of the examples, (n_samples,): above 0, at most 1,000;
None is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manylabel_core.checks import is_sparse
from manylabel_core.metrics.inputs import as_pair, as_scored, mean, outcomes, ratio, scored_blocks, weights_of
from manylabel_core.metrics.ranking import sort_by_score


def micro_f1(Y: Any, P: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the micro-averaged F1.

    scikit-learn: `f1_score(average="micro", zero_division=0)`.

    Examples
    --------
    >>> micro_f1([[1, 0], [1, 1]], [[1, 1], [1, 0]])
    0.6666666666666666
    """
    tp, fp, fn = (float(counts.sum()) for counts in by_label(Y, P, sample_weight))
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0


def macro_f1(Y: Any, P: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean of the F1 of each label; a label that is never true and never predicted counts 0.

    scikit-learn: `f1_score(average="macro", zero_division=0)`.

    Examples
    --------
    >>> macro_f1([[1, 0], [1, 1]], [[1, 1], [1, 0]])
    0.5
    """
    tp, fp, fn = by_label(Y, P, sample_weight)
    return mean(ratio(2 * tp, 2 * tp + fp + fn))


def macro_auc(Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean over the labels of the area under the ROC curve; a tie counts one half.

    Only labels with both classes have a curve, so the mean is over these labels; 0.0 if no label has both.
    scikit-learn: `roc_auc_score(average="macro")`, equal if every label has both classes; otherwise scikit-learn
    returns NaN.

    Examples
    --------
    >>> macro_auc([[1, 0], [0, 0], [1, 0]], [[0.9, 0.1], [0.5, 0.2], [0.5, 0.3]])
    0.75
    """
    Y, scores = as_scored(Y, scores)
    weights = weights_of(sample_weight, scores)
    transposed: Any = sp.csr_array(Y.T) if is_sparse(Y) else Y.T
    areas = [np.zeros(0)]
    for relevant, values in scored_blocks(transposed, scores.T):
        won, pairs = _won(relevant, values) if weights is None else _weighted_won(relevant, values, weights)
        areas.append(won[pairs > 0] / pairs[pairs > 0])
    return mean(np.concatenate(areas))


def by_label(Y: Any, P: Any, sample_weight: ArrayLike | None) -> NDArray[Any]:
    """Return the true positives, false positives and false negatives of each label, of shape (3, n_labels)."""
    Y, P = as_pair(Y, P)
    return outcomes(Y, P, axis=0, weights=weights_of(sample_weight, Y))


def _won(relevant: NDArray[np.bool_], scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the number of correctly ordered pairs of relevant and irrelevant examples, and of all pairs, by label."""
    ranking = sort_by_score(relevant, scores)
    below = ranking.start - ranking.take(ranking.start)
    tied = ranking.stop - ranking.take(ranking.stop) - below
    pairs = ranking.n_relevant * (scores.shape[1] - ranking.n_relevant)
    return ((below + tied / 2) * ranking.relevant).sum(axis=1), pairs


def _weighted_won(
    relevant: NDArray[np.bool_], scores: NDArray[Any], weights: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return `_won` with each pair weighted by its two examples."""
    ranking = sort_by_score(relevant, scores)
    ordered = weights[np.argsort(scores, axis=1)]  # in the order of the ranking
    before = np.zeros((len(scores), scores.shape[1] + 1))
    np.cumsum(ordered * ~ranking.relevant, axis=1, out=before[:, 1:])
    below, through = (np.take_along_axis(before, places, axis=1) for places in (ranking.start, ranking.stop))
    heavy = ordered * ranking.relevant
    return ((below + through) / 2 * heavy).sum(axis=1), heavy.sum(axis=1) * before[:, -1]
