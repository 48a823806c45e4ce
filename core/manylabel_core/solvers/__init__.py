"""Solvers for the label-coupled dual of M3L, MLRL and SSMLRL, and for PrML's SVM+ dual; independent of estimators."""

from manylabel_core.solvers.coupled.gram_rows import CachedRows, RowSource, StoredGram
from manylabel_core.solvers.coupled.kernel_dual import solve_kernel_dual
from manylabel_core.solvers.coupled.linear_dual import solve_linear_dual
from manylabel_core.solvers.privileged.dual import Privileged, PrivilegedResult, solve_privileged_dual
from manylabel_core.solvers.result import DualResult, Progress, ProgressCallback

__all__ = [
    "CachedRows",
    "DualResult",
    "Privileged",
    "PrivilegedResult",
    "Progress",
    "ProgressCallback",
    "RowSource",
    "StoredGram",
    "solve_kernel_dual",
    "solve_linear_dual",
    "solve_privileged_dual",
]
