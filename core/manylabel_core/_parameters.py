"""Checks of constructor parameters that all learners share. Every error is a ValueError that names the parameter."""

import math
from collections.abc import Iterable
from numbers import Integral, Real


def check_count(name: str, value: object, most: int) -> int:
    """Give an integer from 1 to `most`."""
    if isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) <= most:
        return int(value)
    raise ValueError(f"{name} must be an integer from 1 to {most}, not {value!r}")


def check_flag(name: str, value: object) -> bool:
    """Give a truth value."""
    if value in (True, False):
        return bool(value)
    raise ValueError(f"{name} must be True or False, not {value!r}")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """Give one of the allowed names."""
    if isinstance(value, str) and value in allowed:
        return value
    raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def is_finite(value: object) -> bool:
    """Whether something is a finite real number, and not a truth value."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
