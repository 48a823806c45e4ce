"""Checks of constructor parameters, made when a learner is first used, as scikit-learn does."""

from numbers import Integral

from manylabel_core._parameters import check_count, is_finite
from manylabel_core.online._rounds import MAX_PASSES

MAX_PARAMETER = 2.0**20
"""Largest step size, delta and kernel parameter; the paper searches up to 2^10."""

MAX_PASSES_PER_LABEL = 100.0
"""Largest `passes` as a multiple of the number of labels; the paper searches up to 4."""


def check_positive(name: str, value: object) -> float:
    """Give a number in (0, MAX_PARAMETER] as a float."""
    if is_finite(value) and 0.0 < value <= MAX_PARAMETER:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"{name} must be a number above 0 and at most {MAX_PARAMETER:.0f}, not {value!r}")


def check_not_negative(name: str, value: object) -> float:
    """Give a number in [0, MAX_PARAMETER] as a float."""
    if is_finite(value) and 0.0 <= value <= MAX_PARAMETER:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"{name} must be a number from 0 to {MAX_PARAMETER:.0f}, not {value!r}")


def check_passes(value: object) -> tuple[int, float]:
    """Give `passes` as (passes, 0.0) or, when it is a multiple of the number of labels, (0, passes)."""
    if isinstance(value, Integral):
        return check_count("passes", value, MAX_PASSES), 0.0
    if is_finite(value) and 0.0 < value <= MAX_PASSES_PER_LABEL:  # type: ignore[operator]
        return 0, float(value)  # type: ignore[arg-type]
    raise ValueError(
        f"passes must be an integer from 1 to {MAX_PASSES}, or a float above 0 and at most "
        f"{MAX_PASSES_PER_LABEL:.0f} (a multiple of the number of labels), not {value!r}"
    )
