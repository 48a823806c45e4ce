"""Passive-aggressive update of one example from its scores.

Every label is a separate binary problem, with the hinge loss l of its margin, and its weights move along x by

    tau = min(most, l / (k + slack)),      k = |x|^2 or K(x, x).

PA-I has most = C and slack = 0, PA-II slack = 1 / (2 C) (Crammer et al., Fig. 1). The threshold never moves.

See Eq. (12) of docs/mathematics.md.
"""

from manylabel_core.compiled import compiled

MAX_STEP = 1e15
"""Far more than a step of PA-II can be where k is the square of a norm, as it is not for values of a kernel that
saturate; keeps them finite."""


@compiled
def passive_aggressive_update(scores, signs, most, slack, k, tau):  # type: ignore[no-untyped-def]
    """Write the step of every column; the arguments are those of `run_update`."""
    tau[0] = 0.0
    for column in range(1, len(scores)):
        sign = signs[column]
        loss = max(1.0 - sign * (scores[column] - scores[0]), 0.0)
        tau[column] = sign * min(most, loss / (k + slack))
