"""Update of the paper, Eq. (3) of docs/mathematics.md: several gradient passes over one example, from its scores.

A pass over an example x moves every score by |x|^2 (or K(x, x)) times the step of its coefficient. So the M passes run
on the 1 + n_labels scores alone, and the model is written once, by the sum of the steps.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.updates._targets import group_known

MAX_PASSES = 100_000
"""Maximum number of passes over one example, for any number of labels."""


@compiled
def pass_limit(passes, n_labels):  # type: ignore[no-untyped-def]
    """Return M: `passes`, or if that is 0 the number of labels, within bounds."""
    return passes if passes > 0 else min(max(1, n_labels), MAX_PASSES)


@compiled
def multipass_update(scores, signs, eta, k, passes, tau, order, start, moves):  # type: ignore[no-untyped-def]
    """Run up to `passes` learning passes, Eqs. (4) to (6), on the scores of one example; write `tau`, and return
    whether any label moved.

    The state of a label is the integer number of its moves, so a score is never the sum of many rounded steps.
    """
    n_relevant, n_known = group_known(signs, order)
    for p in range(n_known):
        start[p] = scores[order[p]]
        moves[p] = 0
    up = eta / max(n_relevant, 1)  # a mean over no labels is 0
    down = eta / max(n_known - n_relevant, 1)
    start_up, start_down = start[:n_relevant], start[n_relevant:n_known]
    moves_up, moves_down = moves[:n_relevant], moves[n_relevant:n_known]
    ups, downs = 0, 0
    for _ in range(passes):
        threshold = scores[0] - (ups * up - downs * down) * k
        raised = _move(start_up, moves_up, up * k, threshold, 1.0)
        lowered = _move(start_down, moves_down, down * k, threshold, -1.0)
        if raised + lowered == 0:
            break
        ups += raised
        downs += lowered
    if ups + downs == 0:
        return False
    tau[:] = 0.0
    tau[0] = downs * down - ups * up
    for p in range(n_relevant):
        tau[order[p]] = moves[p] * up
    for p in range(n_relevant, n_known):
        tau[order[p]] = -(moves[p] * down)
    return True


@compiled
def _move(start, moves, step, threshold, sign):  # type: ignore[no-untyped-def]
    """Move the labels of one sign with a margin below 1, once; return their number."""
    violated = np.int32(0)
    for p in range(len(start)):
        margin = sign * (start[p] + sign * (moves[p] * step) - threshold)
        violation = np.int32(margin < 1.0)
        moves[p] += violation
        violated += violation
    return violated
