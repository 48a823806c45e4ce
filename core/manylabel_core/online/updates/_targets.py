"""True labels of one example.

Column 0 is the threshold and column 1 + l the label l, in every array of this package.
"""

from manylabel_core.compiled import compiled


@compiled
def set_signs(listed, listed_signs, complete, signs):  # type: ignore[no-untyped-def]
    """Write +1 (relevant), -1 (irrelevant) or 0 (unknown) for every label into `signs`."""
    signs[:] = -1 if complete else 0
    signs[0] = 0
    for p in range(len(listed)):
        signs[1 + listed[p]] = listed_signs[p]


@compiled
def weight_of(weights, i):  # type: ignore[no-untyped-def]
    """Return the factor of the loss of example i; 1 if there are no weights."""
    return weights[i] if len(weights) > 0 else 1.0


@compiled
def group_known(signs, order):  # type: ignore[no-untyped-def]
    """Order the known labels, relevant ones first; return the number of the relevant and of all."""
    n_relevant = 0
    for column in range(1, len(signs)):
        order[n_relevant] = column
        n_relevant += signs[column] > 0
    n_known = n_relevant
    for column in range(1, len(signs)):
        if signs[column] < 0:
            order[n_known] = column
            n_known += 1
    return n_relevant, n_known
