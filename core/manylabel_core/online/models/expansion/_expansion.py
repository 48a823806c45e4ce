"""Kernel models: the scores of an expansion sum_v alpha_v K(x_v, .) over support vectors.

Support vector v has the coefficients `alpha[v, 0]` (threshold first), the entries `place[v, 0]` up to `place[v, 1]` of
the pool (ascending feature columns and their values), and the squared norm `norms[v]`. Where the mean of the
coefficients after each of the examples so far is kept, `alpha[v, 1]` holds their drag, as for linear models: a change
made when its column has the age t is missing from t terms of the mean, so that with the sum of t times each change, the
mean is coefficient - drag / age. Whatever is linear in the coefficients is done to both.
"""

import numpy as np

from manylabel_core._mercer import inner_product, kernel_value
from manylabel_core.compiled import compiled


@compiled
def kernel_column(  # type: ignore[no-untyped-def]
    shape, bias, place, norms, pool_indices, pool_values, n_vectors, work, features, values, column
):
    """Write K(x_v, x) of an example x for every support vector.

    Parameters
    ----------
    shape, bias
        The kernel (see `kernel_value`), and a constant that is added to it.
    place, norms, pool_indices, pool_values, n_vectors
        The vectors.
    work : array of shape (2, n_features), float64
        Scratch; row 0 holds zeros before and after. Features beyond it are in no support vector and only
        count in the norm of x.
    features, values
        The example x, without zeros.
    column : array of shape (>= n_vectors,), float64
        Result.

    Returns
    -------
    K(x, x), |x|^2
    """
    dense, gathered = work[0], work[1]
    known = np.searchsorted(features, len(dense))
    for p in range(known):
        dense[features[p]] = values[p]
    xx = inner_product(values, values)
    for v in range(n_vectors):
        first, last = place[v, 0], place[v, 1]
        n = last - first
        source, at = gathered, 0
        if n > 0 and pool_indices[last - 1] - pool_indices[first] == n - 1:
            source, at = dense, pool_indices[first]  # no gaps: nothing to gather
        else:
            for p in range(n):
                gathered[p] = dense[pool_indices[first + p]]
        uv = inner_product(source[at : at + n], pool_values[first:last])
        column[v] = kernel_value(shape, uv, norms[v], xx) + bias
    for p in range(known):
        dense[features[p]] = 0.0
    return kernel_value(shape, xx, xx, xx) + bias, xx


@compiled
def score_expansion(constant, intercept, alpha, column, n_vectors, scores):  # type: ignore[no-untyped-def]
    """Write the scores (planes, columns) of an example from its kernel column: sums over the vectors in their order."""
    for plane in range(len(scores)):
        for c in range(scores.shape[1]):
            scores[plane, c] = constant * intercept[plane, c]
    for v in range(n_vectors):
        value = column[v]
        for plane in range(len(scores)):
            for c in range(scores.shape[1]):
                scores[plane, c] += value * alpha[v, plane, c]
