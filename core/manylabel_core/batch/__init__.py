"""Batch learners with scikit-learn's interface: large margins by the label-coupled dual, and LSA-MML for views.

`catalogue` lists all learners by name, with their parameters. Learners are imported on request, because they load
numba.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manylabel_core.batch.lsa_mml import LSAMML
    from manylabel_core.batch.m3l import M3L
    from manylabel_core.batch.mlrl import MLRL
    from manylabel_core.batch.prbr import PrBR
    from manylabel_core.batch.prml import PrML
    from manylabel_core.batch.ssmlrl import SSMLRL

__all__ = ["LSAMML", "M3L", "MLRL", "SSMLRL", "PrBR", "PrML"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from manylabel_core.batch.catalogue import TRAINERS

        return next(trainer for trainer in TRAINERS.values() if trainer.estimator == name).estimator_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
