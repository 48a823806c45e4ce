"""Health of a vocabulary: labels to merge, to put under a parent, to pause, and labels that a model cannot tell.

`suggest` lists them, by counts alone or also by held-out probabilities. `names` compares names, `counts` counts labels
and pairs of labels, `sums` adds up the probabilities that a search for doubts computes.
"""

from manylabel_core.label_health.counts import Truths, VocabularyCounts, count_labels
from manylabel_core.label_health.rules import KINDS, Kind, Suggestion, Why, named_pairs, suggest
from manylabel_core.label_health.sums import ProbabilitySums

__all__ = [
    "KINDS",
    "Kind",
    "ProbabilitySums",
    "Suggestion",
    "Truths",
    "VocabularyCounts",
    "Why",
    "count_labels",
    "named_pairs",
    "suggest",
]
