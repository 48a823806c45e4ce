"""Batch learners: scikit-learn estimators on one solver, the label-coupled dual."""

from manylabel_core.batch.m3l import M3L
from manylabel_core.batch.mlrl import MLRL
from manylabel_core.batch.ssmlrl import SSMLRL

__all__ = ["M3L", "MLRL", "SSMLRL"]
