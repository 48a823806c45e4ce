"""Second-order logistic regression of all labels, Eq. (10i) of docs/mathematics.md.

P, the inverse of the second moments of examples plus a diagonal, is shared by the labels. Each label scales it by the
mean curvature of its log loss. P is symmetric bit for bit, because P_ij and P_ji change by the same product.

A label is learnt from its first relevant example on. Until then only a title can say that the label is likely, and a
log-odds of 0 leaves that to the other inputs of a stack.

Row 0 of the tables is that of the constant; those of the ranks and then those of the features follow. A feature without
examples has zeros in P, except on the diagonal, and in W. So rows of features that are not there yet change no sum.

An example is skipped if rounding would make the diagonal of P negative, which needs values far above those of scaled
features. So the diagonal never grows, is never below 0, and bounds all other elements.
"""

import numpy as np

from manylabel_core._elementary import sigmoid
from manylabel_core.compiled import compiled
from manylabel_core.online.updates._targets import set_signs, weight_of

PRIOR, CONSTANT_PRIOR = 3.0 / 4.0, 33.0 / 4.0
"""Diagonal of P at the start: of features, and of the constant."""

START_CURVATURE, START_COUNT = 2.5, 10.0
"""Sum of curvatures of a label at the start, and the number of examples that it stands for."""

MIN_CURVATURE = 1e-4
"""Lower bound of curvatures p (1 - p)."""

MAX_FEATURES, MAX_LABELS = 512, 1024
"""Maximum numbers of features and labels; P has the square of the first, W their product."""


@compiled
def score_second_order(weights, n_ranked, constant, examples, ranks, scores):  # type: ignore[no-untyped-def]
    """Write the log-odds (n_samples, 1 + n_labels) of rows, threshold first; features without a row count as 0."""
    for i in range(len(scores)):
        _score_example(weights, n_ranked, constant, row_of(examples, i), row_of(ranks, i), scores[i])


@compiled
def learn_second_order(  # type: ignore[no-untyped-def]
    covariance, weights, curvatures, seen, n_rows, n_ranked, constant, examples, ranks, targets, scores
):
    """Learn rows in order; write the log-odds of each row before it was learnt.

    `n_rows` is the number of rows of the tables in use, `n_ranked` of them those of ranks. Returns the number of rows
    learnt. It is less than the number of all if the next row has too many features or labels; its log-odds are written.
    """
    listed_indptr, listed, listed_signs, complete, n_labels, weights_of = targets
    width = scores.shape[1] - 1
    g, error, signs = np.empty(n_rows), np.empty(width), np.empty(1 + width, np.int8)
    for i in range(len(scores)):
        now, weight = n_labels[i], weight_of(weights_of, i)
        example, own_ranks = row_of(examples, i), row_of(ranks, i)
        scores[i, 1 + now :] = 0.0
        _score_example(weights, n_ranked, constant, example, own_ranks, scores[i, : 1 + now])
        if now > MAX_LABELS or _are_beyond(example[0]):
            return i
        v = _project(covariance, n_ranked, constant, example, own_ranks, g)
        if not v > 0.0:
            continue
        scale = np.sqrt(1.0 / (1.0 / weight + v))
        if not _is_positive(covariance, g, scale):
            continue
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        set_signs(listed[truth], listed_signs[truth], complete[i], signs[: 1 + now])
        _find_steps(scores[i, 1 : 1 + now], signs[1 : 1 + now], curvatures, seen[0], weight, v, error[:now])
        seen[0] += weight
        for j in range(n_rows):
            if g[j] != 0.0:
                for label in range(now):
                    weights[j, label] += g[j] * error[label]
                g[j] *= scale
        for j in range(n_rows):
            if g[j] != 0.0:
                for k in range(n_rows):
                    covariance[j, k] -= g[j] * g[k]
    return len(scores)


