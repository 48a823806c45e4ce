"""Stacking of experts: the probability of a label from the margins of several models, Eqs. (10a) to (10d).

The equations are in docs/mathematics.md. Once a label of the model has a title, the evidence of titles (`_titles`) is
another element of phi, whose coefficient all labels share. The steps clip margins at -16 and 16, so that one example
moves the coefficients by a bounded amount. Coefficients of margins and of titles are never negative: an expert that is
wrong is ignored and never inverted, because it will improve. The two coefficients without this bound are first in phi.
They are the best ones for the bounded coefficients after the step. If they compensated the part of a step that a bound
cuts off, they would move at each example, without end.

The table of labels has a column for each: v_l, the lower triangle of H_l row by row, and the recent share. The shared
table has one column, without the last row. Loops over labels have no branches, so that they become vector instructions,
of + - * / and square roots, which have identical bits on every machine.
"""

import numpy as np

from manylabel_core._elementary import sigmoid
from manylabel_core.compiled import compiled
from manylabel_core.online.updates._implicit import ordered_sum
from manylabel_core.online.updates._targets import set_signs, weight_of

KEPT = 0.9995
"""Share of the curvature kept from one example to the next: a memory of two thousand examples."""

MAX_MARGIN = 16.0
"""Bound of the margins from which coefficients learn; the target of experts is 1."""

RECENT = 0.65
"""Share of a label's recent share kept from one example to the next: it follows bursts of labels."""

START_INTERCEPT, START_MARGINS, START_TITLES = -1.0, 2.0, 0.5
"""Coefficients at the start: of the 1, of all the margins together, and of titles; others are 0."""

SHARED_RIDGE, OWN_RIDGE = 2.0, 5.0
"""Ridges of the shared coefficients, and of a label's own ones."""

FREE = 2
"""Number of coefficients without a lower bound of 0: those of the 1 and of the recent share, the first in phi."""

SWEEPS = 2
"""Rounds of corrections of bounded coefficients after the elimination."""

MAX_COEFFICIENT = 2.0**20
"""Bound of coefficients, so that no step overflows in any state."""


@compiled
def score_stack(shared, labels, margins, evidence, scores):  # type: ignore[no-untyped-def]
    """Write the log-odds of every label of rows, and 0 for the threshold."""
    n_labels, titled = scores.shape[1] - 1, int(len(evidence) > 0)
    phi = np.empty((FREE + len(margins) + titled, n_labels))
    for i in range(len(scores)):
        _describe(labels, margins, evidence, i, n_labels, phi)
        scores[i, 0] = 0.0
        _find_logits(shared, labels, phi, FREE + len(margins), scores[i, 1:])


@compiled
def learn_stack(start, shared, labels, existing, margins, evidence, targets, scores):  # type: ignore[no-untyped-def]
    """Learn rows in order; write the log-odds of each row before it was learnt, 0 for labels that did not exist.

    `start` are the shared coefficients at the start. `existing`, of length 1, is the number of labels so far; a label
    does not count in its first example. Other arguments are those of `score_stack`.
    """
    listed_indptr, listed, listed_signs, complete, n_labels, weights = targets
    width, n_own = scores.shape[1] - 1, FREE + len(margins)
    n_coefficients = n_own + int(len(evidence) > 0)
    n_curvatures = n_coefficients * (n_coefficients + 1) // 2
    phi, work = np.empty((n_coefficients, width)), np.empty((n_curvatures, width))
    step, signs = np.empty((n_own, width)), np.empty(1 + width, np.int8)
    known, error = np.empty(width), np.empty(width)
    for i in range(len(scores)):
        now, old = n_labels[i], min(n_labels[i], existing[0])
        existing[0] = max(existing[0], now)
        _describe(labels, margins, evidence, i, now, phi)
        scores[i, 0], scores[i, 1 + now :] = 0.0, 0.0
        _find_logits(shared, labels, phi, n_own, scores[i, 1 : 1 + now])
        truth = slice(listed_indptr[i], listed_indptr[i + 1])
        set_signs(listed[truth], listed_signs[truth], complete[i], signs[: 1 + now])
        weight = weight_of(weights, i)
        if _is_any_known(signs[1 : 1 + old]):
            own = slice(0, old)
            _cut_margins(phi, n_own, old)
            _find_errors(scores[i, 1 : 1 + old], signs[1 : 1 + old], weight, known[own], error[own], work[0, own])
            _set_products(phi, work[0, own], work)
            _learn_shared(start, shared, phi, error[own], work)
            _learn_own(shared, labels, phi, known[own], error[own], work, step)
        _follow(labels[len(labels) - 1], signs[1 : 1 + now], weight)


