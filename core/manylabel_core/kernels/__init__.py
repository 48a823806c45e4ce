"""The specialisations of compiled functions that learners and trainers use, and their compilation to disk.

``kernels.txt`` lists them by tier, so that a server need not wait for functions that its models do not use. ``make
kernels`` makes the list, and a test compares it with the functions that the learners use.
"""

from manylabel_core.kernels.filling import KernelsOutdated, compile_missing, n_cores
from manylabel_core.kernels.listing import TIERS, Counts, count, load, why_not_shipped

__all__ = [
    "TIERS",
    "Counts",
    "KernelsOutdated",
    "compile_missing",
    "count",
    "load",
    "n_cores",
    "why_not_shipped",
]
