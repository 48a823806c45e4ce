"""Probabilities from margins: online Platt scaling per label, Eqs. (13), (14) and (14a) of docs/mathematics.md.

The curvature H of (15) is stored as the weight of all examples, the weighted mean of their margins (centre) and their
weighted squared distances from it (spread). So rounding never makes it singular, however large the margins are. Weight
and spread never fall below their initial value 1.

The loops over all labels have no branches and few arrays each, so that they become vector instructions; few labels have
log-odds above the knot of (15a).
"""

import numpy as np

from manylabel_core._elementary import MAX_LOGIT, sigmoid
from manylabel_core.compiled import compiled

SLOPE, INTERCEPT, CENTRE, SPREAD, WEIGHT, POSITIVES = range(6)
"""Rows of the table of a learner's labels; POSITIVES counts the examples with the label."""

START = (2.0, -1.0, 0.0, 1.0, 1.0, 0.0)
"""State of a label before its first example: learners aim at margins of 1, and most labels are rare."""

LOG_ODDS = (1.0, 0.0, 0.0, 1.0, 1.0, 0.0)
"""State of a label whose margins are log-odds: its curve does not change."""

KEPT = 0.999
"""Share of the curvature kept from one example of a label to the next: a memory of a thousand examples."""

KNOT = 1.5
"""Log-odds above this value are bent (probabilities above .82)."""

BEND, BEND_CURVATURE = range(2)
"""Elements of the state of the bend."""

START_BEND = (1.0, 0.0)
MIN_BEND, MAX_BEND = 2.0**-6, 4.0
BEND_KEPT = 0.9995
"""Share of the bend's curvature kept from one example to the next that has a label above the knot."""

BEND_RIDGE = 5.0
"""Draws the bend to 1."""

MAX_SLOPE = 2.0**20
MAX_MARGIN = 1e30
"""Bound of margins; larger ones are clipped."""
MAX_INTERCEPT = 1e40


@compiled
def find_probabilities(slope, intercept, margins, probabilities):  # type: ignore[no-untyped-def]
    """Write the probabilities of an example's labels; margins are clipped at MAX_MARGIN."""
    for label in range(len(probabilities)):
        margin = min(max(margins[label], -MAX_MARGIN), MAX_MARGIN)
        margins[label] = margin
        probabilities[label] = sigmoid(slope[label] * margin + intercept[label])


@compiled
def bend_probabilities(bend, slope, intercept, margins, probabilities):  # type: ignore[no-untyped-def]
    """Bend the probabilities of the labels above the knot."""
    for label in range(len(probabilities)):
        above = slope[label] * margins[label] + intercept[label] - KNOT
        if above > 0.0:
            probabilities[label] = sigmoid(KNOT + bend[BEND] * above)


@compiled
def learn_bend(bend, slope, intercept, signs, own_weight, margins, probabilities):  # type: ignore[no-untyped-def]
    """Newton step of the bend, with bent probabilities."""
    gradient, curvature = 0.0, 0.0
    for label in range(len(signs)):
        above = min(slope[label] * margins[label] + intercept[label], MAX_LOGIT) - KNOT
        if above > 0.0 and signs[label] != 0:
            p = probabilities[label]
            gradient += (p - np.float64(signs[label] > 0)) * above
            curvature += p * (1.0 - p) * above * above
    if curvature > 0.0:
        bend[BEND_CURVATURE] = BEND_KEPT * bend[BEND_CURVATURE] + own_weight * curvature
        drawn = (1.0 - BEND_KEPT) * BEND_RIDGE * (bend[BEND] - START_BEND[BEND])
        moved = bend[BEND] - (own_weight * gradient + drawn) / (bend[BEND_CURVATURE] + BEND_RIDGE)
        bend[BEND] = min(max(moved, MIN_BEND), MAX_BEND)


@compiled
def gather(centre, spread, weight, signs, own_weight, margins, probabilities):  # type: ignore[no-untyped-def]
    """Add the weighted margins of an example to the curvature; a label's sign is +1, -1, or 0 where the truth is
    unknown.
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
    """Newton step after `gather`. A negative slope becomes 0, with the best intercept for it."""
    for label in range(len(signs)):
        known, true = np.float64(signs[label] != 0), np.float64(signs[label] > 0)
        error = own_weight * ((probabilities[label] - true) * known)
        steep = slope[label] - (margins[label] - centre[label]) * error / spread[label]
        steep = min(max(steep, 0.0), MAX_SLOPE)
        moved = intercept[label] + centre[label] * (slope[label] - steep) - error / weight[label]
        intercept[label] = min(max(moved, -MAX_INTERCEPT), MAX_INTERCEPT)
        slope[label] = steep
