"""The compiled gate: the plan that chooses a threshold, and the account of errors that opens and closes the gate.

A gate serves one target. It has

bins    float64 (3, 64)     sums of outcomes, of decisions and of their expected outcomes, by score from -1 in eighths
gate    float64 (10,)       the numbers below

The account W is a token bucket: each right decision earns alpha = 1 - target, each wrong one costs 1 - alpha, and W
never exceeds its capacity. When W < 1 - alpha, the gate closes. While it is closed, the decisions that it would have
made keep a shadow account, which opens it again. So, with the truth at once, wrong decisions never exceed
alpha * decisions + 2 + 1.5 * (reopenings), plus the further decisions of the examples that close the gate. Neither
calibration nor independence of the examples is assumed.
"""

import numpy as np

from manylabel_core._elementary import sigmoid
from manylabel_core.compiled import compiled

BINS = 64
"""Bins of the plan. They are 1/8 wide and begin at -1; thresholds are at least 0."""
MEMORY = 5000.0
"""Memory of the plan: number of decisions after which the weight of a decision has fallen to 1/e."""
PRIOR = 100.0
"""Weight of the expected outcome in the plan, in decisions."""
ERRORS = 0.25
"""Standard errors that the plan subtracts."""
CAPACITY = 45.0
"""Capacity of the account above 1, in standard deviations of a decision's outcome."""
OPENS_AT = 0.75
"""Shadow account at which the gate opens."""
CREDIT, CREDIT_AGAIN = 2.0, 1.5
"""Account with which the gate opens first, and later."""
DEBT = 0.5
"""Share of a negative ledger that the plan subtracts from the account."""
CAUTION, BOLDNESS = 0.5, 0.6
"""Shares of alpha by which the goal is raised if the account is empty, and lowered if it is full."""
LOW, HIGH = 0.4, 0.7
"""Shares of the capacity below which the goal is raised, and above which it is lowered."""
MOST_RAISED = 0.9
"""Highest share of alpha by which the goal is raised."""
NO_THRESHOLD = 99.0
"""Threshold that no score reaches."""

ACCOUNT, SHADOW, LEDGER, OPEN, OPENINGS, WEIGHT, COUNTED, WRONG, TRUE = range(9)
"""Numbers of a gate: the account, its shadow, the account without capacity, whether the gate is open, how often it
opened, the weight of the next decision in the bins, decisions made, wrong ones, and the weight of all true labels."""
N_NUMBERS = 9


@compiled
def capacity(target):  # type: ignore[no-untyped-def]
    """Return the capacity of the account."""
    return 1.0 + CAPACITY * np.sqrt((1.0 - target) * target)


@compiled
def threshold(bins, gate, target):  # type: ignore[no-untyped-def]
    """Return the lowest edge of a bin above which the expected precision reaches the goal."""
    alpha = 1.0 - target
    most = 1.0 + CAPACITY * np.sqrt(alpha * target)
    owed = DEBT * max(0.0, -gate[LEDGER])
    if gate[OPEN] > 0.0:
        filled = (gate[ACCOUNT] - owed) / most
        raised = CAUTION * max(0.0, 1.0 - filled / LOW) - BOLDNESS * max(0.0, (filled - HIGH) / (1.0 - HIGH))
    else:
        raised = CAUTION * owed / most / LOW
    goal = target + alpha * min(raised, MOST_RAISED)
    outcomes, count, expected, found = 0.0, 0.0, 0.0, NO_THRESHOLD
    for b in range(BINS - 1, 7, -1):
        outcomes += bins[0, b]
        count += bins[1, b]
        expected += bins[2, b]
        if count > 0.0:
            shrunk = count / gate[WEIGHT] + PRIOR
            precision = expected / count + (outcomes - expected) / gate[WEIGHT] / shrunk
            precision -= ERRORS * np.sqrt(max(precision * (1.0 - precision), 0.0) / shrunk)
            if precision >= goal:
                found = b * 0.125 - 1.0
    return found


@compiled
def note(bins, gate, score, outcome):  # type: ignore[no-untyped-def]
    """Add the outcome (0 or 1) of a decision to the plan, discounting older ones."""
    gate[WEIGHT] *= 1.0 + 1.0 / MEMORY
    weight = gate[WEIGHT]
    b = int((min(max(score, -1.0), 6.99) + 1.0) * 8.0)
    bins[0, b] += weight * outcome
    bins[1, b] += weight
    bins[2, b] += weight * sigmoid(score)
    if weight > 1e9:
        for i in range(3):
            for j in range(BINS):
                bins[i, j] /= weight
        gate[TRUE] /= weight
        gate[WEIGHT] = 1.0


@compiled
def settle(gate, target, made, shadow, outcome):  # type: ignore[no-untyped-def]
    """Add the outcome (0 or 1) of a decision to the account if it was `made`, else to the shadow account."""
    alpha = 1.0 - target
    gain = alpha - (1.0 - outcome)
    if made:
        gate[COUNTED] += 1.0
        gate[WRONG] += 1.0 - outcome
        gate[LEDGER] += gain
        gate[ACCOUNT] = min(1.0 + CAPACITY * np.sqrt(alpha * target), gate[ACCOUNT] + gain)
        if gate[OPEN] > 0.0 and gate[ACCOUNT] < 1.0 - alpha:
            gate[OPEN] = 0.0
            gate[SHADOW] = 0.0
    elif shadow and gate[OPEN] == 0.0:
        gate[SHADOW] = max(0.0, gate[SHADOW] + gain)
        if gate[SHADOW] >= OPENS_AT:
            gate[OPEN] = 1.0
            gate[ACCOUNT] = max(gate[ACCOUNT], CREDIT if gate[OPENINGS] == 0.0 else CREDIT_AGAIN)
            gate[OPENINGS] += 1.0
