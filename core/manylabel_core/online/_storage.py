"""Arrays that grow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
