"""The checked parameters of a kernel model."""

from __future__ import annotations

from typing import NamedTuple


class KernelSettings(NamedTuple):
    """Validated settings of a kernel model.

    Attributes
    ----------
    shape : tuple (kind, gamma, coef0, degree)
        The kernel: see `kernel_value`.
    constant : float
        The root of what is added to the kernel, 0 for nothing.
    budget : int or None
        Most support vectors, or the number of features.
    seed : int
        Random seed of the features.
    average : bool
        Whether the mean of the coefficients predicts.
    dtype : str
        Type of coefficients, weights and values.
    """

    shape: tuple[int, float, float, int]
    constant: float
    budget: int | None
    seed: int
    average: bool
    dtype: str
