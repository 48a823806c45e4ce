"""The baseline of measures: predicting the labels that are frequent, whatever the features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def frequent_labels(Y: Any) -> NDArray[np.float64]:
    """Return by how much each label is more frequent than those worth predicting for every example.

    The labels above 0 are the most frequent ones, as many as would have the highest micro F1 on these examples if they
    were predicted for each: those more frequent than half of that F1, as in `Prequential`.

    Parameters
    ----------
    Y : ndarray or sparse matrix of shape (n_samples, n_labels)
        Labels, 0 and 1.

    Returns
    -------
    ndarray of shape (n_labels,), float64
        The share of examples with the label, less half of that F1.
    """
    n_samples, n_labels = Y.shape
    relevant = np.asarray(Y.sum(axis=0), dtype=np.float64).ravel()
    total = relevant.sum()
    if not total:
        return np.zeros(n_labels)
    hits = np.cumsum(np.sort(relevant)[::-1])
    halves = hits / (n_samples * np.arange(1, n_labels + 1) + total)
    margins: NDArray[np.float64] = relevant / n_samples - halves.max()
    return margins
