"""The compiled pass of automatic scaling (see `automatic`).

See Eq. (13) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core.compiled import compiled

COUNT, MEAN, SQUARES, HAVING = 0, 1, 2, 3
"""Columns of `moments`: how many values other than 0 a feature has had, their mean, and the sum of their squared
distances from it (Welford); and how many examples have had it, with any value."""

FAR, EARLY = 10.0, 10.0
"""After EARLY values, one further from their mean than FAR deviations is taken for one that far: a wild value does not
spoil the scale for good, and a scale that changes is followed all the same, by leaps."""

FEW, FAR_OF_FEW = 10, 5.0
"""Up to FEW dense features keep their magnitude: an example is divided by what its length usually is, not by its own.
Nor does an own length then make up for a deviation that is too large after a wild value, hence a shorter reach."""

VARIES = 1e-6
"""A feature whose values have a smaller variance than this, relative to their squared mean, says only yes or no."""


@compiled
def scale_automatically(  # type: ignore[no-untyped-def]
    count, moments, dense, n_dense, missing_is_zero, store, indptr, indices, values
):
    """Return rows scaled by the statistics of the stream up to and including each of them.

    Parameters
    ----------
    count : array of shape (1,), int64
        Examples seen.
    moments : array of shape (n_features, 4), float64
    dense : array of shape (>= n_features,), int32
        The dense features, ascending, in its first `n_dense[0]` places.
    n_dense : array of shape (1,), int64
    missing_is_zero : bool
        Whether a missing value and a 0 are alike; if not, it stands at the mean of a dense feature.
    store : bool
        Whether the rows become part of the statistics. If not, each is treated as the next one.
    indptr, indices, values
        Rows. Features beyond `moments` have been missing so far.

    Returns
    -------
    indptr, indices, values
        The scaled rows, without zeros, in float64.
    """
    out_indptr = np.zeros_like(indptr)
    out_indices, out_values = np.empty(len(indices), indices.dtype), np.empty(len(indices), np.float64)
    next_dense = np.empty(len(dense), dense.dtype)
    end = 0
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        n = count[0] + 1
        out_indices, out_values = _with_room(out_indices, out_values, end + n_dense[0] + len(indices[row]))
        start, p, q, n_next = end, 0, 0, 0
        n_quantities, n_others = 0, 0
        features, given = indices[row], values[row]
        while p < len(features) or q < n_dense[0]:
            if p < len(features) and given[p] == 0.0 and (q == n_dense[0] or features[p] < dense[q]):
                if store and not missing_is_zero:  # a 0 makes no feature dense
                    moments[features[p], HAVING] += 1.0
                p += 1
                continue
            feature, value = _next(features, given, p, dense[: n_dense[0]], q)
            is_listed = p < len(features) and features[p] == feature
            was_dense = q < n_dense[0] and dense[q] == feature
            p += is_listed
            q += was_dense
            has = is_listed and not np.isnan(value) and not (missing_is_zero and value == 0.0)
            if not (was_dense or has):
                continue
            n_values, mean, squares, n_having = 0.0, 0.0, 0.0, 0.0
            if feature < len(moments):
                n_values, mean, squares = moments[feature, COUNT], moments[feature, MEAN], moments[feature, SQUARES]
                n_having = moments[feature, HAVING]
            if has:
                far = FAR_OF_FEW if was_dense and n_dense[0] <= FEW else FAR
                value = _within_reach(n_values, mean, squares, value, far)
                n_values, mean, squares = _include(n_values, mean, squares, value)
                n_having += 1.0
                if store:
                    moments[feature, COUNT], moments[feature, MEAN], moments[feature, SQUARES] = n_values, mean, squares
                    moments[feature, HAVING] = n_having
            is_dense = _is_dense(n_values, mean, squares, n)
            n_quantities += is_dense
            if store and is_dense:
                next_dense[n_next] = feature
                n_next += 1
            if has or missing_is_zero:
                n_known = np.float64(n) if missing_is_zero else n_having
                scaled = _scaled(value if has else 0.0, n_values, mean, squares, n, n_known, is_dense)
                if scaled != 0.0:
                    n_others += not is_dense
                    out_indices[end], out_values[end] = feature, scaled
                    end += 1
        _divide_by_length(out_values[start:end], n_quantities, n_others)
        out_indptr[i + 1] = end
        if store:
            count[0], n_dense[0] = n, n_next
            dense[:n_next] = next_dense[:n_next]
    return out_indptr, out_indices[:end].copy(), out_values[:end].copy()


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
def _with_room(indices, values, size):  # type: ignore[no-untyped-def]
    if size <= len(indices):
        return indices, values
    larger_indices, larger_values = np.empty(2 * size, indices.dtype), np.empty(2 * size, values.dtype)
    larger_indices[: len(indices)] = indices
    larger_values[: len(values)] = values
    return larger_indices, larger_values


@compiled
def _next(features, values, p, dense, q):  # type: ignore[no-untyped-def]
    """Return the next feature, in the row or dense, and its value; one of the two lists is not at its end."""
    if q == len(dense) or (p < len(features) and features[p] <= dense[q]):
        return features[p], np.float64(values[p])
    return dense[q], 0.0


@compiled
def _within_reach(n_values, mean, squares, value, far):  # type: ignore[no-untyped-def]
    """Return a value as it counts. One value does not make a quantity of a feature that has said only yes or no."""
    if value == 0.0 or n_values < EARLY:
        return value
    varies = squares > VARIES * n_values * mean * mean
    reach = far * np.sqrt(squares / n_values) if varies else 0.5 * np.sqrt(VARIES * n_values) * abs(mean)
    return min(max(value, mean - reach), mean + reach)


@compiled
def _include(n_values, mean, squares, value):  # type: ignore[no-untyped-def]
    """Return the moments of a feature's values other than 0, once this one is included."""
    if value == 0.0:
        return n_values, mean, squares
    n_values += 1
    distance = value - mean
    mean += distance / n_values
    return n_values, mean, squares + distance * (value - mean)