@compiled
def _describe(labels, margins, evidence, i, n_labels, phi):  # type: ignore[no-untyped-def]
    """Write the inputs phi of the first labels in row i."""
    n_experts, recent = len(margins), len(labels) - 1
    for label in range(n_labels):
        phi[0, label] = 1.0
    for label in range(n_labels):
        phi[1, label] = 2.0 * np.sqrt(labels[recent, label])
    for q in range(n_experts):
        for label in range(n_labels):
            phi[FREE + q, label] = margins[q, i, 1 + label] - margins[q, i, 0]
    if len(evidence) > 0:
        for label in range(n_labels):
            phi[FREE + n_experts, label] = evidence[i, 1 + label]


@compiled
def _find_logits(shared, labels, phi, n_own, logits):  # type: ignore[no-untyped-def]
    """Write the log-odds of labels from phi; corrections cover the first n_own elements."""
    logits[:] = 0.0
    for k in range(n_own):
        for label in range(len(logits)):
            logits[label] += (shared[k, 0] + labels[k, label]) * phi[k, label]
    for k in range(n_own, len(phi)):
        for label in range(len(logits)):
            logits[label] += shared[k, 0] * phi[k, label]


@compiled
def _is_any_known(signs):  # type: ignore[no-untyped-def]
    n_known = 0
    for label in range(len(signs)):
        n_known += signs[label] != 0
    return n_known > 0


@compiled
def _cut_margins(phi, n_own, n_labels):  # type: ignore[no-untyped-def]
    """Clip margins for the learning of coefficients."""
    for q in range(FREE, n_own):
        for label in range(n_labels):
            phi[q, label] = min(max(phi[q, label], -MAX_MARGIN), MAX_MARGIN)


@compiled
def _find_errors(logits, signs, weight, known, error, curvature):  # type: ignore[no-untyped-def]
    """Write which labels are known (0 or 1), and their weighted p - y and p (1 - p)."""
    for label in range(len(signs)):
        p, known[label] = sigmoid(logits[label]), np.float64(signs[label] != 0)
        error[label] = weight * (known[label] * (p - np.float64(signs[label] > 0)))
        curvature[label] = weight * (known[label] * p * (1.0 - p))


@compiled
def _set_products(phi, curvature, products):  # type: ignore[no-untyped-def]
    """Write the lower triangle of p (1 - p) phi phi'; `curvature` may be the first row of the result."""
    at = len(products) - 1
    for j in range(len(phi) - 1, -1, -1):
        for k in range(j, -1, -1):
            for label in range(len(curvature)):
                products[at, label] = curvature[label] * phi[j, label] * phi[k, label]
            at -= 1


@compiled
def _learn_shared(start, shared, phi, error, products):  # type: ignore[no-untyped-def]
    """Newton step of the shared coefficients."""
    n = len(phi)
    step, most, work = np.empty((n, 1)), np.empty((n, 1)), np.empty((len(products), 1))
    for p in range(len(products)):
        shared[n + p, 0] = KEPT * shared[n + p, 0] + ordered_sum(products[p, : len(error)])
        work[p, 0] = shared[n + p, 0]
    own = np.empty(len(error))
    for k in range(n):
        for label in range(len(error)):
            own[label] = error[label] * phi[k, label]
        away = shared[k, 0] - start[k]
        step[k, 0] = ordered_sum(own) + (1.0 - KEPT) * SHARED_RIDGE * away
        most[k, 0] = shared[k, 0]
    _solve(work, SHARED_RIDGE, step, most)
    for k in range(n):
        least = -MAX_COEFFICIENT if k < FREE else 0.0
        shared[k, 0] = min(max(shared[k, 0] - step[k, 0], least), MAX_COEFFICIENT)


