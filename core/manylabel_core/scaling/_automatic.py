"""The compiled pass of automatic scaling (see `automatic`).

The entries of an example are the features that it has, and the dense features that it lacks. They are listed first;
then every step runs over them without branches, in loops of a few arrays each, so that it becomes vector instructions.

See Eq. (12) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core.compiled import compiled

COUNT, MEAN, SQUARES, HAVING, SINCE, RUN, LAST, SAME = range(8)
N_MOMENTS = 8
"""Columns of `moments`.

COUNT is how many values other than 0 a feature has had, HAVING how many examples have had it, with any value. MEAN and
SQUARES are the mean of the values since the last restart, and the sum of their squared distances from it (Welford),
SINCE their number; SAME is how many of them equalled the value before. RUN counts far values in a row, or near values
below 0, and LAST is the last value, as given.
"""

FAR, EARLY = 10.0, 10.0
"""Reach in deviations, and number of values before it applies. A value further from the mean counts as FAR deviations
away, so that an outlier does not spoil the scale, but a changing scale is still followed."""

FEW, FAR_OF_FEW = 10, 5.0
"""Up to FEW dense features keep their magnitude: an example is divided by the usual length, not by its own. So nothing
corrects a deviation that is too large after an outlier; therefore the reach is shorter."""

VARIES = 1e-12
"""Minimum variance of a quantity, relative to the squared mean; the rounding of float32 is smaller. Below it, only the
presence of a feature counts."""

LEAVES, WAITS, FAR_IN_A_ROW = 4.0, 3, 10
"""A value of more than LEAVES deviations from the mean is far. From number WAITS of a run on, far values do not count
in the moments; with number FAR_IN_A_ROW the feature has another level or unit, and its moments restart."""

NEARBY, NEAR_IN_A_ROW = 0.125, 20
"""A step from one value to the next of less than NEARBY deviations is near. With number NEAR_IN_A_ROW of a run the
moments restart: the unit has become larger, or an early outlier spoilt the deviation."""

AWAY = 5.0
"""A quantity that few examples have is optional if 0 is more than AWAY deviations from its mean, or if another feature
says that an example has it. Weights of words vary around a mean of 2 to 4 deviations, and their presence is what they
say."""

KNOWN, VALUE, HAS, SHARE, UNIT, IS_FAR, IS_NEAR, COUNTS, IS_OPTIONAL, FACTOR, IS_GIVEN, N_ROWS = HAVING, *range(8, 19)
"""Rows of the entries of an example, after those of `moments`: number of examples that count for the feature, this one
included; the value; 1 if the example has it, else 0; for a quantity the share of these examples with a value other than
0, else 0; the deviation of the feature, then its reach; 1 for a far value; how near it is to the last value; 1 if it
counts in the moments; 1 for an optional quantity; the rarity of a feature that is not dense; 1 if another feature says
that examples have it. Then the number of rows.
"""

EQUAL, MOVED, NEAR = 0.0, 1.0, 2.0
"""Values of IS_NEAR."""


@compiled
def scale_automatically(  # type: ignore[no-untyped-def]
    count, moments, given, dense, n_dense, n_values, missing_is_zero, store, indptr, indices, values
):
    """Return rows scaled by the statistics of the stream up to and including each of them. `n_values` is the sum of the
    counts of all features. `given` has for each feature 1 plus the feature that says that an example has it, or 0.
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
        counted = moments if store and not missing_is_zero else moments[:0]
        size = _list_entries(dense, n_dense[0], indices[row], values[row], counted, at, entries)
        if end + size > len(out_indices):
            out_indices, out_values = (
                _lengthened(out_indices, 2 * (end + size)),
                _lengthened(out_values, 2 * (end + size)),
            )
        _tell_missing(missing_is_zero, size, entries)
        _read(moments, given, at, size, entries)
        _find_units(size, entries)
        n_restarts = _follow(size, entries)
        if n_restarts > 0:
            _restart(size, entries)
        _keep_within_reach(n - 1, n_dense[0], missing_is_zero, size, entries)
        n_new = _include(size, entries)
        if store:
            n_values[0] += n_new
            _write(moments, at, size, entries)
        if missing_is_zero:
            _count_all(n, size, entries)
        n_quantities, n_optional = _find_dense(n, size, entries), 0
        if store:
            count[0], n_dense[0] = n, _list_dense(at, size, entries, dense)
        if n_quantities < size:
            n_optional = _find_optional(size, entries)
            _weigh_rare(n, size, entries)
            n_quantities += n_optional
        n_others = _standardise(size, entries)
        if n_optional > 0:
            _weigh_optional(size, entries)
        n_kept, squares = _keep_values(at, size, entries, out_indices, end)
        length = _length(squares, n_quantities, n_others)
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
def _read(moments, given, at, size, entries):  # type: ignore[no-untyped-def]
    """Read the moments of the features, and count this example; features beyond have had no value."""
    for p in range(size):
        feature = at[p]
        if feature < len(moments):
            for row in range(N_MOMENTS):
                entries[row, p] = moments[feature, row]
        else:
            for row in range(N_MOMENTS):
                entries[row, p] = 0.0
    for p in range(size):
        entries[IS_GIVEN, p] = 0.0
    if len(given) > 0:
        for p in range(size):
            other = np.int64(given[at[p]]) - 1 if at[p] < len(given) else np.int64(-1)
            entries[IS_GIVEN, p] = 1.0 if (other >= 0) & (moments[max(other, 0), COUNT] > 0.0) else 0.0
    n_known, has = entries[KNOWN], entries[HAS]
    for p in range(size):
        n_known[p] += has[p]


