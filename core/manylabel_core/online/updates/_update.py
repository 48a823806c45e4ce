"""One update along one example: by gradient passes, implicit, or passive-aggressive."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.compiled import compiled
from manylabel_core.online.updates._implicit import GAINS, MIN_GAIN, SCRATCH, has_loss, implicit_update
from manylabel_core.online.updates._multipass import multipass_update, pass_limit
from manylabel_core.online.updates._targets import set_signs

MULTIPASS, IMPLICIT, PASSIVE_AGGRESSIVE = 0, 1, 2
"""Kinds of updates."""

ANY = np.bool_(True)
"""Value of `others`: not a literal, for which numba would compile `run_update` once more."""

MAX_STEP = 1e15
"""Bound of the steps of PA-II, which keeps them finite where kernel values saturate."""


@compiled
def passive_aggressive_update(scores, signs, most, slack, k, tau):  # type: ignore[no-untyped-def]
    """Write the step of every column, `min(most, loss / (k + slack))` times its sign, Eq. (11); the threshold never
    moves.
    """
    tau[0] = 0.0
    for column in range(1, len(scores)):
        sign = signs[column]
        loss = max(1.0 - sign * (scores[column] - scores[0]), 0.0)
        tau[column] = sign * min(most, loss / (k + slack))


class Update(NamedTuple):
    """Update rule and its parameters; a field that the rule does not use is 0."""

    kind: int  # MULTIPASS, IMPLICIT or PASSIVE_AGGRESSIVE
    eta: float  # step size; of PASSIVE_AGGRESSIVE the largest step
    passes: int = 0  # M of MULTIPASS; 0 if it is the number of labels
    slack: float = 0.0  # of PASSIVE_AGGRESSIVE: addition to k
    delta: float = 0.0  # added to the root of the summed squares, if each weight has a metric

    def as_array(self) -> NDArray[np.float64]:
        """Return the fields as a tuple for compiled functions."""
        return np.array(self, dtype=np.float64)


KIND, ETA, PASSES, SLACK, DELTA = range(len(Update._fields))
"""Places of the fields in the array of an `Update`."""


@compiled
def run_update(update, others, weight, n_labels, k, scores, signs, tau, order, moves, work):  # type: ignore[no-untyped-def]
    """Write the coefficient of x that the update adds to each column; return whether there is any but 0.

    `others` is ANY, or None if the update is implicit: then numba leaves out the other kinds.
    """
    eta = update[ETA]
    if others is not None and int(update[KIND]) == MULTIPASS:
        limit = pass_limit(int(update[PASSES]), n_labels)
        return multipass_update(scores, signs, weight * eta, k, limit, tau, order, work[0], moves)
    if k < MIN_GAIN or not has_loss(scores, signs):
        return False
    if others is not None and int(update[KIND]) == PASSIVE_AGGRESSIVE:
        most, slack = min(weight * eta, MAX_STEP), update[SLACK] / weight
        passive_aggressive_update(scores, signs, most, slack, k, tau)
        return True
    gains = work[GAINS, : len(scores)]
    gains[:] = k
    implicit_update(scores, signs, weight * eta, gains, tau, order, work)
    return True


@compiled
def update_one(update, weight, n_labels, k, scores, listed, listed_signs, complete, tau):  # type: ignore[no-untyped-def]
    """Do `run_update` for one example from its truth, with everything it needs."""
    width = 1 + n_labels
    signs = np.empty(width, np.int8)
    set_signs(listed, listed_signs, complete, signs)
    order, moves, work = np.empty(width, np.int32), np.empty(width, np.int32), np.empty((SCRATCH, width))
    return run_update(update, ANY, weight, n_labels, k, scores, signs, tau, order, moves, work)
