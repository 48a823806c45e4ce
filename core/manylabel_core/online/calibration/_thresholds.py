"""Decision thresholds that suit a measure: in probabilities, and in scores.

For the Hamming loss a label is predicted where its probability is above 1/2, for an F measure where it is above half
of the best F (Busa-Fekete et al., Online F-measure optimization, NIPS 2015), and that is estimated as the stream
goes, F / 2 = hits / total: over all labels together (micro), or label by label (macro). The counts are expected ones:
a prediction of probability p is p of a hit. Counts of what turned out true have zeros where labels are rare, and
with a threshold of 0 a label is predicted everywhere. They are slowly forgotten.

In scores, a decision threshold is an offset that is subtracted before the comparison with the learnt threshold. It
grows from 0, the learnt threshold itself, as the label is seen true: to its full size after many times, to half of it
after `patience`. Without patience it is there from the first time on: log-odds of labels are then cut at one place, and
those of a label with neither an example nor a title at 0, a probability of 1/2. The difference is then multiplied by
the slope of the label's curve and divided by that of a new label. It becomes half of the log-odds above those of the
threshold, so that labels of different slopes are ranked about by their probabilities; the score of a new label does not
change.

See Eqs. (16) to (18) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core._elementary import log
from manylabel_core.compiled import compiled
from manylabel_core.online.calibration._logistic import SLOPE, START

NONE, HAMMING, MICRO_F1, MACRO_F1 = range(4)
"""Measures that thresholds are chosen for."""

HITS, TOTAL = range(2)
"""Rows of the counts; the first column stands for all labels, and for the macro-F1 each label has one after it."""

START_COUNTS = (2.5, 10.0)
"""An F of 1/2, with the weight of ten predictions and expected labels."""

KEPT_COUNTS = 0.999
"""Share of the counts kept from one example to the next."""

PATIENCE = 20.0
"""A label that was seen true so often has half of its offset, where scores come from a curve that is fitted too."""

MIN_POSITIVES = 1e-300
"""Lower bound of the divisors below: without patience, a label that was never true has no offset."""

TITLED = MIN_POSITIVES
"""Number of examples assumed for a label that has a title and no example; it gets the common offset once the total is
above SETTLED."""

SETTLED = 20.0
"""Total of examples below which a label that has a title and no example has the threshold 1/2."""

COMMON = 5.0
"""Total at which a label's own F weighs as much as the common one, for the macro-F1."""

MIN_THRESHOLD = 1e-6
"""Smallest threshold of a probability."""

MIN_SLOPE = 2.0**-10
"""Slopes below are taken for it: of such a label, no score says much."""

MAX_OFFSET = 2.0**20
"""Largest offset in scores, where margins are meant to be about 1."""


@compiled
def find_offsets(slope, intercept, positives, counts, measure, patience, offsets, slopes):  # type: ignore[no-untyped-def]
    """Write the offset of every label, and its slope over that of a new label, above 0, for `subtract_offsets`."""
    _find_logits(counts, measure, offsets)
    least = 0.0 if measure != HAMMING and counts[TOTAL, 0] > SETTLED else TITLED
    for label in range(len(offsets)):
        steep = max(slope[label], MIN_SLOPE)
        full = (offsets[label] - intercept[label]) / steep
        trust = positives[label] / max(positives[label] + patience, MIN_POSITIVES)
        trust = trust if positives[label] > least else 0.0
        offsets[label] = min(max(trust * full, -MAX_OFFSET), MAX_OFFSET)
        slopes[label] = steep / START[SLOPE]


@compiled
def _find_logits(counts, measure, logits):  # type: ignore[no-untyped-def]
    """Write the logit of every label's threshold."""
    common = counts[HITS, 0] / counts[TOTAL, 0] if measure != HAMMING else 0.5
    if measure == MACRO_F1:
        for label in range(len(logits)):
            hits, total = counts[HITS, 1 + label] + COMMON * common, counts[TOTAL, 1 + label] + COMMON
            logits[label] = _logit(hits / total)
    else:
        logits[:] = _logit(common)


@compiled
def _logit(probability):  # type: ignore[no-untyped-def]
    """Return the logit of F / 2, which is at most 1/2."""
    probability = min(max(probability, MIN_THRESHOLD), 0.5)
    return log(probability / (1.0 - probability))


@compiled
def subtract_offsets(scores, offsets, slopes):  # type: ignore[no-untyped-def]
    """Lower the margins of an example's labels, scores above the threshold in front, by the offsets; times slopes."""
    threshold, labels = scores[0], scores[1:]
    for label in range(len(offsets)):
        labels[label] = threshold + ((labels[label] - threshold) - offsets[label]) * slopes[label]


@compiled
def add_offsets(scores, offsets, slopes, margins):  # type: ignore[no-untyped-def]
    """Write the margins of an example's labels before the offsets were subtracted."""
    threshold, labels = scores[0], scores[1:]
    for label in range(len(margins)):
        margins[label] = (labels[label] - threshold) / slopes[label] + offsets[label]


@compiled
def count_expected(counts, measure, signs, weight, scores, probabilities):  # type: ignore[no-untyped-def]
    """Add the known labels of an example to the counts, by its weight.

    Given are its lowered scores, and its probabilities.
    """
    hits, total, n_known = 0.0, 0.0, 0
    for label in range(len(probabilities)):
        known, predicted = np.float64(signs[1 + label] != 0), np.float64(scores[1 + label] > scores[0])
        own = weight * known
        hit, shown = own * predicted * probabilities[label], own * (predicted + probabilities[label])
        if measure == MACRO_F1:
            counts[HITS, 1 + label] += hit
            counts[TOTAL, 1 + label] += shown
        hits += hit
        total += shown
        n_known += signs[1 + label] != 0
    if n_known > 0:
        counts[HITS, 0] = KEPT_COUNTS * counts[HITS, 0] + hits
        counts[TOTAL, 0] = KEPT_COUNTS * counts[TOTAL, 0] + total
