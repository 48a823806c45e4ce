"""SALT's learning: a metric of its own for every weight.

Plane 1 of the table and those after it hold what makes the metric (see `_table`): the sum of squared gradients of a
weight or, where it is bet, the sums of its coin (see `_rates`). A round is run exactly in the metric (see
`_adaptive_exact`), or by the passes of the paper (see `_adaptive_passes`).
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._adaptive_implicit import run_adaptive_round
from manylabel_core.online.models.linear._adaptive_multipass import run_adaptive_passes
from manylabel_core.online.models.linear._experts import constant_of, note
from manylabel_core.online.models.linear._metric import SMALLEST_DELTA
from manylabel_core.online.models.linear._table import (
    add_outer,
    drag,
    keep,
    longest_row,
    padded,
    planes_scored,
    score_example,
    set_example,
    squared_norm,
)
from manylabel_core.online.updates._implicit import SCRATCH
from manylabel_core.online.updates._multipass import pass_limit, set_sides
from manylabel_core.online.updates._update import BY_GRADIENT, EXACTLY, run_round

STEADY = 0.4
"""The step of the second of a pair, as a multiple of eta."""


@compiled
def learn_salt(  # type: ignore[no-untyped-def]
    table,
    ages,
    record,
    constant,
    step,
    delta,
    indptr,
    indices,
    values,
    listed_indptr,
    listed,
    signs,
    complete,
    n_labels,
    scores,
):
    """Learn rows in order; write each one's scores before it was learnt. Arguments are those of `learn_falt`."""
    eta, passes, passes_per_label, kind = step
    steady = STEADY * eta, passes, passes_per_label, EXACTLY
    width, longest, planes = padded(table, scores.shape[1]), longest_row(indptr), planes_scored(table, ages, record)
    n_models, scored = 1 + (len(record) > 0), np.empty((len(planes), width), np.float64)
    rows, x = np.empty(longest, np.int64), np.empty(longest, table.dtype)
    sides, tau = np.empty(width, np.int8), np.empty(width, table.dtype)
    order, moves, work = np.empty(width, np.int32), np.empty(width, np.int32), np.empty((SCRATCH, width))
    age, before = np.empty(len(ages), table.dtype), np.empty((longest if len(ages) > 0 else 0, width), table.dtype)
    by_passes = kind == BY_GRADIENT  # scratch of the one kind of round or of the other
    columns = np.empty((width if by_passes else 0, 2, longest), table.dtype)
    changes, gradient, out = np.empty(longest), np.empty(width, table.dtype), np.empty(width, np.bool_)
    rates, sums = np.empty((0 if by_passes else longest, width), table.dtype), np.empty((3, width), table.dtype)
    delta = table.dtype.type(max(delta, SMALLEST_DELTA))
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        now = slice(0, 1 + n_labels[i])  # columns of labels that do not exist yet stay untouched
        scores[i, now.stop :] = 0.0
        example = indices[row], values[row]
        score_example(table, planes, ages[now], record, constant, *example, scored, scores[i, now])
        set_sides(listed[truth], signs[truth], complete[i], sides[now])
        here, wide = slice(0, set_example(constant, *example, rows, x)), slice(0, padded(table, now.stop))
        age[now], tau[now.stop :] = ages[now], 0.0
        if n_models > 1:
            its = constant_of(1, constant)
            k = squared_norm(values[row], its)
            if its != 0.0:
                x[0] = its
            if run_round(scored[1, now], sides[now], steady, n_labels[i], k, tau[now], order, moves, work):
                keep(table, planes[1], rows[here], before)
                add_outer(table, planes[1], rows[here], x[here], tau[wide])
                drag(table, planes[1], planes[-1], rows[here], age[now], before)
            if constant != 0.0:
                x[0] = constant
        keep(table, 0, rows[here], before)
        if by_passes:
            limit, by_column = pass_limit(passes, passes_per_label, n_labels[i]), (gradient, columns, changes, out)
            run_adaptive_passes(table, rows[here], x[here], eta, delta, limit, scored[0, now], sides[now], by_column)
        else:
            scratch = rates, sums, order, work
            run_adaptive_round(table, rows[here], x[here], eta, kind, delta, scored[0, now], sides[now], scratch)
        drag(table, 0, planes[-n_models], rows[here], age[now], before)
        note(record, scored, sides[now])
        ages[now] += 1
