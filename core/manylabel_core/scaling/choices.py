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


def make_scaling(name: str, missing: str) -> Scaling:
    """Return a new scaling by one of `SCALINGS` and one of `MISSING`; raises ValueError if they conflict."""
    make = SCALINGS[name]
    if issubclass(make, AutomaticScaling):
        return make(missing)
    if missing != "zero":
        raise ValueError(f"missing must be 'zero' with scaling={name!r}, not {missing!r}")
    return make()
