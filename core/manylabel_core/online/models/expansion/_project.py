"""Inverse of the kernel matrix of the support vectors, and projections on their span, Eq. (19) of docs/mathematics.md.

Vectors have norm 1 in feature space: C_uv = K(u, v) / sqrt(K(u, u) K(v, v)). Q is the inverse of C + RIDGE I, so its
elements stay below 1 / RIDGE for any vectors, equal ones included. With one more vector, whose column of C is c, and g
= Q c,

    Q becomes   [Q + g g' / rest    -g / rest]
                [   -g' / rest       1 / rest]     with rest = 1 + RIDGE - c.g,

and without vector s, whose column of Q is q, it becomes Q - q q' / q_s. See Csato, Opper: Sparse on-line Gaussian
processes, Neural Computation 14, 2002; Orabona, Keshet, Caputo: The Projectron, ICML 2008, Eqs. (9) to (11).
"""

import math

import numpy as np

from manylabel_core._mercer import inner_product
from manylabel_core.compiled import compiled
from manylabel_core.online.models._kernel_column import kernel_column
from manylabel_core.online.models.linear._table import squared_norm

RIDGE = 1e-4
"""Share of a vector that is treated as independent of all others."""

MAX_COEFFICIENT = 1e30
"""Coefficients of vectors that are small in feature space saturate here."""


@compiled
def normalise(column, own, scales, n_vectors, cosines):  # type: ignore[no-untyped-def]
    """Write the column of C of an example from that of the kernel; return the example's norm in feature space."""
    scale = math.sqrt(own)
    for v in range(n_vectors):
        cosines[v] = min(max(column[v] / scales[v] / scale, -1.0), 1.0)
    return scale


@compiled
def fits(Q, product, rest, n_vectors):  # type: ignore[no-untyped-def]
    """Return whether Q with one more vector is the inverse of a matrix that vectors can have, but for rounding.

    A kernel whose values saturate may give others.
    """
    if rest < 0.5 * RIDGE:
        return False
    largest = 1.0 / rest
    for v in range(n_vectors):
        largest = max(largest, Q[v, v] + product[v] * (product[v] / rest))
    return largest <= 2.0 / RIDGE


@compiled
def multiply(Q, cosines, n_vectors, product):  # type: ignore[no-untyped-def]
    """Write g = Q c; return the squared distance of the example from the span of the vectors."""
    for v in range(n_vectors):
        product[v] = inner_product(Q[v, :n_vectors], cosines[:n_vectors])
    return 1.0 + RIDGE - inner_product(cosines[:n_vectors], product[:n_vectors])


@compiled
def border(Q, product, rest, n_vectors):  # type: ignore[no-untyped-def]
    """Update Q, which has capacity, for one more vector."""
    for v in range(n_vectors):
        share = product[v] / rest
        for u in range(n_vectors):
            Q[v, u] += share * product[u]
        Q[v, n_vectors] = -share
        Q[n_vectors, v] = -share
    Q[n_vectors, n_vectors] = 1.0 / rest


@compiled
def least_missed(Q, product, rest, scales, alpha_norms, n_vectors):  # type: ignore[no-untyped-def]
    """Return the vector that is best projected on the others: |alpha|^2 K(x, x) / q is smallest.

    Q and `product` are those before the newest vector, `scales` and `alpha_norms` those with it.
    """
    slot, least = n_vectors, alpha_norms[n_vectors] * scales[n_vectors] ** 2 * rest
    for v in range(n_vectors):
        missed = alpha_norms[v] * scales[v] ** 2 / (Q[v, v] + product[v] * (product[v] / rest))
        if missed < least:
            slot, least = v, missed
    return slot


@compiled
def replace(Q, product, rest, slot, n_vectors, leaving):  # type: ignore[no-untyped-def]
    """Update Q for the newest vector in a slot; write the column of the previous vector to `leaving`.

    `leaving`, of n_vectors + 1 elements, is its column of the inverse with both of them, the newest one last.
    """
    for v in range(n_vectors):
        leaving[v] = Q[v, slot] + product[v] * (product[slot] / rest)
    leaving[n_vectors] = -product[slot] / rest
    own, newest = leaving[slot], leaving[n_vectors]
    for v in range(n_vectors):
        gained, lost = product[v] / rest, leaving[v] / own
        for u in range(n_vectors):
            Q[v, u] += gained * product[u] - lost * leaving[u]
    for v in range(n_vectors):
        value = -product[v] / rest - leaving[v] * (newest / own)
        Q[v, slot] = value
        Q[slot, v] = value
    Q[slot, slot] = 1.0 / rest - newest * (newest / own)


@compiled
def project(alpha, alpha_norms, slot, shares, scales, n_vectors):  # type: ignore[no-untyped-def]
    """Add to the coefficients of every other vector its share of those of the slot, and reweigh."""
    for v in range(n_vectors):
        if v == slot:
            continue
        share = shares[v] * (scales[slot] / scales[v])
        for column in range(alpha.shape[1]):
            value = alpha[v, column] + share * alpha[slot, column]
            alpha[v, column] = min(max(value, -MAX_COEFFICIENT), MAX_COEFFICIENT)
        alpha_norms[v] = squared_norm(alpha[v], 0.0)


@compiled
def invert(C, n_vectors, Q):  # type: ignore[no-untyped-def]
    """Write the inverse of C + RIDGE I by bordering; return whether it exists."""
    product = np.empty(n_vectors)
    for n in range(n_vectors):
        rest = multiply(Q, C[n], n, product)
        if not fits(Q, product, rest, n):
            return False
        border(Q, product, rest, n)
    return True


@compiled
def cosine_matrix(shape, place, norms, pool_indices, pool_values, n_vectors, scales, work, C):  # type: ignore[no-untyped-def]
    """Write C of the vectors, and their norms in feature space; return whether all are above 0."""
    column = np.empty(n_vectors)
    for v in range(n_vectors):
        entries = slice(place[v, 0], place[v, 1])
        own, _ = kernel_column(
            shape,
            0.0,
            place,
            norms,
            pool_indices,
            pool_values,
            v,
            work,
            pool_indices[entries],
            pool_values[entries],
            column,
        )
        if own <= 0.0:
            return False
        scales[v] = normalise(column, own, scales, v, C[v])
        C[v, v] = 1.0
        for u in range(v):
            C[u, v] = C[v, u]
    return True
