"""Arrays that grow, and what may stand in those of a state."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_WEIGHT = 1e60
"""No learner gets to weights of this size, and sums of smaller ones stay finite; float32 ends before it."""


def check_range(name: str, array: NDArray[Any], least: float, most: float) -> None:
    """Raise ValueError if an element of the array lies outside, or is NaN."""
    if array.size and not (array.min().item() >= least and array.max().item() <= most):
        raise ValueError(f"state must hold {name} from {least:g} to {most:g}")


def enlarged(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Give the array if it has at least this shape, else a copy in a larger one, filled up with zeros.

    Axes that are too short become at least twice as long, so that growing by one again and again costs a
    constant number of copies for each element.
    """
    if all(have >= need for have, need in zip(array.shape, shape, strict=True)):
        return array
    larger = np.zeros(
        tuple(have if have >= need else max(need, 2 * have) for have, need in zip(array.shape, shape, strict=True)),
        dtype=array.dtype,
    )
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger
