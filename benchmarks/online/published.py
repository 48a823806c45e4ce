"""What others have published on the same sets: the results of github.com/aestebant/mlhat, prequential.

From its files results/per_dataset/{micro_f1,macro_f1,time_s}.csv. The seconds are those of the whole evaluation, on its
authors' machine. Its streams are the ARFF files of the KDIS repository in their order, which may be another one than
that of the files used here; scene's is sorted by class in both.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One learner's result on one set."""

    method: str
    micro_f1: float
    macro_f1: float
    seconds: float


PUBLISHED = {
    "emotions": (Published("NB", 0.629, 0.624, 1.59), Published("MLHAT", 0.445, 0.430, 4.08)),
    "scene": (Published("MLHAT", 0.936, 0.941, 38.8),),
    "yeast": (Published("MLBELS", 0.613, 0.377, 28.4), Published("MLHAT", 0.598, 0.372, 25.9)),
    "enron": (Published("MLBELS", 0.520, 0.099, 7339.0), Published("MLHAT", 0.436, 0.177, 1218.0)),
    "corel5k": (Published("ARF", 0.316, 0.087, 7764.0), Published("MLHAT", 0.284, 0.083, 8204.0)),
    "bibtex": (Published("MLHAT", 0.347, 0.225, 19367.0),),
    "tmc2007_500": (Published("MLBELS", 0.641, 0.305, 376309.0), Published("MLHAT", 0.638, 0.523, 2349.0)),
}
"""The learner with the best micro-F1 of the seventeen, and their own, the best on average. Not for the other sets."""
