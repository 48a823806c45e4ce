"""Uncertainty of predictions, for uncertainty sampling.

An example is uncertain if the log-odds of a label are close to its decision threshold. `uncertainty` is 1 at the
threshold, and decreases to 0. Rare labels do not count, because they are close to their thresholds in every example.
The rule was chosen by `python -m benchmarks label-next`: with sums over all labels, unusual examples would come first,
which teach less than random examples.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SEEN_ENOUGH = 3
"""Minimum number of positive examples of a label that counts."""


def uncertainty(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the uncertainty of examples, 0 to 1; 1 if the model has no label.

    Parameters
    ----------
    margins : ndarray of shape (n_samples, n_labels), float64
        Half of the difference between the log-odds of the label and those of its threshold.
    """
    if not margins.shape[1]:
        return np.ones(len(margins))
    closest: NDArray[np.float64] = 1.0 - np.tanh(np.abs(margins).min(axis=1))
    return closest


def counting(examples: NDArray[np.int64], retired: Sequence[int]) -> NDArray[np.int64]:
    """Return the columns of the labels that count: those with enough examples, or all if no label has enough; never
    retired ones.

    Parameters
    ----------
    examples : ndarray of shape (n_labels,), int64
        Number of positive examples per label.
    """
    enough = np.setdiff1d(np.flatnonzero(examples >= SEEN_ENOUGH), retired)
    return enough if len(enough) else np.setdiff1d(np.arange(len(examples)), retired)
