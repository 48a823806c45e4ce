"""Decision thresholds that optimise a metric: in probabilities, Eq. (15), and in scores, Eqs. (16) and (17).

The counts are expected ones: a prediction of probability p is p of a hit. Counts of true labels are zero where labels
are rare, and with a threshold of 0 a label would be predicted everywhere.

Without patience the offset has its full size from the first example of a label. Then the log-odds of all labels have
one threshold, or 0 (a probability of 1/2) for a label with neither an example nor a title.
"""

import numpy as np

from manylabel_core._elementary import log
from manylabel_core.compiled import compiled
from manylabel_core.online.calibration._logistic import SLOPE, START

NONE, HAMMING, MICRO_F1, MACRO_F1 = range(4)
"""Measures that thresholds can optimise."""

HITS, TOTAL = range(2)
"""Rows of the counts. The first column is of all labels together; for macro-F1, each label has one more."""

START_COUNTS = (2.5, 10.0)
"""An F of 1/2, with the weight of ten predictions and expected labels."""

KEPT_COUNTS = 0.999
"""Share of the counts kept from one example to the next."""

PATIENCE = 20.0
"""Number of positive examples with which a label has half of its offset, if its curve is fitted online."""

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
"""Lower bound of slopes: with a smaller slope, scores hardly affect the probability."""

MAX_OFFSET = 2.0**20
"""Largest offset in scores; margins should be about 1."""


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
    """Add the known labels of an example, with its lowered scores and probabilities, to the counts, by its weight."""
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