@compiled
def _are_beyond(features):  # type: ignore[no-untyped-def]
    n_beyond = 0
    for p in range(len(features)):
        n_beyond += features[p] >= MAX_FEATURES
    return n_beyond > 0


@compiled
def row_of(rows, i):  # type: ignore[no-untyped-def]
    """Return the columns and the values of row i."""
    indptr, indices, values = rows
    return indices[indptr[i] : indptr[i + 1]], values[indptr[i] : indptr[i + 1]]


@compiled
def _score_example(weights, n_ranked, constant, example, ranks, scores):  # type: ignore[no-untyped-def]
    scores[:] = 0.0
    if len(weights) > 0:
        _add(weights[0], constant, scores[1:])
        _add_rows(weights[1 : 1 + n_ranked], ranks, scores[1:])
        _add_rows(weights[1 + n_ranked :], example, scores[1:])


@compiled
def _add_rows(table, row, sums):  # type: ignore[no-untyped-def]
    """Add the rows of a table times the values of a row, in order; columns without a row count as 0.

    Four rows at a time, because most of the time is spent on reading and writing the sums.
    """
    columns, values = row
    p = 0
    while p < len(columns):
        if p + 4 <= len(columns) and max(columns[p], columns[p + 1], columns[p + 2], columns[p + 3]) < len(table):
            _add_four(table, columns[p : p + 4], values[p : p + 4], sums)
            p += 4
        else:
            if columns[p] < len(table):
                _add(table[columns[p]], np.float64(values[p]), sums)
            p += 1


@compiled
def _add_four(table, columns, values, sums):  # type: ignore[no-untyped-def]
    a, b, c, d = table[columns[0]], table[columns[1]], table[columns[2]], table[columns[3]]
    va, vb, vc, vd = np.float64(values[0]), np.float64(values[1]), np.float64(values[2]), np.float64(values[3])
    for k in range(len(sums)):
        sums[k] = (((sums[k] + va * a[k]) + vb * b[k]) + vc * c[k]) + vd * d[k]


@compiled
def _project(covariance, n_ranked, constant, example, ranks, g):  # type: ignore[no-untyped-def]
    """Write g = P z; return z.g."""
    g[:] = 0.0
    _add(covariance[0], constant, g)
    _add_rows(covariance[1 : 1 + n_ranked], ranks, g)
    _add_rows(covariance[1 + n_ranked :], example, g)
    return constant * g[0] + _dot(ranks, g[1 : 1 + n_ranked]) + _dot(example, g[1 + n_ranked :])


@compiled
def _dot(row, g):  # type: ignore[no-untyped-def]
    columns, values = row
    total = 0.0
    for p in range(len(columns)):
        if columns[p] < len(g):
            total += np.float64(values[p]) * g[columns[p]]
    return total


@compiled
def _add(row, factor, sums):  # type: ignore[no-untyped-def]
    for k in range(len(sums)):
        sums[k] += factor * row[k]


@compiled
def _is_positive(covariance, g, scale):  # type: ignore[no-untyped-def]
    """Return whether the diagonal of P is not negative after an example."""
    n_negative = 0
    for j in range(len(g)):
        n_negative += (scale * g[j]) * (scale * g[j]) > covariance[j, j]
    return n_negative == 0


@compiled
def _find_steps(logits, signs, curvatures, seen, weight, v, error):  # type: ignore[no-untyped-def]
    """Write the steps of labels along g, 0 where the truth is unknown, and update the curvatures."""
    for label in range(len(signs)):
        p = sigmoid(logits[label])
        begun = (signs[label] > 0) | (curvatures[label] > START_CURVATURE)
        known = np.float64((signs[label] != 0) & begun)
        own = weight * max(p * (1.0 - p), MIN_CURVATURE)
        mean = curvatures[label] / (seen + START_COUNT)
        error[label] = weight * (known * (np.float64(signs[label] > 0) - p)) / (mean + own * v)
        curvatures[label] += known * own
