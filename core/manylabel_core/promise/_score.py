"""The compiled scores: two logistic models with few weights, each updated by a Kalman step per outcome.

The label model says how likely a candidate label is true, given its probability and the other labels of the example.
The example model says how likely the example is entirely right. Both are shared by all labels and targets.
"""

import numpy as np

from manylabel_core._elementary import log, sigmoid
from manylabel_core.compiled import compiled

N_LABEL, N_EXAMPLE = 8, 7
"""Weights of the label model and of the example model."""
LABEL_WEIGHTS = np.array([0.6, 0.9, -0.3, -0.3, -2.5, -0.6, -0.9, -0.5])
LABEL_VARIANCES = np.array([0.3, 0.05, 0.1, 0.3, 2.0, 0.7, 0.7, 1.0])
EXAMPLE_WEIGHTS = np.array([3.5, -1.0, -6.0, -2.5, -0.5, -2.5, 0.8])
EXAMPLE_VARIANCES = np.array([0.7, 1.5, 1.5, 0.5, 0.7, 1.5, 0.8])
"""Weights and variances at the start. A variance never exceeds that at the start."""
DRIFT = 1e-6
"""Growth of a variance with each outcome: the weights follow a random walk."""
MAX_SCORE = 8.0
"""Largest absolute score."""
MIN_CURVATURE = 0.01
"""Smallest curvature of the logistic loss in a step."""


@compiled
def score_of(weights, inputs):  # type: ignore[no-untyped-def]
    """Return the score of inputs, clipped."""
    total = 0.0
    for j in range(len(weights)):
        total += weights[j] * inputs[j]
    return min(max(total, -MAX_SCORE), MAX_SCORE)


@compiled
def step(weights, covariance, variances, inputs, outcome, gains):  # type: ignore[no-untyped-def]
    """Update a model with an outcome (0 or 1), in place; `gains` is scratch of at least as many numbers as weights."""
    n = len(weights)
    expected = sigmoid(score_of(weights, inputs))
    curvature = max(expected * (1.0 - expected), MIN_CURVATURE)
    spread = 0.0
    for a in range(n):
        gain = 0.0
        for b in range(n):
            gain += covariance[a, b] * inputs[b]
        gains[a] = gain
        spread += gain * inputs[a]
    divisor = 1.0 + curvature * spread
    error, shrink = (outcome - expected) / divisor, curvature / divisor
    for a in range(n):
        weights[a] += gains[a] * error
        for b in range(n):
            covariance[a, b] -= shrink * gains[a] * gains[b]
        covariance[a, a] = min(covariance[a, a] + DRIFT, variances[a])


@compiled
def label_inputs(probability, shift, total, variance, highest, second, inputs):  # type: ignore[no-untyped-def]
    """Write the inputs of the label model for a candidate."""
    p = min(max(probability, 1e-13), 1.0 - 1e-13)
    z = min(max(log(p / (1.0 - p)), -6.0), 8.0)
    inputs[0] = 1.0
    inputs[1] = z
    inputs[2] = max(z - 1.5, 0.0)
    inputs[3] = shift
    others = max(total - probability, 0.0)
    inputs[4] = others / (1.0 + others) - 0.5
    others = max(variance - probability * (1.0 - probability), 0.0)
    inputs[5] = others / (0.5 + others) - 0.5
    inputs[6] = (second if probability >= highest else highest) - 0.25
    inputs[7] = inputs[5] * z * 0.25


@compiled
def example_inputs(left, highest, doubt, n_applied, inputs):  # type: ignore[no-untyped-def]
    """Write the inputs of the example model."""
    inputs[0] = 1.0
    inputs[1] = left / (0.1 + left)
    inputs[2] = left / (1.0 + left)
    inputs[3] = highest
    inputs[4] = doubt / (0.1 + doubt)
    inputs[5] = 1.0 if n_applied == 0.0 else 0.0
    inputs[6] = min(n_applied, 4.0) * 0.25
