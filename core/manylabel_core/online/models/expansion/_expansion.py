"""The scores of an expansion sum_v alpha_v K(x_v, .) over support vectors.

Support vector v has the coefficients `alpha[v, 0]` (threshold first), and is point v of a pool (see `points`). Where
the mean of the coefficients after each of the examples so far is kept, `alpha[v, 1]` holds their accumulators, as for
linear models (see `_table` there): the mean is coefficient - accumulator / n_seen. Whatever is linear in the
coefficients is done to both.
"""

from manylabel_core.compiled import compiled


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
