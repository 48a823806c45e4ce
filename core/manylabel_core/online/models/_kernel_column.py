"""Kernel values of an example with all points of a pool (see `points`)."""

from manylabel_core._ascending import count_below
from manylabel_core._mercer import inner_product, kernel_value, kernel_values
from manylabel_core.compiled import compiled


@compiled
def kernel_column(  # type: ignore[no-untyped-def]
    shape, bias, place, norms, pool_indices, pool_values, n_points, work, features, values, column
):
    """Write K(x_v, x) of an example x for every point."""
    dense, gathered = work[0], work[1]
    known = count_below(features, len(dense))
    for p in range(known):
        dense[features[p]] = values[p]
    xx = inner_product(values, values)
    for v in range(n_points):
        first, last = place[v, 0], place[v, 1]
        n = last - first
        source, at = gathered, 0
        if n > 0 and pool_indices[last - 1] - pool_indices[first] == n - 1:
            source, at = dense, pool_indices[first]  # no gaps, so nothing is gathered
        else:
            for p in range(n):
                gathered[p] = dense[pool_indices[first + p]]
        column[v] = inner_product(source[at : at + n], pool_values[first:last])
    kernel_values(shape, column[:n_points], norms[:n_points], xx)
    for v in range(n_points):
        column[v] += bias
    for p in range(known):
        dense[features[p]] = 0.0
    return kernel_value(shape, xx, xx, xx) + bias, xx
