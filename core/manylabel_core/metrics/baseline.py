"""Baseline for metrics: predicting the most frequent labels regardless of the features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.rows import uneven_weights


def frequent_labels(Y: Any, sample_weight: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the margin of each label's frequency above the threshold for predicting it in every example, (n_labels,).

    The labels above 0 are the most frequent ones, in the number with the highest micro F1 on these examples when
    predicted for each example: the labels more frequent than half of that F1, as in `Prequential`.
    """
    n_samples, n_labels = Y.shape
    weights = uneven_weights(sample_weight, n_samples)
    relevant = np.asarray(Y.sum(axis=0) if weights is None else weights @ Y, dtype=np.float64).ravel()
    size = n_samples if weights is None else float(weights.sum())
    total = relevant.sum()
    if not total:
        return np.zeros(n_labels)
    hits = np.cumsum(np.sort(relevant)[::-1])
    halves = hits / (size * np.arange(1, n_labels + 1) + total)
    margins: NDArray[np.float64] = relevant / size - halves.max()
    return margins
