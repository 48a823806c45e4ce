"""The compiled pass of automatic scaling (see `automatic`).

The entries of an example are the features that it has, and the dense features that it lacks. They are listed first;
then every step runs over them without branches, in loops of a few arrays each, so that it becomes vector instructions.

See Eq. (13) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core.compiled import compiled

COUNT, MEAN, SQUARES, HAVING = 0, 1, 2, 3
"""Columns of `moments`: how many values other than 0 a feature has had, their mean, and the sum of their squared
distances from it (Welford); and how many examples have had it, with any value."""

FAR, EARLY = 10.0, 10.0
"""Reach in deviations, and number of values before it applies: a value further from the mean counts as FAR deviations
away. So an outlier does not spoil the scale permanently, and a changing scale is still followed in steps."""

FEW, FAR_OF_FEW = 10, 5.0
"""Up to FEW dense features keep their magnitude: an example is divided by what its length usually is, not by its own.
Nor does an own length then make up for a deviation that is too large after a wild value, hence a shorter reach."""

VARIES = 1e-6
"""A feature whose values have a smaller variance than this, relative to their squared mean, says only yes or no."""

KNOWN, VALUE, HAS, SHARE, N_ROWS = 3, 4, 5, 6, 7
"""Rows of the entries of an example, after COUNT, MEAN and SQUARES of their features: number of examples that count for
the feature; the value; 1 if the example has it, else 0; for a dense feature the share of these examples with a value
other than 0, else 0. Then the number of all rows."""


@compiled
def scale_automatically(  # type: ignore[no-untyped-def]
    count, moments, dense, n_dense, n_values, missing_is_zero, store, indptr, indices, values
):
    """Return rows scaled by the statistics of the stream up to and including each of them. `n_values` is the sum of the
    counts of all features.
    """
    out_indptr = np.empty(len(indptr), np.int64)
    out_indptr[0] = 0
    out_indices, out_values = np.empty(len(indices), indices.dtype), np.empty(len(indices), values.dtype)
    at, entries = np.empty(0, indices.dtype), np.empty((N_ROWS, 0))
    end = np.int64(0)
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        n, most = count[0] + 1, n_dense[0] + indptr[i + 1] - indptr[i]
        if most > len(at):
            at, entries = np.empty(2 * most, at.dtype), np.empty((N_ROWS, 2 * most))
        if end + most > len(out_indices):
            out_indices, out_values = (
                _lengthened(out_indices, 2 * (end + most)),
                _lengthened(out_values, 2 * (end + most)),
            )
        counted = moments if store and not missing_is_zero else moments[:0]
        size = _list_entries(dense, n_dense[0], indices[row], values[row], counted, at, entries)
        _tell_missing(missing_is_zero, size, entries)
        _read(moments, at, size, entries)
        _keep_within_reach(n, n_dense[0], size, entries)
        _include(size, entries)
        if store:
            n_values[0] += _write(moments, at, size, entries)
        if missing_is_zero:
            _count_all(n, size, entries)
        n_quantities = _find_quantities(n, size, entries)
        if store:
            count[0], n_dense[0] = n, _list_dense(at, size, entries, dense)
        if n_quantities < size:
            _weigh_rare(n, size, entries)
        n_others = _standardise(size, entries)
        n_kept = _keep_values(at, size, entries, out_indices, end)
        length = _length(entries, n_kept, n_quantities, n_others)
        for p in range(n_kept):
            out_values[end + p] = entries[VALUE, p] / length
        end += n_kept
        out_indptr[i + 1] = end
    return out_indptr, out_indices[:end], out_values[:end]


@compiled
def _list_entries(dense, n_dense, features, given, counted, at, entries):  # type: ignore[no-untyped-def]
    """List the features of an example and its missing dense features (NaN) in ascending order; return their number. A
    zero of a feature that is not dense is counted, not listed.
    """
    value, size = entries[VALUE], 0
    while size < min(len(features), n_dense) and features[size] == dense[size]:  # like a dense row
        size += 1
    for p in range(size):
        at[p], value[p] = features[p], given[p]
    q = size
    for p in range(size, len(features)):
        while q < n_dense and dense[q] < features[p]:
            at[size], value[size] = dense[q], np.nan
            size += 1
            q += 1
        was_dense = q < n_dense and dense[q] == features[p]
        q += was_dense
        if was_dense or given[p] != 0.0:
            at[size], value[size] = features[p], given[p]
            size += 1
        elif features[p] < len(counted):
            counted[features[p], HAVING] += 1.0
    for rest in range(q, n_dense):
        at[size], value[size] = dense[rest], np.nan
        size += 1
    return size


@compiled
def _tell_missing(missing_is_zero, size, entries):  # type: ignore[no-untyped-def]
    """Write which entries the example has; make the others 0."""
    value, has = entries[VALUE], entries[HAS]
    for p in range(size):
        missing = np.isnan(value[p])
        has[p] = 0.0 if missing | (missing_is_zero & (value[p] == 0.0)) else 1.0
        value[p] = 0.0 if missing else value[p]


@compiled
def _read(moments, at, size, entries):  # type: ignore[no-untyped-def]
    """Read the moments of the features, and count this example; features beyond have had no value."""
    n_values, mean, squares, n_known, has = (
        entries[COUNT],
        entries[MEAN],
        entries[SQUARES],
        entries[KNOWN],
        entries[HAS],
    )
    for p in range(size):
        feature = at[p]
        if feature < len(moments):
            n_values[p], mean[p] = moments[feature, COUNT], moments[feature, MEAN]
            squares[p], n_known[p] = moments[feature, SQUARES], moments[feature, HAVING]
        else:
            n_values[p], mean[p], squares[p], n_known[p] = 0.0, 0.0, 0.0, 0.0
        n_known[p] += has[p]


@compiled
def _write(moments, at, size, entries):  # type: ignore[no-untyped-def]
    """Write the moments of the features; return the number of values that they count in addition."""
    new = 0.0
    n_values, mean, squares, n_known = entries[COUNT], entries[MEAN], entries[SQUARES], entries[KNOWN]
    for p in range(size):
        feature = at[p]
        new += n_values[p] - moments[feature, COUNT]
        moments[feature, COUNT], moments[feature, MEAN] = n_values[p], mean[p]
        moments[feature, SQUARES], moments[feature, HAVING] = squares[p], n_known[p]
    return np.int64(new)


@compiled
def _keep_within_reach(n, n_dense, size, entries):  # type: ignore[no-untyped-def]
    """Scale values in place. One value does not turn a binary feature into a quantity."""
    n_values, mean, squares, value = entries[COUNT], entries[MEAN], entries[SQUARES], entries[VALUE]
    far_of_dense = FAR_OF_FEW if n_dense <= FEW else FAR
    for p in range(size):
        varies = squares[p] > VARIES * n_values[p] * mean[p] * mean[p]
        far = far_of_dense if varies & (2.0 * n_values[p] > n - 1) else FAR
        spread = np.sqrt(squares[p] / n_values[p] if varies else VARIES * n_values[p])
        reach = far * spread if varies else 0.5 * spread * abs(mean[p])
        kept = min(max(value[p], mean[p] - reach), mean[p] + reach)
        value[p] = value[p] if (value[p] == 0.0) | (n_values[p] < EARLY) else kept


@compiled
def _include(size, entries):  # type: ignore[no-untyped-def]
    """Include values other than 0 in the moments (Welford)."""
    n_values, mean, squares, value = entries[COUNT], entries[MEAN], entries[SQUARES], entries[VALUE]
    for p in range(size):
        distance = value[p] - mean[p]
        n_included = n_values[p] + 1.0
        moved = mean[p] + distance / n_included
        added = squares[p] + distance * (value[p] - moved)
        counts = value[p] != 0.0
        n_values[p] = n_included if counts else n_values[p]
        mean[p] = moved if counts else mean[p]
        squares[p] = added if counts else squares[p]


@compiled
def _count_all(n, size, entries):  # type: ignore[no-untyped-def]
    """Fill all entries of all examples."""
    for p in range(size):
        entries[KNOWN, p], entries[HAS, p] = n, 1.0


@compiled
def _find_quantities(n, size, entries):  # type: ignore[no-untyped-def]
    """Write the shares of the entries that are dense now, and 0 for the others; return how many are."""
    n_values, mean, squares, n_known, share = (
        entries[COUNT],
        entries[MEAN],
        entries[SQUARES],
        entries[KNOWN],
        entries[SHARE],
    )
    n_quantities = 0
    for p in range(size):
        found = _is_dense(n_values[p], mean[p], squares[p], n)
        share[p] = n_values[p] / n_known[p] if found else 0.0
        n_quantities += found
    return n_quantities


@compiled
def _list_dense(at, size, entries, dense):  # type: ignore[no-untyped-def]
    """Write the features of the entries that are dense now; return their number."""
    n_dense = 0
    for p in range(size):
        if entries[SHARE, p] > 0.0:
            dense[n_dense] = at[p]
            n_dense += 1
    return n_dense


@compiled
def _weigh_rare(n, size, entries):  # type: ignore[no-untyped-def]
    """Multiply non-dense features by their rarity, like inverse document frequency; roots have identical bits on every
    machine.
    """
    n_values, share, value = entries[COUNT], entries[SHARE], entries[VALUE]
    for p in range(size):
        rarity = np.sqrt(np.sqrt(np.sqrt((n + 1.0) / (n_values[p] + 1.0))))
        value[p] *= 1.0 if share[p] > 0.0 else rarity


@compiled
def _standardise(size, entries):  # type: ignore[no-untyped-def]
    """Make values deviations from the mean where they are dense, else multiples of their usual size; 0 if missing.

    The variance is that of the values, and that between them and the zeros. Return how many others are not 0 now.
    """
    n_values, mean, squares, n_known = entries[COUNT], entries[MEAN], entries[SQUARES], entries[KNOWN]
    has, share, value = entries[HAS], entries[SHARE], entries[VALUE]
    n_others = 0
    for p in range(size):
        is_dense, square = share[p] > 0.0, mean[p] * mean[p]
        within = squares[p] / (n_known[p] if is_dense else max(n_values[p], 1.0))
        deviation = np.sqrt(within + (square * share[p] * (1.0 - share[p]) if is_dense else square))
        scaled = (value[p] - share[p] * mean[p]) / deviation
        value[p] = scaled if (deviation > 0.0) & (has[p] > 0.0) else 0.0
        n_others += (value[p] != 0.0) & (share[p] == 0.0)
    return n_others


@compiled
def _keep_values(at, size, entries, out_indices, end):  # type: ignore[no-untyped-def]
    """Move values other than 0 to the front, and list their features; return their number."""
    value, n_kept = entries[VALUE], 0
    for p in range(size):
        own = value[p]
        out_indices[end + n_kept], value[n_kept] = at[p], own
        n_kept += own != 0.0
    return n_kept


@compiled
def _length(entries, size, n_quantities, n_others):  # type: ignore[no-untyped-def]
    """Return the typical norm of a few dense features without more others, else the Euclidean norm, or 1."""
    if 0 < n_quantities <= FEW and n_others <= n_quantities:
        return np.sqrt(float(n_quantities))
    total = 0.0
    for p in range(size):
        total += entries[VALUE, p] * entries[VALUE, p]
    return np.sqrt(total) if total > 0.0 else 1.0


@compiled
def find_dense(count, moments, dense):  # type: ignore[no-untyped-def]
    """Write the dense features; return their number."""
    n_dense = 0
    for feature in range(len(moments)):
        if _is_dense(moments[feature, COUNT], moments[feature, MEAN], moments[feature, SQUARES], count):
            dense[n_dense] = feature
            n_dense += 1
    return n_dense


@compiled
def _is_dense(n_values, mean, squares, n):  # type: ignore[no-untyped-def]
    """Return whether a feature is a quantity that most examples have."""
    return 2.0 * n_values > n and squares > VARIES * n_values * mean * mean


@compiled
def _lengthened(array, size):  # type: ignore[no-untyped-def]
    longer = np.empty(size, array.dtype)
    for p in range(len(array)):
        longer[p] = array[p]
    return longer
