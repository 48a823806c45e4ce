"""Columns of data frames (pandas, Polars, PyArrow) by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def column_names(frame: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame; none for an array, or a frame whose columns are only numbered.

    Raises ValueError if only some names are strings, names have several levels, or two columns have the same name.
    """
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None or not any(isinstance(name, (str, tuple)) for name in names):
        return ()
    seen = set[str]()
    for name in names:
        if not isinstance(name, str):
            levels = ": join its levels, for example with '.'.join(name)" if isinstance(name, tuple) else ""
            raise ValueError(f"names of columns must be strings, not {name!r}{levels}")
        if name in seen:
            raise ValueError(f"two columns have the name {name!r}")
        seen.add(name)
    return tuple(names)


def arranged(name: str, matrix: Any, known: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """Return a matrix with the columns `known` first, in this order, and the names of all its columns.

    An array is returned as it is, without names: its columns are known by position.

    Raises ValueError if a data frame lacks a column of `known`; see also `column_names`.
    """
    names = column_names(matrix)
    if not names or names[: len(known)] == tuple(known):
        return matrix, names
    given = set(names)
    if lacking := [each for each in known if each not in given]:
        others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise ValueError(f"{name} must have the columns seen before; it lacks {lacking[0]!r}{others}")
    seen = set(known)
    order = [*known, *(each for each in names if each not in seen)]
    return matrix.select(order) if hasattr(matrix, "select") else matrix[order], tuple(order)


def as_array(matrix: Any, name: str) -> NDArray[Any]:
    """Return an array, or a data frame as an array in which missing cells are NaN.

    Raises ValueError with the name of the first column that does not hold numbers.
    """
    given = np.asarray(matrix)
    names = column_names(matrix) if given.dtype == object else ()
    if not names:
        return given
    # Columns with pandas' nullable types, or of several types, make an array of objects.
    columns = [_numbers(matrix[each], f"column {each!r} of {name}") for each in names]
    return np.column_stack(columns)


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    values = np.asarray(column)
    if values.dtype == object:
        values = np.array([np.nan if _is_missing(value) else value for value in values])
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must contain numbers, not {values.dtype}")
    return values.astype(np.float64)


def _is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)
