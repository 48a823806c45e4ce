"""Rows of data frames as river's dicts, and results as data frames of the same kind."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river.utils.dataframe import into_frame, to_native_frame


def rows_of(frame: Any, name: str) -> list[dict[Hashable, Any]]:
    """Return the rows of a data frame as dicts without missing values (None, NaN, NA); raise TypeError for anything
    else."""
    try:
        wrapped = into_frame(frame)
    except TypeError as error:
        raise TypeError(f"{name} must be a data frame, not {type(frame).__name__}") from error
    names: Sequence[Hashable] = wrapped.columns
    return [
        {column: value for column, value in zip(names, row, strict=True) if not _is_missing(value)}
        for row in wrapped.iter_rows()
    ]


def pairs_of(X: Any, y: Any) -> list[tuple[dict[Hashable, Any], dict[Hashable, Any]]]:
    """Return the rows of two data frames; raise ValueError if their lengths differ, and the errors of `rows_of`."""
    xs, ys = rows_of(X, "X"), rows_of(y, "y")
    if len(xs) != len(ys):
        raise ValueError(f"y must have {len(xs)} rows, like X, not {len(ys)}")
    return list(zip(xs, ys, strict=True))


def frame_of(columns: Mapping[Hashable, NDArray[Any]], like: Any) -> Any:
    """Return columns as a data frame of the kind and with the index of another one."""
    wrapped = into_frame(like)
    if columns:
        return to_native_frame(dict(columns), like=wrapped)
    return wrapped.select().to_native() if not wrapped.implementation.is_pandas_like() else like.iloc[:, :0].copy()


def _is_missing(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
