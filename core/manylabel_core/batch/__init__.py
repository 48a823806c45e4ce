"""Batch learners in the manners of scikit-learn: large margins on the label-coupled dual, and LSA-MML for views."""

from manylabel_core.batch.lsa_mml import LSAMML
from manylabel_core.batch.m3l import M3L
from manylabel_core.batch.mlrl import MLRL
from manylabel_core.batch.prbr import PrBR
from manylabel_core.batch.prml import PrML
from manylabel_core.batch.ssmlrl import SSMLRL

__all__ = ["LSAMML", "M3L", "MLRL", "SSMLRL", "PrBR", "PrML"]
