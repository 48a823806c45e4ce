"""The specialisations of compiled functions that learners and trainers use: what is on disk, and how it gets there.

``kernels.txt`` lists them; ``make kernels`` makes it anew, and a test compares it with what the learners use. They are
in tiers, so that a server need not wait for what its models do not use.
"""

from manylabel_core.kernels.filling import KernelsOutdated, compile_missing
from manylabel_core.kernels.listing import TIERS, Counts, count, load, loaded, why_not_shipped

__all__ = ["TIERS", "Counts", "KernelsOutdated", "compile_missing", "count", "load", "loaded", "why_not_shipped"]
