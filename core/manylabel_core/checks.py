"""Checks of constructor parameters that all learners share. Every error is a ValueError that names the parameter."""

import math
from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np


def check_count(name: str, value: object, most: int) -> int:
    """Give an integer from 1 to `most`."""
    if isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) <= most:
        return int(value)
    raise ValueError(f"{name} must be an integer from 1 to {most}, not {shown(value)}")


def check_flag(name: str, value: object) -> bool:
    """Give a truth value."""
    if isinstance(value, (Real, np.bool_)) and value in (True, False):  # not an array, which has no one truth value
        return bool(value)
    raise ValueError(f"{name} must be True or False, not {shown(value)}")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """Give one of the allowed names."""
    if isinstance(value, str) and value in allowed:
        return value
    raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {shown(value)}")


def is_finite(value: object) -> bool:
    """Whether something is a finite real number, and not a truth value."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer or fraction beyond the largest float
        return False


def shown(value: object) -> str:
    """What an error message says of a value."""
    try:
        return repr(value)
    except ValueError:  # Python writes no integer of thousands of digits
        return f"so large a number of type {type(value).__name__}"
