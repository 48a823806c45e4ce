"""Kernel models: the scores of an expansion sum_v alpha_v K(x_v, .) over support vectors.

Support vector v has the coefficients `alpha[v]` (threshold first), the entries `place[v, 0]` up to
`place[v, 1]` of the pool (ascending feature columns and their values), and in `norms[v]` its squared norm and
that of its coefficients.
"""

import numpy as np

from manylabel_core._compiled import kernel
from manylabel_core.kernels import inner_product, kernel_value


@kernel
def score_expansion(  # type: ignore[no-untyped-def]
    shape, bias, alpha, place, norms, pool_indices, pool_values, n_vectors, work, features, values, scores
):
    """Score one example.

    Parameters
    ----------
    shape, bias
        The kernel (see `kernel_value`) and a constant that is added to it.
    alpha, place, norms, pool_indices, pool_values, n_vectors
        The expansion.
    work : array of shape (2, n_features), float64
        Scratch; row 0 holds zeros before and after. Features beyond it are in no support vector and only
        count in the norm of x.
    features, values
        The example x, without zeros.
    scores : array of shape (1 + n_labels,), float64
        Result: sums over the support vectors in their order.

    Returns
    -------
    K(x, x), |x|^2
    """
    dense, gathered = work[0], work[1]
    known = np.searchsorted(features, len(dense))
    for p in range(known):
        dense[features[p]] = values[p]
    xx = inner_product(values, values)
    scores[:] = 0.0
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
        value = kernel_value(shape, uv, norms[v, 0], xx) + bias
        for column in range(len(scores)):
            scores[column] += value * alpha[v, column]
    for p in range(known):
        dense[features[p]] = 0.0
    return kernel_value(shape, xx, xx, xx) + bias, xx
