"""Batch learners with scikit-learn's interface: large margins by the label-coupled dual, and LSA-MML for views.

`catalogue` lists all learners by name, with their parameters. Learners are imported on request, because they load
numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manylabel_core.batch.lsa_mml import LSAMML
    from manylabel_core.batch.m3l import M3L
    from manylabel_core.batch.mlrl import MLRL
    from manylabel_core.batch.prbr import PrBR
    from manylabel_core.batch.prml import PrML
    from manylabel_core.batch.ssmlrl import SSMLRL

__all__ = ["LSAMML", "M3L", "MLRL", "SSMLRL", "PrBR", "PrML"]

_MODULES = {"LSAMML": "lsa_mml", "M3L": "m3l", "MLRL": "mlrl", "PrBR": "prbr", "PrML": "prml", "SSMLRL": "ssmlrl"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
