"""The scalings by name."""

from manylabel_core.scaling.automatic import AutomaticScaling
from manylabel_core.scaling.scaling import Scaling, UnitNorm

SCALINGS: dict[str, type[Scaling]] = {
    "auto": AutomaticScaling,
    "none": Scaling,
    "unit": UnitNorm,
}

MISSING = ("mean", "zero")
"""Replacements of a missing quantity."""


def check_scaling(name: str, missing: str) -> None:
    """Raise ValueError if a scaling and a replacement of missing quantities conflict."""
    if missing != "zero" and not issubclass(SCALINGS[name], AutomaticScaling):
        raise ValueError(f"missing must be 'zero' with scaling={name!r}, not {missing!r}")


def make_scaling(name: str, missing: str) -> Scaling:
    """Return a new scaling by the names of a scaling and of a replacement, which have passed `check_scaling`."""
    make = SCALINGS[name]
    return make(missing) if issubclass(make, AutomaticScaling) else make()
