"""Comparison of two models on the same rows: differences of metrics with intervals from a paired bootstrap.

Both models use the same rows, resampled with replacement, so a row that is hard for both does not widen the interval.
This is the percentile interval of Efron and Tibshirani (An Introduction to the Bootstrap, 1993, chapter 13).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from manylabel_core.metrics.inputs import ratio

N_RESAMPLES = 1_000
"""Number of bootstrap samples."""
LEVEL = 0.95
"""Coverage of the intervals."""
_CELLS = 2**22
"""Maximum number of weights drawn at a time."""


class Difference(NamedTuple):
    """A metric of two models, and the difference, second minus first, with its interval."""

    first: float
    second: float
    difference: float
    low: float
    high: float


def compare(
    Y: Any,
    first: Any,
    second: Any,
    *,
    n_known: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> dict[str, Difference]:
    """Compare the predicted labels of two models on the same rows.

    Parameters
    ----------
    Y, first, second : array or sparse array of shape (n_samples, n_labels)
        True labels and the predictions of both models; any value but 0 is true. A label that is unknown for a row must
        be 0 in all three.
    n_known : int array of shape (n_samples,), optional
        Number of known labels of each row; n_labels by default.
    sample_weight : float array of shape (n_samples,), optional
        Sample weights; 1 by default.
    n_resamples, seed : int
        Number of bootstrap samples, and their random seed.

    Returns
    -------
    dict
        For micro_f1, macro_f1, example_f1, subset_accuracy and hamming_loss, as in `manylabel_core.metrics`, a
        `Difference` with its interval at the level 0.95.

    Raises
    ------
    ValueError
        If there are no rows, or the shapes differ.

    Examples
    --------
    >>> Y = [[1, 0], [1, 1], [0, 1]]
    >>> found = compare(Y, [[1, 0], [1, 0], [0, 1]], Y)
    >>> round(found["micro_f1"].first, 3), found["micro_f1"].second
    (0.857, 1.0)
    """
    truth, *predicted = (_as_csr(one) for one in (Y, first, second))
    n_rows, n_labels = truth.shape
    if n_rows == 0 or any(one.shape != truth.shape for one in predicted):
        raise ValueError(
            f"Y and the predictions must have one shape, with at least one row, not {truth.shape} and "
            f"{[one.shape for one in predicted]}"
        )
    known = np.full(n_rows, n_labels) if n_known is None else np.asarray(n_known)
    each: NDArray[np.float64] = np.ones(n_rows)
    if sample_weight is not None:
        each = np.asarray(sample_weight, dtype=np.float64)
    both = [_Counts(truth, one, known) for one in predicted]
    whole = [counts.metrics(each[None, :]) for counts in both]
    rng = np.random.default_rng(seed)
    drawn: list[NDArray[np.float64]] = []
    for size in _sizes(n_resamples, max(1, _CELLS // n_rows)):
        times = rng.multinomial(n_rows, np.full(n_rows, 1 / n_rows), size=size).astype(np.float64)
        weights: NDArray[np.float64] = each * times
        drawn.append(both[1].metrics(weights) - both[0].metrics(weights))
    low, high = np.quantile(np.concatenate(drawn, axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    values = zip(whole[0][:, 0], whole[1][:, 0], low, high, strict=True)
    return {
        name: Difference(float(a), float(b), float(b - a), float(least), float(most))
        for name, (a, b, least, most) in zip(_METRICS, values, strict=True)
    }


_METRICS = ("micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming_loss")


class _Counts:
    """Counts of correct and wrong decisions, by row and by label, from which metrics of weighted rows are computed."""

    def __init__(self, truth: Any, predicted: Any, known: NDArray[Any]) -> None:
        self._hits = truth.multiply(predicted).tocsr().astype(np.float64)
        self._sizes = truth.astype(np.float64) + predicted.astype(np.float64)  # 2 hits + misses + false alarms
        hits, sizes = _row_sums(self._hits), _row_sums(self._sizes)
        wrong = sizes - 2 * hits
        self._by_row = np.stack([ratio(2 * hits, sizes), wrong == 0, ratio(wrong, known)]).astype(np.float64)

    def metrics(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the metrics for each of several weightings of the rows, shape (n_metrics, n_weightings)."""
        hits, sizes = weights @ self._hits, weights @ self._sizes
        micro = ratio(2 * hits.sum(axis=1), sizes.sum(axis=1))
        macro = ratio(2 * hits, sizes).mean(axis=1) if hits.shape[1] else np.zeros(len(weights))
        means = self._by_row @ weights.T / weights.sum(axis=1)
        return np.stack([micro, macro, *means])


def _as_csr(matrix: Any) -> Any:
    dense_or_sparse: Any = matrix if sp.issparse(matrix) else np.asarray(matrix)
    return sp.csr_array(dense_or_sparse).astype(bool)


def _row_sums(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()


def _sizes(total: int, most: int) -> list[int]:
    return [min(most, total - done) for done in range(0, total, most)]
