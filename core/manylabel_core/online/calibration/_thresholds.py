"""Cuts of probabilities that suit a measure, and what they are in scores.

For the Hamming loss a label is predicted where its probability is above 1/2, for an F measure where it is above half
of the best F (Busa-Fekete et al., Online F-measure optimization, NIPS 2015), and that is estimated as the stream
goes, F / 2 = hits / total: over all labels together (micro), or label by label (macro). The counts are expected ones:
a prediction of probability p is p of a hit. Counts of what turned out true have zeros where labels are rare, and
from a cut of 0 a label is predicted everywhere. They are slowly forgotten.

In scores, a cut is taken off before the comparison with the threshold. It grows from 0, the learnt threshold itself, as
the label is seen true: of its full size after many times, of half of it after PATIENCE. What is left is multiplied by
the slope of the label's probability, over that of a new label: it is half of what the log-odds are above those of the
cut, so that labels of different slopes stand about in the order of their probabilities, and a new label is left alone.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.calibration._logistic import SLOPE, START

NONE, HAMMING, MICRO_F1, MACRO_F1 = range(4)
"""What cuts are chosen for."""

HITS, TOTAL = range(2)
"""Rows of the counts; their one column stands for all labels, or there is one for each."""

START_COUNTS = (0.25, 1.0)
"""An F of 1/2, soon outweighed."""

KEPT_COUNTS = 0.999
"""Share of the counts kept from one example to the next."""

PATIENCE = 20.0

LEAST_CUT = 1e-6
"""Least probability that is cut at."""

LEAST_SLOPE = 2.0**-10
"""Slopes below are taken for it: of such a label, no score says much."""

MAX_CUT = 2.0**20
"""Largest cut in scores, where margins are meant to be about 1."""


@compiled
def find_cuts(slope, intercept, positives, counts, measure, cuts, slopes):  # type: ignore[no-untyped-def]
    """Write the cut of every label, and its slope in that of a new label, above 0, that `take_off` multiplies by."""
    _find_logits(counts, measure, cuts)
    for label in range(len(cuts)):
        steep = max(slope[label], LEAST_SLOPE)
        full = (cuts[label] - intercept[label]) / steep
        trust = positives[label] / (positives[label] + PATIENCE)
        cuts[label] = min(max(trust * full, -MAX_CUT), MAX_CUT)
        slopes[label] = steep / START[SLOPE]


@compiled
def _find_logits(counts, measure, cuts):  # type: ignore[no-untyped-def]
    """Write the logit that every label is to be cut at."""
    if measure == MACRO_F1:
        for label in range(len(cuts)):
            cuts[label] = _logit(counts[HITS, label] / counts[TOTAL, label])
    else:
        cuts[:] = _logit(counts[HITS, 0] / counts[TOTAL, 0]) if measure == MICRO_F1 else 0.0


@compiled
def _logit(cut):  # type: ignore[no-untyped-def]
    """Of F / 2, which is at most 1/2."""
    cut = min(max(cut, LEAST_CUT), 0.5)
    return np.log(cut / (1.0 - cut))


@compiled
def take_off(scores, cuts, slopes):  # type: ignore[no-untyped-def]
    """Lower the margins of an example's labels, scores above the threshold in front, by the cuts; times slopes."""
    threshold, labels = scores[0], scores[1:]
    for label in range(len(cuts)):
        labels[label] = threshold + ((labels[label] - threshold) - cuts[label]) * slopes[label]


@compiled
def put_back(scores, cuts, slopes, margins):  # type: ignore[no-untyped-def]
    """Write the margins of an example's labels before the cuts were taken off."""
    threshold, labels = scores[0], scores[1:]
    for label in range(len(margins)):
        margins[label] = (labels[label] - threshold) / slopes[label] + cuts[label]


@compiled
def count(counts, measure, sides, scores, probabilities):  # type: ignore[no-untyped-def]
    """Take an example into the counts, where its truth is known: its scores less the cuts, and its probabilities."""
    hits, total, n_known = 0.0, 0.0, 0
    for label in range(len(probabilities)):
        known, predicted = np.float64(sides[1 + label] != 0), np.float64(scores[1 + label] > scores[0])
        hit, shown = known * predicted * probabilities[label], known * (predicted + probabilities[label])
        if measure == MACRO_F1 and known > 0.0:
            counts[HITS, label] = KEPT_COUNTS * counts[HITS, label] + hit
            counts[TOTAL, label] = KEPT_COUNTS * counts[TOTAL, label] + shown
        hits += hit
        total += shown
        n_known += sides[1 + label] != 0
    if measure == MICRO_F1 and n_known > 0:
        counts[HITS, 0] = KEPT_COUNTS * counts[HITS, 0] + hits
        counts[TOTAL, 0] = KEPT_COUNTS * counts[TOTAL, 0] + total
