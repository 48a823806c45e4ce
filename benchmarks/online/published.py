"""Published prequential results on the same sets, from github.com/aestebant/mlhat.

They are from results/per_dataset/{micro_f1,macro_f1,time_s}.csv. Seconds are those of the whole evaluation on the
authors' machine. The streams are the ARFF files of the KDIS repository, possibly in another order than the files used
here; scene is sorted by class in both.
"""

from typing import NamedTuple


class Published(NamedTuple):
    """Result of one learner on one set."""

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
"""Results of the learner with the best micro-F1 of seventeen, and of MLHAT, the best on average; not available for all
sets.
"""