@compiled
def _write(moments, at, size, entries):  # type: ignore[no-untyped-def]
    """Write the moments of the features."""
    for p in range(size):
        feature = at[p]
        for row in range(N_MOMENTS):
            moments[feature, row] = entries[row, p]


@compiled
def _find_units(size, entries):  # type: ignore[no-untyped-def]
    """Write the deviations of the features. One value does not turn a yes-or-no feature into a quantity."""
    mean, squares, since, unit = entries[MEAN], entries[SQUARES], entries[SINCE], entries[UNIT]
    for p in range(size):
        varies = squares[p] > VARIES * since[p] * mean[p] * mean[p]
        spread = np.sqrt(squares[p] / since[p] if varies else VARIES * since[p])
        unit[p] = spread if varies else 0.05 * spread * abs(mean[p])


@compiled
def _follow(size, entries):  # type: ignore[no-untyped-def]
    """Update the runs, and write which values count in the moments; return how many moments must restart."""
    mean, squares, since, unit = entries[MEAN], entries[SQUARES], entries[SINCE], entries[UNIT]
    run, last, value = entries[RUN], entries[LAST], entries[VALUE]
    far, near, counts = entries[IS_FAR], entries[IS_NEAR], entries[COUNTS]
    for p in range(size):
        is_far = (since[p] >= EARLY) & (abs(value[p] - mean[p]) > LEAVES * unit[p]) & (value[p] != 0.0)
        far[p] = 1.0 if is_far else 0.0
    for p in range(size):
        varies = squares[p] > VARIES * since[p] * mean[p] * mean[p]
        step = abs(value[p] - last[p])
        moved = (step > 0.0) & (value[p] != 0.0)
        near[p] = (NEAR if varies & (step < NEARBY * unit[p]) else MOVED) if moved else EQUAL
    for p in range(size):
        last[p] = value[p] if value[p] != 0.0 else last[p]
    for p in range(size):
        above, below = max(run[p], 0.0), min(run[p], 0.0)
        other = above - 1.0 if above > 0.0 else (below if near[p] == EQUAL else 0.0)
        other = below - 1.0 if near[p] == NEAR else other
        after = above + 1.0 if far[p] > 0.0 else other
        run[p] = run[p] if value[p] == 0.0 else after
    n_restarts = 0
    for p in range(size):
        restarts = (run[p] >= FAR_IN_A_ROW) | (run[p] <= -NEAR_IN_A_ROW)
        waits = (far[p] > 0.0) & (run[p] >= WAITS) & (not restarts)
        counts[p] = 0.0 if waits | (value[p] == 0.0) else 1.0
        n_restarts += restarts
    return n_restarts


@compiled
def _restart(size, entries):  # type: ignore[no-untyped-def]
    """Restart the moments of features that have another level or unit."""
    for p in range(size):
        if entries[RUN, p] >= FAR_IN_A_ROW or entries[RUN, p] <= -NEAR_IN_A_ROW:
            for row in (MEAN, SQUARES, SINCE, RUN, SAME):
                entries[row, p] = 0.0


