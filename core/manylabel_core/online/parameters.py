"""Parameters of the online learners: checks, made at the first use as in scikit-learn, and documentation."""

import textwrap
from collections.abc import Mapping
from numbers import Integral
from typing import Any

from manylabel_core.checks import check_choice, check_count, is_finite, shown
from manylabel_core.online.updates._multipass import MAX_PASSES

MAX_PARAMETER = 2.0**20
"""Largest step size, delta and kernel parameter; the paper searches up to 2^10."""

MAX_PASSES_PER_LABEL = 100.0
"""Largest `passes_per_label`; the paper searches up to 4."""

DEFAULT_PASSES_PER_LABEL = 1.0

GRADIENT = "gradient"
"""The step of the paper, by passes; the others are implicit updates."""

STACKED = "stacked"
"""Several experts, one of them a model that takes steps, whose margins become log-odds."""

Documentation = Mapping[str, tuple[str, str]]
"""By the name of a parameter, the allowed values, and what it does."""


def check_positive(name: str, value: object) -> float:
    """Return a number in (0, MAX_PARAMETER] as a float."""
    if is_finite(value) and 0.0 < value <= MAX_PARAMETER:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"{name} must be a number above 0 and at most {MAX_PARAMETER:.0f}, not {value!r}")


def check_not_negative(name: str, value: object) -> float:
    """Return a number in [0, MAX_PARAMETER] as a float."""
    if is_finite(value) and 0.0 <= value <= MAX_PARAMETER:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"{name} must be a number from 0 to {MAX_PARAMETER:.0f}, not {value!r}")


def check_seed(value: object) -> int:
    """Return a seed from 0 to 2^63 - 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < 2**63:
        raise ValueError(f"seed must be an integer from 0 to 2^63 - 1, not {shown(value)}")
    return int(value)


def check_passes(passes: object, passes_per_label: object) -> tuple[int, float]:
    """Return both values, one of which is given: (passes, 0.0) or (0, passes_per_label)."""
    if passes is not None and passes_per_label is not None:
        raise ValueError("passes must be None where passes_per_label is given")
    if passes is not None:
        return check_count("passes", passes, MAX_PASSES), 0.0
    multiple = DEFAULT_PASSES_PER_LABEL if passes_per_label is None else passes_per_label
    if is_finite(multiple) and 0.0 < multiple <= MAX_PASSES_PER_LABEL:  # type: ignore[operator]
        return 0, float(multiple)  # type: ignore[arg-type]
    raise ValueError(
        f"passes_per_label must be a number above 0 and at most {MAX_PASSES_PER_LABEL:.0f}, not {shown(multiple)}"
    )


def resolve_step(step: object, passes: object, passes_per_label: object, steps: Mapping[str, float]) -> str:
    """Return the kind of step: the requested one, the paper's if passes are given, else the first (the best)."""
    given = {"passes": passes, "passes_per_label": passes_per_label}
    named = [name for name, value in given.items() if value is not None]
    kind = check_choice("step", step, steps) if step is not None else GRADIENT if named else next(iter(steps))
    if named and kind != GRADIENT:
        raise ValueError(f"{named[0]} must be None with step={kind!r}, which makes no passes")
    return kind


def describe_parameters(learner: type[Any]) -> str:
    """Return the section of a docstring on the parameters of a class, which are its fields, in their order.

    The text on a parameter is in `_documentation` of the class or of that base which has it.
    """
    lines = []
    for name in (name for name in learner.__annotations__ if not name.startswith("_")):
        allowed, text = next(vars(base)["_documentation"][name] for base in learner.__mro__ if _describes(base, name))
        lines.append(f"    {name} : {allowed}, default={getattr(learner, name)!r}".replace("'", '"'))
        lines.append(textwrap.fill(text, 120, initial_indent=8 * " ", subsequent_indent=8 * " "))
    return "Parameters\n    ----------\n" + "\n".join(lines)


def _describes(base: type[Any], name: str) -> bool:
    return name in vars(base).get("_documentation", {})
