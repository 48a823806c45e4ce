"""The kernels of `Decisions`: what is made of the scores of examples, in their order.

`labels` is the table of `_logistic`, `counts` that of `_thresholds`; both may be wider than there are labels. Scores
have the threshold first; they come raw and are left with the cuts taken off. Wherever probabilities are made, it is of
scores with the cuts taken off and put back: the same bits, while learning and while predicting.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.calibration._logistic import (
    CENTRE,
    INTERCEPT,
    POSITIVES,
    SLOPE,
    SPREAD,
    WEIGHT,
    correct,
    find_probabilities,
    gather,
)
from manylabel_core.online.calibration._thresholds import MACRO_F1, MICRO_F1, NONE, count, find_cuts, put_back, take_off
from manylabel_core.online.updates._multipass import set_sides


@compiled
def cut_rows(labels, counts, measure, scores):  # type: ignore[no-untyped-def]
    """Take the cuts off."""
    cuts, slopes = np.empty(scores.shape[1] - 1), np.empty(scores.shape[1] - 1)
    find_cuts(labels[SLOPE], labels[INTERCEPT], labels[POSITIVES], counts, measure, cuts, slopes)
    for i in range(len(scores)):
        take_off(scores[i], cuts, slopes)


@compiled
def rate_rows(labels, counts, measure, scores, probabilities):  # type: ignore[no-untyped-def]
    """Write the probabilities that belong to scores with the cuts taken off."""
    slope, intercept = labels[SLOPE], labels[INTERCEPT]
    width = probabilities.shape[1]
    cuts, slopes, margins = np.zeros(width), np.ones(width), np.empty(width)
    if measure != NONE:
        find_cuts(slope, intercept, labels[POSITIVES], counts, measure, cuts, slopes)
    for i in range(len(scores)):
        put_back(scores[i], cuts, slopes, margins)
        find_probabilities(slope, intercept, margins, probabilities[i])


@compiled
def decide_rows(  # type: ignore[no-untyped-def]
    labels, counts, measure, existing, listed_indptr, listed, signs, complete, n_labels, scores, probabilities
):
    """Take the cuts off, write the probabilities, and only then take in the truth, example by example.

    `existing`, of length 1, is the number of labels so far. A label does not count in the example that brings it:
    it is there because it is true. `probabilities` of no rows are not wanted.
    """
    slope, intercept, positives = labels[SLOPE], labels[INTERCEPT], labels[POSITIVES]
    centre, spread, weight = labels[CENTRE], labels[SPREAD], labels[WEIGHT]
    width = scores.shape[1] - 1
    sides, cuts, slopes = np.empty(1 + width, np.int8), np.zeros(width), np.ones(width)
    margins, own = np.empty(width), np.empty(width)
    for i in range(len(scores)):
        now, old = n_labels[i], min(n_labels[i], existing[0])
        existing[0] = max(existing[0], now)
        if measure != NONE:
            find_cuts(slope, intercept, positives, counts, measure, cuts[:now], slopes[:now])
            take_off(scores[i], cuts[:now], slopes[:now])
        put_back(scores[i], cuts, slopes, margins[:now])
        find_probabilities(slope, intercept, margins, own[:now])
        if len(probabilities) > 0:
            probabilities[i, :now] = own[:now]
            probabilities[i, now:] = 0.0
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        set_sides(listed[truth], signs[truth], complete[i], sides[: 1 + now])
        if measure in (MICRO_F1, MACRO_F1):
            count(counts, measure, sides, scores[i], own[:old])
        gather(centre, spread, weight, sides[1 : 1 + old], margins, own)
        correct(slope, intercept, centre, spread, weight, sides[1 : 1 + old], margins, own)
        for p in range(truth.start, truth.stop):
            positives[listed[p]] += (signs[p] > 0) & (listed[p] < old)
