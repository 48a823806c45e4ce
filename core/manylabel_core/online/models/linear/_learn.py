"""Learning of a linear model: an update on the scores, then a change of the weights (see `_table` for the table).

Without a metric of each weight the change is of rank 1: `x` or, where every feature has a separate step size,
`inv(H) x` times the coefficients of the update. With one (SALT), the update is in that metric: see `_adaptive_implicit`
and `_adaptive_multipass`.

See Eq. (7) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._adaptive_implicit import MIN_DELTA, adaptive_implicit_update
from manylabel_core.online.models.linear._adaptive_multipass import adaptive_multipass_update
from manylabel_core.online.models.linear._sparse_table import (
    BLOCK,
    add_products,
    add_to_row,
    list_blocks,
    missing_room,
)
from manylabel_core.online.models.linear._table import (
    add_outer,
    longest_row,
    padded,
    score_example,
    set_example,
    squared_norm,
)
from manylabel_core.online.updates._implicit import SCRATCH, STEPS
from manylabel_core.online.updates._multipass import pass_limit
from manylabel_core.online.updates._targets import set_signs, weight_of
from manylabel_core.online.updates._update import (
    ANY,
    DELTA,
    ETA,
    KIND,
    MULTIPASS,
    PASSES,
    run_update,
)


@compiled
def learn_linear(table, feature_squares, constant, update, others, examples, targets, scores):  # type: ignore[no-untyped-def]
    """Learn rows in order; write each one's scores before it was learnt. See `run_update` for `others`."""
    indptr, indices, values = examples
    listed_indptr, listed, listed_signs, complete, n_labels, weights = targets
    eta, damping = update[ETA], update[DELTA]
    width, longest = padded(table, scores.shape[1]), longest_row(indptr)
    scored = np.empty(width, np.float64)
    rows, x, direction = np.empty(longest, np.int64), np.empty(longest, table.dtype), np.empty(longest, table.dtype)
    all_signs, all_tau = np.empty(width, np.int8), np.empty(width, table.dtype)
    parts = np.empty(longest if len(feature_squares) > 0 else 0)
    order, moves, work = np.empty(width, np.int32), np.empty(width, np.int32), np.empty((SCRATCH, width))
    adaptive = damping > 0.0
    by_passes = adaptive and int(update[KIND]) == MULTIPASS
    implicit = adaptive and not by_passes
    if others is not None:
        gradient, changes = np.empty(width if by_passes else 0, table.dtype), np.empty(longest if by_passes else 0)
        columns = np.empty((width if by_passes else 0, 2, longest), table.dtype)
        passing = gradient, columns, changes, np.empty(width if by_passes else 0, np.bool_)
    rates = np.empty((longest if implicit else 0, width), table.dtype)
    sums = np.empty((3, width if implicit else 0), table.dtype)
    delta = table.dtype.type(max(damping, MIN_DELTA))
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        weight, n_columns = weight_of(weights, i), 1 + n_labels[i]
        scores[i, n_columns:] = 0.0  # columns of labels that do not exist yet stay untouched
        features, given, signs = indices[row], values[row], all_signs[:n_columns]
        score_example(table, constant, features, given, scored, scores[i, :n_columns])
        set_signs(listed[truth], listed_signs[truth], complete[i], signs)
        size, tau = set_example(constant, features, given, rows, x), all_tau[: padded(table, n_columns)]
        tau[n_columns:] = 0.0
        here, own_x, present = rows[:size], x[:size], scored[:n_columns]
        if adaptive:
            model = table, here, own_x, eta, delta
            if others is not None and by_passes:
                limit = pass_limit(int(update[PASSES]), n_labels[i])
                adaptive_multipass_update(*model, weight, limit, present, signs, passing)
            if implicit:
                adaptive_implicit_update(*model, weight, present, signs, (rates, sums, order, work))
        else:
            k = _set_direction(feature_squares, constant, given, here, own_x, direction, parts)
            steps = work[STEPS, :n_columns]
            if run_update(update, others, weight, n_labels[i], k, present, signs, steps, order, moves, work):
                for column in range(n_columns):
                    tau[column] = steps[column]
                add_outer(table, here, direction, tau)
                _add_squares(feature_squares, here, own_x, weight)


