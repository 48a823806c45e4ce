"""Logistic models with few weights, each updated by a Kalman step per outcome."""

from manylabel_core._elementary import sigmoid
from manylabel_core.compiled import compiled

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
