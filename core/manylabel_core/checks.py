"""Checks of parameters and matrices shared by all of core. Every error is a ValueError that names the argument.

A matrix is an ndarray or a CSR array. These have no common type, so matrices are annotated as `Any`.
"""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import scipy.sparse as sp


class TooFewRows(ValueError):
    """The rows are too few or too similar for the parameters; more rows may suffice."""


def check_count(name: str, value: object, most: int) -> int:
    """Return an integer from 1 to `most`."""
    if isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) <= most:
        return int(value)
    raise ValueError(f"{name} must be an integer from 1 to {most}, not {shown(value)}")


def is_finite(value: object) -> bool:
    """Return whether a value is a finite real number and not a boolean."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer or fraction above the largest float
        return False


def shown(value: object) -> str:
    """Return a value as text for an error message."""
    try:
        return repr(value)
    except ValueError:  # Python formats no integer with thousands of digits
        return f"so large a number of type {type(value).__name__}"


def is_sparse(matrix: Any) -> bool:
    """Return whether a matrix is sparse; a wrapper because `issparse` narrows types too far."""
    return bool(sp.issparse(matrix))


def canonical(X: sp.csr_array) -> sp.csr_array:
    """Return a matrix with sorted entries, repeated ones added as SciPy defines it; the caller's
    matrix is unchanged.
    """
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def check_zero_one(name: str, matrix: Any) -> None:
    """Raise unless each entry of a matrix is 0 or 1 (or False or True), a bounded number of entries at a time."""
    stored = matrix.data if is_sparse(matrix) else matrix
    step = max(1, _CHECKED_ENTRIES * len(stored) // max(1, stored.size))
    for first in range(0, len(stored), step):
        part = stored[first : first + step]
        wrong = (part != 0) & (part != 1)  # NaN fails both comparisons
        if wrong.any():
            raise ValueError(f"{name} must contain only 0 and 1, not {part[wrong].flat[0]}")


_CHECKED_ENTRIES = 1 << 18


def names_hint(Y: Any) -> str:
    """Return a hint for an error about label data that list names, such as `[["rock", "jazz"], ["folk"]]`; otherwise
    "".
    """
    if is_sparse(Y) or hasattr(Y, "columns") or not isinstance(Y, Iterable):
        return ""
    values = (value for row in Y for value in ([row] if isinstance(row, str) or not isinstance(row, Iterable) else row))
    if not isinstance(next(values, None), str):
        return ""
    return "; for lists of names give sklearn.preprocessing.MultiLabelBinarizer().fit_transform(lists)"