@compiled
def learn_sparse(table, intercept, first, feature_squares, constant, update, examples, targets, scores):  # type: ignore[no-untyped-def]
    """Learn rows as `learn_linear`, to the bit, with a sparse table, without metrics of weights.

    Begins with row `first`. Returns the first row that was not learnt, and the room that the pool may lack for it; then
    nothing of this row has been learnt. `intercept`, of shape (1, 1, width), is row 0 of a dense table.
    """
    indptr, indices, values = examples
    listed_indptr, listed, listed_signs, complete, n_labels, weights = targets
    width, longest = padded(intercept, scores.shape[1]), longest_row(indptr)
    present, squares = np.empty(width), np.empty(longest if len(feature_squares) > 0 else 0)
    rows, x, direction = (
        np.empty(longest, np.int64),
        np.empty(longest, intercept.dtype),
        np.empty(longest, intercept.dtype),
    )
    all_signs, tau = np.empty(width, np.int8), np.empty(width, intercept.dtype)
    order, moves, work = np.empty(width, np.int32), np.empty(width, np.int32), np.empty((SCRATCH, width))
    blocks, missing = np.empty(1 + width // BLOCK, np.int64), np.empty(1 + width // BLOCK, np.int64)
    for i in range(first, len(indptr) - 1):
        row, truth = slice(indptr[i], indptr[i + 1]), slice(listed_indptr[i], listed_indptr[i + 1])
        features, given, weight, n_columns = indices[row], values[row], weight_of(weights, i), 1 + n_labels[i]
        signs = all_signs[:n_columns]
        score_sparse_example(table, intercept, constant, features, given, present)
        for column in range(scores.shape[1]):
            scores[i, column] = present[column] if column < n_columns else 0.0
        set_signs(listed[truth], listed_signs[truth], complete[i], signs)
        size = set_example(constant, features, given, rows, x)
        tau[n_columns:] = 0.0
        here, own_x = rows[:size], x[:size]
        k = _set_direction(feature_squares, constant, given, here, own_x, direction, squares)
        steps, before = work[STEPS, :n_columns], present[:n_columns]
        if run_update(update, ANY, weight, n_labels[i], k, before, signs, steps, order, moves, work):
            for column in range(n_columns):
                tau[column] = steps[column]
            moved = blocks[: list_blocks(tau, blocks)]
            room = missing_room(table, features, len(moved))
            if room > 0:
                return i, room
            add_outer(intercept, here[: size - len(features)], direction, tau)
            for p in range(len(features)):
                value = direction[size - len(features) + p]
                if value != 0 and len(moved) > 0:
                    add_to_row(table, features[p], value, tau, moved, missing)
            _add_squares(feature_squares, here, own_x, weight)
    return len(indptr) - 1, 0


@compiled
def score_sparse(table, intercept, constant, examples, scores):  # type: ignore[no-untyped-def]
    """Write the scores (n_samples, 1 + n_labels) of rows; features without weights count as 0."""
    indptr, indices, values = examples
    present = np.empty(padded(intercept, scores.shape[1]))
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        score_sparse_example(table, intercept, constant, indices[row], values[row], present)
        for column in range(scores.shape[1]):
            scores[i, column] = present[column]


@compiled
def score_sparse_example(table, intercept, constant, features, values, scores):  # type: ignore[no-untyped-def]
    """Write the scores of one example for all columns of the blocks."""
    for column in range(len(scores)):
        scores[column] = constant * intercept[0, 0, column]
    add_products(table, features, values, scores)


@compiled
def _set_direction(squares, constant, values, rows, x, direction, parts):  # type: ignore[no-untyped-def]
    """Write inv(H) x; return k = x' inv(H) x, in float64. `parts` is scratch."""
    if len(squares) == 0:
        for p in range(len(x)):
            direction[p] = x[p]
        return squared_norm(values, constant)
    for p in range(len(x)):  # separate loops, so that the middle loop is vectorised
        parts[p] = squares[rows[p]]
    for p in range(len(x)):
        direction[p] = x[p] / np.sqrt(1.0 + parts[p])
        parts[p] = np.float64(x[p]) * np.float64(direction[p])
    k = 0.0
    for p in range(len(x)):
        k += parts[p]
    return k


@compiled
def _add_squares(squares, rows, x, weight):  # type: ignore[no-untyped-def]
    """Add the weighted squares of an example's values to those of its features, if stored."""
    if len(squares) > 0:
        for p in range(len(rows)):
            squares[rows[p]] += weight * (np.float64(x[p]) * x[p])
