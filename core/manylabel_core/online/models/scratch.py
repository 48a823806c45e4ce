"""Scratch memory of the kernels of this package: one array a thread, since zeros for each call would cost its time."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

MAX_KEPT = 2**20
"""Features up to which a thread keeps its scratch; a larger one is allocated for each call."""


class _Kept(threading.local):
    """Zeros in the first half, anything in the second."""

    def __init__(self) -> None:
        self.memory = np.zeros(0)


_kept = _Kept()


def scratch(n_features: int) -> NDArray[np.float64]:
    """Return an array of shape (2, n_features) whose row 0 is zero; a caller that writes to row 0 resets it, and the
    next call may return the same memory.
    """
    if n_features > MAX_KEPT:
        return np.zeros((2, n_features))
    half = len(_kept.memory) // 2
    if half < n_features:
        half = min(max(n_features, 2 * half), MAX_KEPT)
        _kept.memory = np.zeros(2 * half)
    return _kept.memory[half - n_features : half + n_features].reshape(2, n_features)
