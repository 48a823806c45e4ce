"""Metrics of the k best labels of an example, as means over the examples: P@k, F1@k and NDCG@k.

Arguments and ties are as in `manylabel_core.metrics.ranking`. There are always k places: with fewer labels than k, the
empty places count as wrong. `Prequential` has the same metrics for a stream.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.metrics import _prequential
from manylabel_core.metrics.inputs import as_scored, mean, ratio, scored_blocks, weights_of
from manylabel_core.metrics.measures import DEPTHS


def precision_at(Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None = None, *, k: int) -> float:
    """Return the mean share of true labels among the k best, P@k.

    Parameters
    ----------
    k : {1, 5, 10, 100}

    Examples
    --------
    >>> precision_at([[1, 0, 0], [0, 1, 1]], [[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]], k=1)
    0.5
    """
    hits, _, _, weights = _best(Y, scores, sample_weight, k)
    return mean(hits / k, weights)


def f1_at(Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None = None, *, k: int) -> float:
    """Return the mean F1 of predicting the k best labels of each example, F1@k.

    An example without true labels counts 0.

    Parameters
    ----------
    k : {1, 5, 10, 100}

    Examples
    --------
    >>> round(f1_at([[1, 0, 0], [0, 1, 1]], [[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]], k=1), 3)
    0.5
    """
    hits, _, n_true, weights = _best(Y, scores, sample_weight, k)
    return mean(2 * hits / (k + n_true), weights)


def ndcg_at(Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None = None, *, k: int) -> float:
    """Return the mean normalised discounted cumulative gain of the k best labels, NDCG@k (Jarvelin, Kekalainen, 2002).

    A true label at rank r adds 1 / log2(1 + r); the sum is divided by its maximum. An example without true labels does
    not count. scikit-learn: `ndcg_score(k=k)`, which counts such an example as 0, and averages ties.

    Parameters
    ----------
    k : {1, 5, 10, 100}

    Examples
    --------
    >>> round(ndcg_at([[1, 0, 0], [0, 1, 1]], [[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]], k=5), 3)
    0.847
    """
    _, gains, n_true, weights = _best(Y, scores, sample_weight, k)
    counting = n_true > 0
    ideal = _prequential.IDEAL[np.minimum(n_true, k)]
    return (
        mean(ratio(gains, ideal)[counting], None if weights is None else weights[counting]) if counting.any() else 0.0
    )


def _best(
    Y: Any, scores: ArrayLike, sample_weight: ArrayLike | None, k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | None]:
    """Return the true labels among the k best, their gain and the number of true labels, by example; the weights."""
    if k not in DEPTHS:
        raise ValueError(f"k must be one of {', '.join(map(str, DEPTHS))}, not {k}")
    Y, scores = as_scored(Y, scores)
    parts = [np.zeros((0, 3), dtype=np.int64)]
    for relevant, values in scored_blocks(Y, scores):
        parts.append(_prequential.list_best(np.ascontiguousarray(values, dtype=np.float64), relevant))
    best, gains, n_true = np.concatenate(parts).T
    if k < DEPTHS[-1]:
        bits = best & ((1 << k) - 1)
        return _prequential.HITS[bits], _prequential.GAINS[bits], n_true, weights_of(sample_weight, scores)
    return best >> _prequential.PLACES, gains, n_true, weights_of(sample_weight, scores)
