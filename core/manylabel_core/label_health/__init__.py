"""Health of a vocabulary: labels to merge, to put under a parent, to pause, and vague labels, which a model cannot
predict.

`suggest` lists them, by counts alone or also by held-out probabilities. `names` compares names, `counts` counts labels
and pairs of labels, `sums` adds up the probabilities that a search for doubts computes. `trial` computes the metrics of
a stream without and with a change of a label.
"""

from manylabel_core.label_health.counts import Truths, VocabularyCounts, count_labels
from manylabel_core.label_health.rules import KINDS, Kind, Suggestion, Why, named_pairs, suggest
from manylabel_core.label_health.sums import ProbabilitySums
from manylabel_core.label_health.trial import Change, Labels, Trial, TrialMetrics, try_change

__all__ = [
    "KINDS",
    "Change",
    "Kind",
    "Labels",
    "ProbabilitySums",
    "Suggestion",
    "Trial",
    "TrialMetrics",
    "Truths",
    "VocabularyCounts",
    "Why",
    "count_labels",
    "named_pairs",
    "suggest",
    "try_change",
]
