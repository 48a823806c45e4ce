"""The compiled rule: inputs and score of an answer, the plan that chooses a threshold, and the account of audits.

A deferral is a row of float64, so that it can be stored with a prediction and counted as it was served:

0 version   of the promise that it was made under
1 rate      probability with which the teacher is asked
2 sure      1 if the answer is served unless it is audited
3 ask       1 if the teacher is asked
4 score     of the answer
5-13        inputs of the score

Let l be 1 - agreement, and alpha 1 - parity. A sure example is audited with probability `rate`, drawn without looking
at the example. The audit changes the account W by (alpha - l) / rate. While the gate is open, rate >= STAKE / W, so W
stays above 1. With answers at once, the audits' estimate of sum(l - alpha) never exceeds 7 + (reopenings), whatever the
data do. The estimate is unbiased, so the expected number of disagreements has the same bound.
"""

import numpy as np

import manylabel_core._kalman as _kalman
from manylabel_core._elementary import exp, log, sigmoid
from manylabel_core.compiled import compiled

N_INPUTS = 9
WEIGHTS = np.array([2.2, 1.8, -1.0, -3.8, -0.5, -8.1, -4.2, 3.2, -1.4])
VARIANCES = np.array([2.5, 1.8, 3.2, 6.0, 1.2, 6.0, 6.0, 2.0, 3.6])
"""Weights and variances of the score at the start: means and spreads of fits on eleven streams."""
CANDIDATE = 0.02
"""Lowest probability of a label that counts separately; the others count in the sum only."""
BINS = 64
"""Bins of the plan. They are 1/8 wide and begin at -1; thresholds are at least 0."""
MEMORY = 5000.0
"""Memory of the plan: number of examples after which the weight of an example has fallen to 1/e."""
PRIOR = 50.0
"""Weight of the expected agreement in the plan, in examples."""
ERRORS = 0.25
"""Standard errors that the plan subtracts."""
STAKE = 2.0
"""Account above which the gate is open. It is also the stake of an audit: the audit rate is STAKE / account."""
RESERVE = 0.4
"""Part of the stake that audits must earn before the gate opens, while all sure examples are audited."""
CREDIT = 8.0
"""Account with which the gate opens for the first time."""
CAPACITY = 4.0
"""Capacity of the account, times the least audit rate."""
NO_THRESHOLD = 99.0
"""Threshold that no score reaches."""

VERSION, RATE, SURE, ASK, SCORE, INPUTS = range(6)
N_VALUES = INPUTS + N_INPUTS
"""Number of values of a deferral."""
PARITY, AUDIT_RATE, SETTINGS_VERSION = range(3)
"""Settings."""
ACCOUNT, OPENINGS, WEIGHT, LEARNT, SETTLED, STOOD_FOR, WRONG, SQUARES, ANSWERED, EMPTY, UNSURE, AUDITS, EXPIRED = range(
    13
)
PEOPLE, DRAWN = 13, 17
"""Numbers: the account, how often the gate opened, the weight of the next example in the plan, answers of the teacher
learnt; of the audits of the open gate that have an outcome their number, the examples that they stand for, the
estimated disagreements, and the sum of squares of these; examples answered, those answered without a label, unsure
examples, audits of sure examples, and audits that expired without an answer. From `PEOPLE` on, what people found: right
and wrong answers of the model, and of the teacher; from `DRAWN` on, right and wrong ones of the answers drawn for a
check."""
N_NUMBERS = 19
CHECK_RATE = 0.05
"""Share of the answers served without the teacher that are drawn for people to check."""


@compiled
def audit_rate(numbers, settings):  # type: ignore[no-untyped-def]
    """Return the probability of an audit now; 1 while the gate is closed."""
    if numbers[ACCOUNT] <= STAKE:
        return 1.0
    return min(1.0, max(settings[AUDIT_RATE], STAKE / numbers[ACCOUNT]))


@compiled
def threshold(bins, parity):  # type: ignore[no-untyped-def]
    """Return the lowest edge of a bin above which the expected agreement reaches the parity."""
    agreed, count, expected, squares, found = 0.0, 0.0, 0.0, 0.0, NO_THRESHOLD
    for b in range(BINS - 1, 7, -1):
        agreed += bins[0, b]
        count += bins[1, b]
        expected += bins[2, b]
        squares += bins[3, b]
        if count > 0.0:
            effective = count * count / squares  # few audits with large weights count for little
            mean = expected / count + (agreed - expected) / count * effective / (effective + PRIOR)
            mean -= ERRORS * np.sqrt(max(mean * (1.0 - mean), 0.0) / (effective + PRIOR))
            if mean >= parity:
                found = b * 0.125 - 1.0
    return found


