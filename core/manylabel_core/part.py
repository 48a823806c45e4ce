"""Parts of a pipeline: the table of arrays of each part determines its growth, bytes, checks, snapshot and restore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.storage import check_range, enlarged

Sizes = dict[str, int]
"""Lengths and bounds by name: "features", "labels", "rows" (1 + features), "columns" (1 + labels), and names of a part.
"""


class Array(NamedTuple):
    """Array in the table of a part.

    Bounds and initial values apply to the whole array, or to each index of the first axis of constant length.
    """

    shape: tuple[int | str, ...]  # length of each axis; a string names one of `Sizes`
    bounds: tuple[tuple[float, float | str], ...]  # least and largest value; empty if the part checks the array itself
    start: tuple[float, ...] = (0.0,)  # values of new elements
    dtype: str = "float64"

    def shape_of(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the shape with the given sizes."""
        return tuple([sizes[length] if isinstance(length, str) else length for length in self.shape])

    def nbytes(self, sizes: Sizes) -> int:
        """Return the bytes with the given sizes; called several times per update."""
        n = np.dtype(self.dtype).itemsize
        for length in self.shape:
            n *= sizes[length] if isinstance(length, str) else length
        return n

    def larger(self, array: NDArray[Any], sizes: Sizes, touch: bool = False) -> NDArray[Any]:
        """Return the array enlarged to at least the given sizes; see `enlarged`."""
        larger = enlarged(array, self.shape_of(sizes), touch)
        if larger is not array and any(self.start):
            start = np.array(self.start)
            larger[...] = start if self._axis == len(self.shape) - 1 else start[:, np.newaxis]
            larger[tuple(map(slice, array.shape))] = array
        return larger

    def check(self, name: str, array: NDArray[Any], sizes: Sizes) -> None:
        """Raise ValueError if an array has another type, or another shape than the sizes require, or exceeds a
        bound."""
        expected = np.dtype(self.dtype), self.shape_of(sizes)
        if (array.dtype, array.shape) != expected:
            found = f"{array.dtype} of {array.shape}"
            raise ValueError(f"state: {name} must be {expected[0]} of shape {expected[1]}, not {found}")
        before: tuple[Any, ...] = (slice(None),) * self._axis
        for index, (least, most) in enumerate(self.bounds):
            part = array if len(self.bounds) == 1 else array[(*before, index)]
            check_range(name, part, least, sizes[most] if isinstance(most, str) else most)

    @property
    def _axis(self) -> int:
        """Return the first axis of constant length, or the last axis if every axis can grow."""
        fixed = (axis for axis, length in enumerate(self.shape) if isinstance(length, int))
        return next(fixed, len(self.shape) - 1)


def without_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, by their names without the prefix."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


class Part:
    """Part of a pipeline that has an attribute for each array of its table: "x" is in `_x`.

    Attributes have spare capacity for features and labels; `n_features` and `n_labels` are the existing columns. Names
    in a state begin with `prefix`.
    """

    prefix: ClassVar[str] = ""

    def __init__(self, table: Mapping[str, Array] | None = None) -> None:
        self.n_features = self.n_labels = 0
        self._declared = dict(table or {})
        sizes = self._sizes(0, 0)
        for name, each in self._declared.items():
            setattr(self, f"_{name}", each.larger(np.zeros((0,) * len(each.shape), each.dtype), sizes))

    def _sizes(self, n_features: int, n_labels: int, arrays: Mapping[str, NDArray[Any]] | None = None) -> Sizes:
        """Return the sizes with these columns; the sizes of a part may depend on the arrays of a state."""
        return {"features": n_features, "labels": n_labels, "rows": 1 + n_features, "columns": 1 + n_labels}

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        """Allocate memory for at least these numbers of columns, without other changes; `touch` as in `enlarged`."""
        sizes = self._sizes(n_features, n_labels)
        for name, each in self._declared.items():
            setattr(self, f"_{name}", each.larger(getattr(self, f"_{name}"), sizes, touch))

    def grow(self, n_features: int = 0, n_labels: int = 0) -> None:
        """Grow to at least these numbers of columns."""
        self.reserve(n_features, n_labels)
        self.n_features, self.n_labels = max(n_features, self.n_features), max(n_labels, self.n_labels)

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes of the state with these numbers of columns, after more examples and values."""
        sizes = self._sizes(n_features, n_labels)
        return sum([each.nbytes(sizes) for each in self._declared.values()])

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the state with these numbers of columns; views where possible."""
        sizes = self._sizes(n_features, n_labels)
        return {
            self.prefix + name: getattr(self, f"_{name}")[tuple(map(slice, each.shape_of(sizes)))]
            for name, each in self._declared.items()
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of the columns that exist; views where possible."""
        return self.arrays(self.n_features, self.n_labels)

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int, n_labels: int) -> None:
        """Restore owned arrays with these numbers of columns; raise ValueError, without changes, if one is invalid."""
        own = {name: arrays[self.prefix + name] for name in self._declared}
        sizes = self._sizes(n_features, n_labels, own)
        for name, each in self._declared.items():
            each.check(self.prefix + name, own[name], sizes)
        self._check(own)
        self.n_features, self.n_labels = n_features, n_labels
        for name, array in own.items():
            setattr(self, f"_{name}", array)

    def _check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raise ValueError if arrays with valid shapes and bounds are inconsistent."""

    def forget(self, label: int) -> None:
        """Reset a label to the state of a new one."""
