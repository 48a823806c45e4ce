"""Solvers of the label-coupled dual, which M3L, MLRL and SSMLRL share. Knows no estimator."""

from manylabel_core.solvers.kernel_dual import solve_kernel_dual
from manylabel_core.solvers.linear_dual import solve_linear_dual
from manylabel_core.solvers.result import DualResult, Progress, ProgressCallback
from manylabel_core.solvers.rows import CachedRows, RowSource

__all__ = [
    "CachedRows",
    "DualResult",
    "Progress",
    "ProgressCallback",
    "RowSource",
    "solve_kernel_dual",
    "solve_linear_dual",
]