@compiled
def _scaled(value, n_values, mean, squares, n, n_known, is_dense):  # type: ignore[no-untyped-def]
    """Return a value as the model sees it: in deviations from the mean if the feature is dense, else by its size.

    `n_known` of `n` examples have had the feature, of which `n_values` had a value other than 0. A rare one weighs
    more, as by an inverse document frequency: by a root, which has the same bits on any machine, unlike a logarithm.
    """
    if is_dense:  # the variance of the values, and that between them and the zeros
        share = n_values / n_known
        shift, deviation = share * mean, np.sqrt(squares / n_known + mean * mean * share * (1.0 - share))
        rarity = 1.0
    else:
        shift, deviation = 0.0, np.sqrt(squares / max(n_values, 1.0) + mean * mean)
        rarity = np.sqrt(np.sqrt(np.sqrt((n + 1.0) / (n_values + 1.0))))
    return rarity * (value - shift) / deviation if deviation > 0.0 else 0.0


@compiled
def _is_dense(n_values, mean, squares, n):  # type: ignore[no-untyped-def]
    """Return whether a feature is a quantity that most examples have."""
    return 2.0 * n_values > n and squares > VARIES * n_values * mean * mean


@compiled
def _divide_by_length(values, n_quantities, n_others):  # type: ignore[no-untyped-def]
    """Divide by the usual length of a few dense features if no more others are beside them, else by the Euclidean norm.

    Values are far from overflow, as multiples of deviations or of usual sizes.
    """
    if 0 < n_quantities <= FEW and n_others <= n_quantities:
        total = float(n_quantities)
    else:
        total = 0.0
        for value in values:
            total += value * value
    if total > 0.0:
        norm = np.sqrt(total)
        for p in range(len(values)):
            values[p] /= norm
