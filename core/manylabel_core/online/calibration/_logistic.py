"""Probabilities from margins: for every label a logistic curve, fitted as the stream goes.

The margin m of a label is its score less the threshold's. Its probability is p = sigmoid(slope m + intercept), and the
pair moves after each example whose truth y is known, and whose weight is w, by a Newton step on the log loss, with all
the curvature seen so far (the extended Kalman filter of logistic regression), slowly forgotten:

    H <- KEPT H + w p (1 - p) (m, 1)(m, 1)'      (slope, intercept) <- (slope, intercept) - inv(H) w (p - y) (m, 1)'

H is kept as the weight of all examples, the weighted mean of their margins (centre) and their weighted squared
distances from it (spread): it is never singular in rounding, however large the margins. Weight and spread never fall
below the 1 they start with.

Everything is written without branches, in loops of a few arrays each, so that it becomes vector instructions.

See Eqs. (14) and (15) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core._elementary import sigmoid
from manylabel_core.compiled import compiled

SLOPE, INTERCEPT, CENTRE, SPREAD, WEIGHT, POSITIVES = range(6)
"""Rows of the table of a learner's labels; POSITIVES counts the examples that a label was true of."""

START = (2.0, -1.0, 0.0, 1.0, 1.0, 0.0)
"""A label before its first example: margins of 1 are what learners aim at, and most labels are rare."""

LOG_ODDS = (1.0, 0.0, 0.0, 1.0, 1.0, 0.0)
"""A label, for ever, whose margins are log-odds already."""

KEPT = 0.999
"""Share of the curvature kept from one example of a label to the next: a memory of a thousand examples."""

MAX_SLOPE = 2.0**20
MAX_MARGIN = 1e30
"""Margins beyond are taken for it."""
MAX_INTERCEPT = 1e40


@compiled
def find_probabilities(slope, intercept, margins, probabilities):  # type: ignore[no-untyped-def]
    """Write the probabilities of an example's labels; margins beyond MAX_MARGIN become that."""
    for label in range(len(probabilities)):
        margin = min(max(margins[label], -MAX_MARGIN), MAX_MARGIN)
        margins[label] = margin
        probabilities[label] = sigmoid(slope[label] * margin + intercept[label])


@compiled
def gather(centre, spread, weight, signs, own_weight, margins, probabilities):  # type: ignore[no-untyped-def]
    """Take the margins of an example, as often as it weighs, into the curvature.

    A label's sign is +1, -1, or 0 where the truth is unknown.
    """
    for label in range(len(signs)):
        known = np.float64(signs[label] != 0)
        kept = 1.0 - (1.0 - KEPT) * known
        own = own_weight * (probabilities[label] * (1.0 - probabilities[label]) * known)
        before = max(kept * weight[label], 1.0)
        after = before + own
        distance = margins[label] - centre[label]
        centre[label] += distance * (own / after)
        spread[label] = max(kept * spread[label], 1.0) + distance * distance * (own * (before / after))
        weight[label] = after


@compiled
def correct(  # type: ignore[no-untyped-def]
    slope, intercept, centre, spread, weight, signs, own_weight, margins, probabilities
):
    """Take Newton's step, after `gather`. A negative slope becomes 0, and the intercept the best one for it."""
    for label in range(len(signs)):
        known, true = np.float64(signs[label] != 0), np.float64(signs[label] > 0)
        error = own_weight * ((probabilities[label] - true) * known)
        steep = slope[label] - (margins[label] - centre[label]) * error / spread[label]
        steep = min(max(steep, 0.0), MAX_SLOPE)
        moved = intercept[label] + centre[label] * (slope[label] - steep) - error / weight[label]
        intercept[label] = min(max(moved, -MAX_INTERCEPT), MAX_INTERCEPT)
        slope[label] = steep