@compiled
def _learn_own(shared, labels, phi, known, error, products, step):  # type: ignore[no-untyped-def]
    """Newton step of each label's corrections; overwrites `products`."""
    n, n_labels = len(step), len(known)
    most = np.empty((n, n_labels))
    for p in range(n * (n + 1) // 2):
        for label in range(n_labels):
            kept = 1.0 - (1.0 - KEPT) * known[label]
            labels[n + p, label] = kept * labels[n + p, label] + products[p, label]
            products[p, label] = labels[n + p, label]
    for k in range(n):
        drawn = (1.0 - KEPT) * OWN_RIDGE
        for label in range(n_labels):
            step[k, label] = error[label] * phi[k, label] + drawn * known[label] * labels[k, label]
            most[k, label] = labels[k, label] + shared[k, 0]
    _solve(products[:, :n_labels], OWN_RIDGE, step[:, :n_labels], most)
    for k in range(n):
        least = -MAX_COEFFICIENT if k < FREE else -shared[k, 0]
        for label in range(n_labels):
            labels[k, label] = min(max(labels[k, label] - step[k, label], least), MAX_COEFFICIENT)


@compiled
def _solve(matrix, ridge, vector, most):  # type: ignore[no-untyped-def]
    """Replace b, the vector, by the x with the least x'Ax / 2 - b'x of which x_k is at most most_k for k >= FREE.

    A is (matrix + ridge I); the matrix, a lower triangle, is positive semi-definite, and is overwritten. Gaussian
    elimination; the back substitution bounds each element before those that depend on it. Then sweeps find each bounded
    element again for the others, and the free elements follow. It is exact if no bound holds, and nearly so otherwise.
    """
    n, n_columns = vector.shape
    bounded, values = np.empty((_at(n - FREE, 0), n_columns)), np.empty((n - FREE, n_columns))
    _eliminate(matrix, ridge, vector, 0, FREE)
    for i in range(FREE, n):
        values[i - FREE] = vector[i]
        for j in range(FREE, i + 1):
            bounded[_at(i - FREE, j - FREE)] = matrix[_at(i, j)]
    _eliminate(matrix, ridge, vector, FREE, n)
    for j in range(n - 1, FREE - 1, -1):
        _substitute(matrix, vector, j)
        for label in range(n_columns):
            vector[j, label] = min(vector[j, label], most[j, label])
    for _ in range(SWEEPS):
        for i in range(n - FREE - 1, -1, -1):
            _correct(bounded, ridge, values, i, vector[FREE:], most[FREE + i])
    for j in range(FREE - 1, -1, -1):
        _substitute(matrix, vector, j)


@compiled
def _eliminate(matrix, ridge, vector, first, last):  # type: ignore[no-untyped-def]
    """Eliminate elements of the vector; replaces their pivots by the inverse."""
    for j in range(first, last):
        pivot = matrix[_at(j, j)]
        for label in range(len(pivot)):
            pivot[label] = 1.0 / max(pivot[label] + ridge, 0.5 * ridge)
        for i in range(j + 1, len(vector)):
            below = matrix[_at(i, j)]
            for k in range(j + 1, i + 1):
                target, source = matrix[_at(i, k)], matrix[_at(k, j)]
                for label in range(len(pivot)):
                    target[label] -= below[label] * pivot[label] * source[label]
            for label in range(len(pivot)):
                vector[i, label] -= below[label] * pivot[label] * vector[j, label]


@compiled
def _substitute(matrix, vector, j):  # type: ignore[no-untyped-def]
    """Find element j of the vector from later ones."""
    for k in range(j + 1, len(vector)):
        for label in range(vector.shape[1]):
            vector[j, label] -= matrix[_at(k, j), label] * vector[k, label]
    for label in range(vector.shape[1]):
        vector[j, label] *= matrix[_at(j, j), label]


@compiled
def _correct(matrix, ridge, values, i, vector, most):  # type: ignore[no-untyped-def]
    """Find element i for the others, of the system (matrix + ridge I) x = values."""
    left = values[i].copy()
    for j in range(len(vector)):
        if j != i:
            at = _at(max(i, j), min(i, j))
            for label in range(len(left)):
                left[label] -= matrix[at, label] * vector[j, label]
    pivot = matrix[_at(i, i)]
    for label in range(len(left)):
        vector[i, label] = min(left[label] / max(pivot[label] + ridge, 0.5 * ridge), most[label])


@compiled
def _at(i, j):  # type: ignore[no-untyped-def]
    """Return the row of the lower triangle for row i and column j."""
    return i * (i + 1) // 2 + j


@compiled
def _follow(recent, signs, weight):  # type: ignore[no-untyped-def]
    """Update the recent shares of labels with known truth by an example's weight."""
    new = (1.0 - RECENT) * weight
    rate = new / (RECENT + new)
    for label in range(len(signs)):
        kept = 1.0 - rate * np.float64(signs[label] != 0)
        recent[label] = kept * recent[label] + rate * np.float64(signs[label] > 0)
