"""Outcomes of labels in the window of `prequential`, in the format of its ring.

An entry is `4 * label + outcome`, or -n: the n labels after that of the previous entry have the same outcome. So even a
predictor of very many labels, such as the baseline if all labels are equally rare, takes only a few entries per
example.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics._prequential import KNOWN


def lengths_of(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the number of labels of each entry."""
    return np.where(codes < 0, -codes.astype(np.int64), 1)


def first_codes(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the code of the first label of each entry."""
    firsts = codes.astype(np.int64)
    runs = np.flatnonzero(codes < 0)
    firsts[runs] = firsts[runs - 1] + 4
    return firsts


def unpacked(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the code of each label."""
    lengths = lengths_of(codes)
    begins = np.cumsum(lengths) - lengths
    return np.repeat(first_codes(codes) - 4 * begins, lengths) + 4 * np.arange(int(lengths.sum()))


def recent_counts(
    firsts: NDArray[np.int64], lengths: NDArray[np.int64], weights: NDArray[np.int64], n_labels: int
) -> NDArray[np.int64]:
    """Return the counts of each label in the window, shape (n_labels, 3), from `first_codes`, `lengths_of` and the
    weight of the example of each entry.
    """
    changes = np.zeros((1 + n_labels, KNOWN), dtype=np.int64)
    np.add.at(changes, (firsts >> 2, firsts & 3), weights)
    np.subtract.at(changes, ((firsts >> 2) + lengths, firsts & 3), weights)
    counts: NDArray[np.int64] = np.cumsum(changes, axis=0)[:-1]
    return counts