@compiled
def _keep_within_reach(n_before, n_dense, missing_is_zero, size, entries):  # type: ignore[no-untyped-def]
    """Clip values; a few quantities have a shorter reach."""
    n_values, mean, squares, since = entries[COUNT], entries[MEAN], entries[SQUARES], entries[SINCE]
    n_known, has, same, given = entries[KNOWN], entries[HAS], entries[SAME], entries[IS_GIVEN]
    value, unit, optional = entries[VALUE], entries[UNIT], entries[IS_OPTIONAL]
    shorter = n_dense <= FEW
    if shorter:
        for p in range(size):
            known = n_before if missing_is_zero else n_known[p] - has[p]
            own = _is_optional(n_values[p], mean[p], squares[p], since[p], same[p], known, given[p])
            optional[p] = 1.0 if own | _is_dense(n_values[p], mean[p], squares[p], since[p], n_before) else 0.0
    for p in range(size):
        unit[p] *= FAR_OF_FEW if shorter & (optional[p] > 0.0) else FAR
    for p in range(size):
        kept = min(max(value[p], mean[p] - unit[p]), mean[p] + unit[p])
        value[p] = value[p] if (value[p] == 0.0) | (since[p] < EARLY) else kept


@compiled
def _include(size, entries):  # type: ignore[no-untyped-def]
    """Include values that count in the moments (Welford), and count the others that are not 0; return how many are
    not 0.
    """
    n_values, mean, squares, since = entries[COUNT], entries[MEAN], entries[SQUARES], entries[SINCE]
    value, counts, same, near = entries[VALUE], entries[COUNTS], entries[SAME], entries[IS_NEAR]
    n_new = 0
    for p in range(size):
        n_values[p] += value[p] != 0.0
        n_new += value[p] != 0.0
    for p in range(size):
        same[p] += counts[p] if near[p] == EQUAL else 0.0
    for p in range(size):
        distance = value[p] - mean[p]
        moved = mean[p] + distance / (since[p] + 1.0)
        added = squares[p] + distance * (value[p] - moved)
        mean[p] = moved if counts[p] > 0.0 else mean[p]
        squares[p] = added if counts[p] > 0.0 else squares[p]
    for p in range(size):
        since[p] += counts[p]
    return n_new


@compiled
def _count_all(n, size, entries):  # type: ignore[no-untyped-def]
    """Fill all entries of all examples."""
    for p in range(size):
        entries[KNOWN, p], entries[HAS, p] = n, 1.0


@compiled
def _find_dense(n, size, entries):  # type: ignore[no-untyped-def]
    """Write the shares of the entries that are dense now, and 0 for the others; return how many are."""
    n_values, mean, squares, since = entries[COUNT], entries[MEAN], entries[SQUARES], entries[SINCE]
    n_known, share = entries[KNOWN], entries[SHARE]
    n_dense = 0
    for p in range(size):
        found = _is_dense(n_values[p], mean[p], squares[p], since[p], n)
        share[p] = n_values[p] / n_known[p] if found else 0.0
        n_dense += found
    return n_dense


@compiled
def _list_dense(at, size, entries, dense):  # type: ignore[no-untyped-def]
    """Write the features of the entries that are dense now; return their number."""
    share, n_dense = entries[SHARE], 0
    for p in range(size):  # without branches; places after the last one are spare
        dense[n_dense] = at[p]
        n_dense += share[p] > 0.0
    return n_dense


@compiled
def _find_optional(size, entries):  # type: ignore[no-untyped-def]
    """Write which of the entries that are not dense are optional quantities; return how many are."""
    n_values, mean, squares, since = entries[COUNT], entries[MEAN], entries[SQUARES], entries[SINCE]
    n_known, same, value, share = entries[KNOWN], entries[SAME], entries[VALUE], entries[SHARE]
    optional, given, n_optional = entries[IS_OPTIONAL], entries[IS_GIVEN], 0
    for p in range(size):
        found = _is_optional(n_values[p], mean[p], squares[p], since[p], same[p], n_known[p], given[p])
        found = found & (share[p] == 0.0) & (value[p] != 0.0)
        optional[p] = 1.0 if found else 0.0
        n_optional += found
    if n_optional > 0:
        for p in range(size):
            share[p] = n_values[p] / n_known[p] if optional[p] > 0.0 else share[p]
    return n_optional


