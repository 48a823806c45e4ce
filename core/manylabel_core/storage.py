"""Growing arrays, and the validation of the arrays of a state."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import MAX_COLUMNS

MAX_WEIGHT = 1e60
"""Upper bound of weights. Learners do not reach it, sums of smaller weights stay finite, and float32 ends before it."""

MAX_COUNT = 2**53
"""Upper bound of the examples of a stream."""


def check_range(name: str, array: NDArray[Any], least: float, most: float) -> None:
    """Raise ValueError if an element of the array is out of bounds or NaN."""
    if array.size and not (array.min().item() >= least and array.max().item() <= most):
        raise ValueError(f"state: values of {name} must be from {least:g} to {most:g}")


def check_like(prefix: str, arrays: Mapping[str, NDArray[Any]], own: Mapping[str, NDArray[Any]], n_labels: int) -> None:
    """Raise ValueError unless arrays are finite and have the types and shapes of others.

    Those named "labels" have a column per label, and at most `n_labels`.
    """
    for name, array in own.items():
        given, shape = arrays[name], array.shape
        if name == "labels" and given.ndim == 2:
            shape = (len(array), min(given.shape[1], n_labels))
        if given.shape != shape or given.dtype != array.dtype:
            raise ValueError(f"{prefix}.{name} must be of shape {shape} and type {array.dtype}")
        if not np.isfinite(given).all():
            raise ValueError(f"{prefix}.{name} must be finite")


def check_size(size: NDArray[np.int64]) -> tuple[int, int]:
    """Return the numbers of features and labels of a state; raises ValueError if missing."""
    if size.shape != (2,):
        raise ValueError("state: size must have two numbers")
    check_range("size", size, 0, MAX_COLUMNS)
    return int(size[0]), int(size[1])


def check_threshold(arrays: Mapping[str, NDArray[Any]], *names: str) -> None:
    """Raise ValueError if the first column (the threshold) of one of these arrays is not 0."""
    for name in names:
        if name in arrays and np.any(arrays[name][..., :1]):
            raise ValueError(f"state: the first column of {name} (the threshold) must be 0")


def enlarged(array: NDArray[Any], shape: tuple[int, ...], touch: bool = False) -> NDArray[Any]:
    """Return the array if it has at least this shape, otherwise a larger copy padded with zeros.

    Axes that are too short become at least twice as long, so repeated growth by one costs a constant number of copies
    for each element. With `touch`, zeros are written to the requested shape. Otherwise the system provides each page of
    memory at the first write to it, which takes longer than learning an example.
    """
    for have, need in zip(array.shape, shape, strict=True):
        if have < need:
            break
    else:
        return array
    larger = np.zeros(
        tuple(have if have >= need else max(need, 2 * have) for have, need in zip(array.shape, shape, strict=True)),
        dtype=array.dtype,
    )
    if touch:
        larger[tuple(slice(length) for length in shape)] = 0
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger
