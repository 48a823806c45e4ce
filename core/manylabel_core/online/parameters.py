"""Checks of constructor parameters, made when a learner is first used, as scikit-learn does."""

from collections.abc import Mapping
from numbers import Integral

from manylabel_core.checks import check_choice, check_count, is_finite, shown
from manylabel_core.online.updates._multipass import MAX_PASSES

MAX_PARAMETER = 2.0**20
"""Largest step size, delta and kernel parameter; the paper searches up to 2^10."""

MAX_PASSES_PER_LABEL = 100.0
"""Largest `passes` as a multiple of the number of labels; the paper searches up to 4."""

GRADIENT = "gradient"
"""The step of the paper, by passes; the others solve each round exactly."""

COIN = "coin"
"""The step without a size."""

PAIRED = "paired"
"""Two models, one with steps that shrink and one with steady ones."""

DEFAULT_PASSES = 1.0


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


def check_without_sizes(kind: str, **sizes: object) -> None:
    """Raise ValueError if one of the sizes is given where the step has none."""
    for name, value in sizes.items():
        if value is not None:
            raise ValueError(f"{name} must be None with step={kind!r}, not {shown(value)}: a bet has no size to choose")


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


def chosen_step(step: object, passes: object, etas: Mapping[str, float]) -> str:
    """The kind of step: as asked for, the paper's where passes are given, else the first of `etas`, which is the best.

    Raises
    ------
    ValueError
        If `step` is none of `etas`, or `passes` are given where there are none.
    """
    kind = (
        check_choice("step", step, etas) if step is not None else GRADIENT if passes is not None else next(iter(etas))
    )
    if passes is not None and kind != GRADIENT:
        raise ValueError(f"passes must be None with step={kind!r}: each round is solved exactly")
    return kind
