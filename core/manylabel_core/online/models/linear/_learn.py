"""FALT's learning: a round on the scores, then one rank-1 change of the weights (see `_table` for the table)."""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._experts import constant_of, note
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
from manylabel_core.online.updates._multipass import set_sides
from manylabel_core.online.updates._update import run_round


@compiled
def learn_falt(  # type: ignore[no-untyped-def]
    table,
    ages,
    record,
    seen,
    constant,
    step,
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
    """Learn rows in order; write each one's scores before it was learnt. `step` as in `run_round`.

    `ages` counts, for every column, the examples since it exists; of length 0, there are no means to keep.
    `record` is that of a pair of models (see `_pair`), the second with steady steps; of length 0, there is one model.
    `seen` holds, for every row of the table, the sum of the squares of its feature in rounds with a loss, and makes
    its step smaller; of length 0, all features have the same step.
    """
    width, longest, planes = padded(table, scores.shape[1]), longest_row(indptr), planes_scored(table, ages, record)
    n_models, scored = 1 + (len(record) > 0), np.empty((len(planes), width), np.float64)
    rows, x, direction = np.empty(longest, np.int64), np.empty(longest, table.dtype), np.empty(longest, table.dtype)
    sides, tau = np.empty(width, np.int8), np.empty(width, table.dtype)
    order, moves, work = np.empty(width, np.int32), np.empty(width, np.int32), np.empty((SCRATCH, width))
    age, before = np.empty(len(ages), table.dtype), np.empty((longest if len(ages) > 0 else 0, width), table.dtype)
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
        for q in range(n_models):
            own = seen if q == 0 else seen[:0]
            its = constant_of(q, constant)
            if its != 0.0:
                x[0] = its
            k = _set_direction(own, its, values[row], rows[here], x[here], direction)
            if run_round(scored[q, now], sides[now], step, n_labels[i], k, tau[now], order, moves, work):
                keep(table, planes[q], rows[here], before)
                add_outer(table, planes[q], rows[here], direction, tau[wide])
                drag(table, planes[q], planes[-n_models + q], rows[here], age[now], before)
                _see(own, rows[here], x[here])
        note(record, scored, sides[now])
        ages[now] += 1


@compiled
def _set_direction(seen, constant, values, rows, x, direction):  # type: ignore[no-untyped-def]
    """Write inv(H) x; give k = x' inv(H) x, in float64."""
    if len(seen) == 0:
        direction[: len(x)] = x
        return squared_norm(values, constant)
    k = 0.0
    for p in range(len(x)):
        direction[p] = x[p] / np.sqrt(1.0 + seen[rows[p]])
        k += np.float64(x[p]) * np.float64(direction[p])
    return k


@compiled
def _see(seen, rows, x):  # type: ignore[no-untyped-def]
    if len(seen) > 0:
        for p in range(len(rows)):
            seen[rows[p]] += np.float64(x[p]) * x[p]