@compiled
def answer_inputs(probabilities, scores, inputs):  # type: ignore[no-untyped-def]
    """Write the inputs of the score: how sure the predicted labels are as a whole answer."""
    total, listed, left, doubt, surprise, n = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    highest_no, lowest_yes = 0.0, 1.0
    for column in range(len(probabilities)):
        p = probabilities[column]
        total += p
        if not p >= CANDIDATE:
            continue
        listed += p
        if scores[1 + column] > scores[0]:
            n += 1.0
            left += p
            doubt += 1.0 - p
            lowest_yes = min(lowest_yes, p)
            surprise -= log(max(p, 1e-6))
        else:
            highest_no = max(highest_no, p)
            surprise -= log(max(1.0 - p, 1e-6))
    left = max(0.0, total - left)
    surprise += max(0.0, total - listed)
    exact = exp(-min(surprise, 10.0))  # probability of the whole answer, if labels were independent
    logit = min(max(log(exact / (1.0 - exact + 1e-9)), -6.0), 8.0)
    inputs[0] = 1.0
    inputs[1] = left / (0.1 + left)
    inputs[2] = left / (1.0 + left)
    inputs[3] = highest_no
    inputs[4] = doubt / (0.1 + doubt)
    inputs[5] = 1.0 if n == 0.0 else 0.0
    inputs[6] = min(n, 4.0) * 0.25
    inputs[7] = logit * 0.25
    inputs[8] = 1.0 - lowest_yes if n > 0.0 else 0.0


@compiled
def defer_rows(memory, settings, probabilities, scores, rows):  # type: ignore[no-untyped-def]
    """Write the deferral of each example by the same state, before audits are drawn."""
    bar, rate = threshold(memory.bins, settings[PARITY]), audit_rate(memory.numbers, settings)
    for i in range(len(probabilities)):
        row = rows[i]
        inputs = row[INPUTS:]
        answer_inputs(probabilities[i], scores[i], inputs)
        score = _kalman.score_of(memory.weights, inputs)
        sure = score >= bar
        row[VERSION] = settings[SETTINGS_VERSION]
        row[RATE] = rate if sure else 1.0
        row[SURE] = 1.0 if sure else 0.0
        row[ASK] = 0.0 if sure else 1.0
        row[SCORE] = score


@compiled
def learn(memory, settings, row, agreement):  # type: ignore[no-untyped-def]
    """Learn the agreement (0 to 1) of an answer with that of the teacher."""
    _kalman.step(memory.weights, memory.covariance, VARIANCES, row[INPUTS:], agreement, np.empty(N_INPUTS))
    count = 1.0 / row[RATE]
    numbers, bins = memory.numbers, memory.bins
    numbers[LEARNT] += 1.0
    numbers[WEIGHT] *= 1.0 + count / MEMORY
    weight = numbers[WEIGHT] * count
    b = int((min(max(row[SCORE], -1.0), 6.99) + 1.0) * 8.0)
    bins[0, b] += weight * agreement
    bins[1, b] += weight
    bins[2, b] += weight * sigmoid(row[SCORE])
    bins[3, b] += weight * weight
    if numbers[WEIGHT] > 1e6:
        for j in range(BINS):
            for i in range(3):
                bins[i, j] /= numbers[WEIGHT]
            bins[3, j] /= numbers[WEIGHT] * numbers[WEIGHT]
        numbers[WEIGHT] = 1.0


@compiled
def settle(memory, settings, rate, loss):  # type: ignore[no-untyped-def]
    """Add the loss (0 to 1) of an audit, drawn with this probability, to the account."""
    numbers = memory.numbers
    if rate < 1.0:
        numbers[SETTLED] += 1.0
        numbers[STOOD_FOR] += 1.0 / rate
        numbers[WRONG] += loss / rate
        numbers[SQUARES] += (loss / rate) ** 2
    was_open = numbers[ACCOUNT] > STAKE
    account = numbers[ACCOUNT] + (1.0 - settings[PARITY] - loss) / rate
    numbers[ACCOUNT] = min(max(account, STAKE - RESERVE), CAPACITY / settings[AUDIT_RATE])
    if numbers[ACCOUNT] > STAKE and not was_open:
        if numbers[OPENINGS] == 0.0:
            numbers[ACCOUNT] = CREDIT
        numbers[OPENINGS] += 1.0
