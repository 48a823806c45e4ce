"""The scalings by their names."""

from manylabel_core.online.scaling.automatic import AutomaticScaling
from manylabel_core.online.scaling.scaling import RunningStandardisation, Scaling, UnitNorm

SCALINGS: dict[str, type[Scaling]] = {
    "auto": AutomaticScaling,
    "none": Scaling,
    "unit": UnitNorm,
    "standard": RunningStandardisation,
}
