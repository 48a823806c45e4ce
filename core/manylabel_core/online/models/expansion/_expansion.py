"""The scores of an expansion sum_v alpha_v K(x_v, .) over support vectors.

Support vector v has the coefficients `alpha[v]` (threshold first), and is point v of a pool (see `points`).
"""

from manylabel_core.compiled import compiled


@compiled
def score_expansion(constant, intercept, alpha, column, n_vectors, scores):  # type: ignore[no-untyped-def]
    """Write the scores of an example from its kernel column: sums over the vectors in their order."""
    for c in range(len(scores)):
        scores[c] = constant * intercept[c]
    for v in range(n_vectors):
        value = column[v]
        for c in range(len(scores)):
            scores[c] += value * alpha[v, c]
