"""Calibration of the scores of examples, in their order.

`labels` is the table of `_logistic`, `counts` that of `_thresholds`; both may be wider than there are labels. Scores
have the learnt threshold first; they come raw and are left lowered by the offsets. Wherever probabilities are made, it
is of scores with the offsets subtracted and added again: the same bits, while learning and while predicting.
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
    bend_probabilities,
    correct,
    find_probabilities,
    gather,
    learn_bend,
)
from manylabel_core.online.calibration._thresholds import (
    MACRO_F1,
    MICRO_F1,
    NONE,
    add_offsets,
    count_expected,
    find_offsets,
    subtract_offsets,
)
from manylabel_core.online.updates._targets import set_signs, weight_of


@compiled
def decide_rows(labels, counts, measure, patience, scores):  # type: ignore[no-untyped-def]
    """Subtract the offsets."""
    offsets, slopes = np.empty(scores.shape[1] - 1), np.empty(scores.shape[1] - 1)
    find_offsets(labels[SLOPE], labels[INTERCEPT], labels[POSITIVES], counts, measure, patience, offsets, slopes)
    for i in range(len(scores)):
        subtract_offsets(scores[i], offsets, slopes)


@compiled
def find_row_probabilities(labels, counts, bend, measure, patience, scores, probabilities):  # type: ignore[no-untyped-def]
    """Write the probabilities that belong to lowered scores."""
    slope, intercept = labels[SLOPE], labels[INTERCEPT]
    width = probabilities.shape[1]
    offsets, slopes, margins = np.zeros(width), np.empty(width), np.empty(width)
    slopes[:] = 1.0
    if measure != NONE:
        find_offsets(slope, intercept, labels[POSITIVES], counts, measure, patience, offsets, slopes)
    for i in range(len(scores)):
        add_offsets(scores[i], offsets, slopes, margins)
        find_probabilities(slope, intercept, margins, probabilities[i])
        bend_probabilities(bend, slope, intercept, margins, probabilities[i])


@compiled
def calibrate_rows(labels, counts, bend, measure, patience, fitted, existing, targets, scores, probabilities):  # type: ignore[no-untyped-def]
    """For each example, subtract the offsets, write the probabilities, and then learn the true labels.

    `existing`, of length 1, is the number of labels so far; a label does not count in its first example.
    `probabilities` without rows are not written. Without `fitted`, curves do not change, and offsets have their full
    size from the first example on.
    """
    listed_indptr, listed, listed_signs, complete, n_labels, weights = targets
    slope, intercept, positives = labels[SLOPE], labels[INTERCEPT], labels[POSITIVES]
    centre, spread, total = labels[CENTRE], labels[SPREAD], labels[WEIGHT]
    width = scores.shape[1] - 1
    signs, offsets, slopes = np.empty(1 + width, np.int8), np.zeros(width), np.empty(width)
    slopes[:] = 1.0
    margins, own, bent = np.empty(width), np.empty(width), np.empty(width)
    for i in range(len(scores)):
        now, old, weight = n_labels[i], min(n_labels[i], existing[0]), weight_of(weights, i)
        existing[0] = max(existing[0], now)
        if measure != NONE:
            find_offsets(slope, intercept, positives, counts, measure, patience, offsets[:now], slopes[:now])
            subtract_offsets(scores[i], offsets[:now], slopes[:now])
        add_offsets(scores[i], offsets, slopes, margins[:now])
        find_probabilities(slope, intercept, margins, own[:now])
        for label in range(now):
            bent[label] = own[label]
        bend_probabilities(bend, slope, intercept, margins, bent[:now])
        if len(probabilities) > 0:
            for label in range(width):
                probabilities[i, label] = bent[label] if label < now else 0.0
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        set_signs(listed[truth], listed_signs[truth], complete[i], signs[: 1 + now])
        if measure in (MICRO_F1, MACRO_F1):
            count_expected(counts, measure, signs, weight, scores[i], bent[:old])
        learn_bend(bend, slope, intercept, signs[1 : 1 + old], weight, margins, bent)
        if fitted:
            gather(centre, spread, total, signs[1 : 1 + old], weight, margins, own)
            correct(slope, intercept, centre, spread, total, signs[1 : 1 + old], weight, margins, own)
        for p in range(truth.start, truth.stop):
            positives[listed[p]] += weight * ((listed_signs[p] > 0) & ((listed[p] < old) | (not fitted)))
