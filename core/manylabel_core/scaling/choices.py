"""The scalings by their names."""

from manylabel_core.scaling.automatic import AutomaticScaling
from manylabel_core.scaling.scaling import RunningStandardisation, Scaling, UnitNorm

SCALINGS: dict[str, type[Scaling]] = {
    "auto": AutomaticScaling,
    "none": Scaling,
    "unit": UnitNorm,
    "standard": RunningStandardisation,
}
