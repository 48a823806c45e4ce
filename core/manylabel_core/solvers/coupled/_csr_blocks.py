"""Compiled passes over blocks of sparse rows.

A table Z of weights has a row for each feature and one for the constant.
"""

import numpy as np

from manylabel_core.compiled import compiled
from manylabel_core.solvers._csr import inner_product
from manylabel_core.solvers.coupled._block import solve_block


@compiled
def subtract_scores(X, constant, Z, points, T):  # type: ignore[no-untyped-def]
    """Subtract the scores `x Z` of some points from the rows of T (len(points), n_labels)."""
    n_labels = Z.shape[1]
    for p in range(len(points)):
        row = T[p]
        for label in range(n_labels):
            row[label] -= constant * Z[-1, label]
        for q in range(np.uint64(X.indptr[points[p]]), np.uint64(X.indptr[points[p] + 1])):
            value, weights = X.values[q], Z[np.uint32(X.indices[q])]
            for label in range(n_labels):
                row[label] -= value * weights[label]


@compiled
def add_outer(X, constant, points, M, Z):  # type: ignore[no-untyped-def]
    """Add `x' M_p` of some points to Z; M is of shape (len(points), n_labels)."""
    n_labels = Z.shape[1]
    for p in range(len(points)):
        row = M[p]
        if not row.any():
            continue
        for label in range(n_labels):
            Z[-1, label] += constant * row[label]
        for q in range(np.uint64(X.indptr[points[p]]), np.uint64(X.indptr[points[p] + 1])):
            value, weights = X.values[q], Z[np.uint32(X.indices[q])]
            for label in range(n_labels):
                weights[label] += value * row[label]


@compiled
def inner_products(X, constant, points, dense, K):  # type: ignore[no-untyped-def]
    """Write the inner products of some points; `dense` is a row of zeros to work in, and is left so."""
    for p in range(len(points)):
        listed = slice(X.indptr[points[p]], X.indptr[points[p] + 1])
        dense[X.indices[listed]] = X.values[listed]
        for r in range(p, len(points)):
            K[p, r] = constant * constant + inner_product(X, points[r], dense)
            K[r, p] = K[p, r]
        dense[X.indices[listed]] = 0.0


@compiled
def sweep_blocks(X, constant, Z, B, task, points, starts, sweeps, state):  # type: ignore[no-untyped-def]
    """Solve block after block: `points[starts[k]:starts[k + 1]]`; B and Z (n_features + 1, n_labels) are updated."""
    n_labels = Z.shape[1]
    dense = np.zeros(len(Z) - 1, Z.dtype)
    for k in range(len(starts) - 1):
        block = points[starts[k] : starts[k + 1]]
        m = len(block)
        K = np.empty((m, m), Z.dtype)
        T, moves = np.empty((m, n_labels), Z.dtype), np.empty((m, n_labels), Z.dtype)
        for p in range(m):
            for label in range(n_labels):
                T[p, label] = task.Y[block[p], label]
        subtract_scores(X, constant, Z, block, T)
        inner_products(X, constant, block, dense, K)
        if solve_block(K, T, B, block, task, sweeps, state, moves):
            _couple(moves, task.S, task.coupled, T)
            add_outer(X, constant, block, T, Z)


@compiled
def _couple(moves, S, coupled, product):  # type: ignore[no-untyped-def]
    """Write `moves S`; most moves are 0."""
    for p in range(len(moves)):
        if not coupled:
            for label in range(len(S)):
                product[p, label] = moves[p, label] * S[label, label]
            continue
        product[p] = 0.0
        for label in range(len(S)):
            if moves[p, label] != 0.0:
                for other in range(len(S)):
                    product[p, other] += moves[p, label] * S[label, other]
