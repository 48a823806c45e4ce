"""One round of learning along one example: by gradient passes, exactly, or passive-aggressively."""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.updates._implicit import GAINS, SCRATCH, SMALLEST_GAIN, has_loss, settle_exactly
from manylabel_core.online.updates._multipass import pass_limit, set_sides, settle
from manylabel_core.online.updates._passive_aggressive import move_along

BY_GRADIENT, EXACTLY, PASSIVE_AGGRESSIVE, BY_COIN = 0, 1, 2, 3
"""How a round is run; the last is SALT's alone."""


@compiled
def run_round(scores, sides, step, n_labels, k, tau, order, moves, work):  # type: ignore[no-untyped-def]
    """Write the coefficient of x that the round adds to each column; give whether there is any but 0.

    Parameters
    ----------
    scores, sides : arrays of shape (1 + n_labels,), float64 and int8
        Before the round; +1 relevant, -1 irrelevant, 0 unknown.
    step : tuple (eta, passes, passes_per_label, kind)
        For PASSIVE_AGGRESSIVE: (most, 0, slack, kind), see `_passive_aggressive`.
    n_labels : int
        Labels that exist.
    k : float
        |x|^2 or K(x, x).
    tau : array of shape (1 + n_labels,)
        Result, written only when something moves.
    order, moves, work : arrays of shape (>= 1 + n_labels,), int32, and (SCRATCH, >= 1 + n_labels), float64
        Scratch.
    """
    eta, passes, passes_per_label, kind = step
    if kind == BY_GRADIENT:
        limit = pass_limit(passes, passes_per_label, n_labels)
        return settle(scores, sides, eta, k, limit, tau, order, work[0], moves)
    if k < SMALLEST_GAIN or not has_loss(scores, sides):
        return False
    if kind == PASSIVE_AGGRESSIVE:
        move_along(scores, sides, eta, passes_per_label, k, tau)
        return True
    gains = work[GAINS, : len(scores)]
    gains[:] = k
    settle_exactly(scores, sides, eta, gains, tau, order, work)
    return True


@compiled
def run_alone(scores, listed, signs, complete, step, n_labels, k, tau):  # type: ignore[no-untyped-def]
    """`run_round` of one example from its truth, with everything it needs."""
    width = 1 + n_labels
    sides = np.empty(width, np.int8)
    set_sides(listed, signs, complete, sides)
    order, moves, work = np.empty(width, np.int32), np.empty(width, np.int32), np.empty((SCRATCH, width))
    return run_round(scores, sides, step, n_labels, k, tau, order, moves, work)
