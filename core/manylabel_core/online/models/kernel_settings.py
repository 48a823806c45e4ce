"""Checked parameters of a kernel model."""

from __future__ import annotations

from typing import NamedTuple


class KernelSettings(NamedTuple):
    """Validated settings of a kernel model."""

    shape: tuple[int, float, float, int]  # kind, gamma, coef0, degree: see `kernel_value`
    constant: float  # root of the constant added to the kernel; 0 for none
    budget: int | None  # maximum number of support vectors, or the number of features
    seed: int  # random seed of the features
    average: bool  # whether the mean of the coefficients predicts
    dtype: str  # type of coefficients, weights and values