@compiled
def _weigh_rare(n, size, entries):  # type: ignore[no-untyped-def]
    """Multiply features that are no quantities by their rarity, like inverse document frequency; roots have identical
    bits on every machine.
    """
    n_values, share, value, factor = entries[COUNT], entries[SHARE], entries[VALUE], entries[FACTOR]
    for p in range(size):
        factor[p] = np.sqrt(np.sqrt(np.sqrt((n + 1.0) / (n_values[p] + 1.0))))
    for p in range(size):
        value[p] *= 1.0 if share[p] > 0.0 else factor[p]


@compiled
def _weigh_optional(size, entries):  # type: ignore[no-untyped-def]
    """Multiply standardised optional quantities by their rarity."""
    for p in range(size):
        entries[VALUE, p] *= entries[FACTOR, p] if entries[IS_OPTIONAL, p] > 0.0 else 1.0


@compiled
def _standardise(size, entries):  # type: ignore[no-untyped-def]
    """Make values deviations from the mean where they are quantities, else multiples of their usual size; 0 if missing.

    The variance is that of the values, and that between them and the zeros. Return how many others are not 0 now.
    """
    mean, squares, since = entries[MEAN], entries[SQUARES], entries[SINCE]
    has, share, value = entries[HAS], entries[SHARE], entries[VALUE]
    n_others = 0
    for p in range(size):
        is_quantity, square = share[p] > 0.0, mean[p] * mean[p]
        variance = squares[p] / max(since[p], 1.0)
        within = variance * share[p] if is_quantity else variance
        deviation = np.sqrt(within + (square * share[p] * (1.0 - share[p]) if is_quantity else square))
        scaled = (value[p] - share[p] * mean[p]) / deviation
        value[p] = scaled if (deviation > 0.0) & (has[p] > 0.0) else 0.0
        n_others += (value[p] != 0.0) & (share[p] == 0.0)
    return n_others


@compiled
def _keep_values(at, size, entries, out_indices, end):  # type: ignore[no-untyped-def]
    """Move values other than 0 to the front, and list their features; return their number and the sum of squares."""
    value, n_kept, squares = entries[VALUE], 0, 0.0
    for p in range(size):
        own = value[p]
        out_indices[end + n_kept], value[n_kept] = at[p], own
        n_kept += own != 0.0
        squares += own * own
    return n_kept, squares


@compiled
def _length(squares, n_quantities, n_others):  # type: ignore[no-untyped-def]
    """Return the typical norm of a few dense features without more others, else the Euclidean norm, or 1."""
    if 0 < n_quantities <= FEW and n_others <= n_quantities:
        return np.sqrt(float(n_quantities))
    return np.sqrt(squares) if squares > 0.0 else 1.0


@compiled
def find_dense(count, moments, dense):  # type: ignore[no-untyped-def]
    """Write the dense features; return their number."""
    n_dense = 0
    for feature in range(len(moments)):
        own = moments[feature]
        if _is_dense(own[COUNT], own[MEAN], own[SQUARES], own[SINCE], count):
            dense[n_dense] = feature
            n_dense += 1
    return n_dense


@compiled
def _is_dense(n_values, mean, squares, since, n):  # type: ignore[no-untyped-def]
    """Return whether a feature is a quantity that most of n examples have."""
    return (2.0 * n_values > n) & (squares > VARIES * since * mean * mean)


@compiled
def _is_optional(n_values, mean, squares, since, same, n_known, given):  # type: ignore[no-untyped-def]
    """Return whether a feature is a quantity however few examples have it: its values mostly differ, and are far from 0
    or `given`.
    """
    varies, is_away = squares > VARIES * since * mean * mean, since * mean * mean > AWAY * AWAY * squares
    return (n_values >= EARLY) & (2.0 * n_values > n_known) & (3.0 * same < since) & varies & (is_away | (given > 0.0))


@compiled
def _lengthened(array, size):  # type: ignore[no-untyped-def]
    longer = np.empty(size, array.dtype)
    for p in range(len(array)):
        longer[p] = array[p]
    return longer
