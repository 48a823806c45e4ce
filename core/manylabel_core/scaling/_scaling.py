"""Compiled passes of feature scaling."""

import numpy as np

from manylabel_core.compiled import compiled


@compiled
def to_unit_norm(indptr, values):  # type: ignore[no-untyped-def]
    """Return the values with every row divided by its Euclidean norm; rows of zeros stay."""
    scaled = np.empty_like(values)
    for i in range(len(indptr) - 1):
        row = values[indptr[i] : indptr[i + 1]]
        largest = 0.0
        for value in row:
            largest = max(largest, abs(np.float64(value)))
        total = 0.0
        for value in row:  # ratios of at most 1, so that squares neither overflow nor vanish
            ratio = np.float64(value) / largest if largest > 0.0 else 0.0
            total += ratio * ratio
        norm = largest * np.sqrt(total)
        for p in range(len(row)):
            scaled[indptr[i] + p] = np.float64(row[p]) / norm if norm > 0.0 else 0.0
    return scaled


@compiled
def standardise(count, moments, store, indptr, indices, values):  # type: ignore[no-untyped-def]
    """Return rows standardised by the statistics of the stream up to and including each of them.

    Parameters
    ----------
    count : array of shape (1,), int64
        Examples seen.
    moments : array of shape (n_features, 2), float64
        Mean, and sum of squared distances from it, of every feature (Welford).
    store : bool
        Whether the rows become part of the statistics. If not, each is treated as the next one.
    indptr, indices, values
        Rows. Features beyond `moments` are taken as 0 in all examples so far.

    Returns
    -------
    indptr, indices, values
        The scaled rows, without zeros.
    """
    n_features = len(moments)
    room = (len(indptr) - 1) * n_features + len(indices)
    out_indptr, out_indices = np.zeros_like(indptr), np.empty(room, indices.dtype)
    out_values = np.empty(room, values.dtype)
    x = np.zeros(n_features, np.float64)
    end = 0
    for i in range(len(indptr) - 1):
        features, row = indices[indptr[i] : indptr[i + 1]], values[indptr[i] : indptr[i + 1]]
        n = count[0] + 1
        if store:
            count[0] = n
        n_known = np.searchsorted(features, n_features)
        for p in range(n_known):
            x[features[p]] = row[p]
        for feature in range(n_features):
            mean, squares = _include(moments[feature, 0], moments[feature, 1], x[feature], n)
            if store:
                moments[feature, 0], moments[feature, 1] = mean, squares
            end = _append(out_indices, out_values, end, feature, _standard(x[feature], mean, squares, n))
        for p in range(n_known, len(features)):
            mean, squares = _include(0.0, 0.0, np.float64(row[p]), n)
            end = _append(out_indices, out_values, end, features[p], _standard(row[p], mean, squares, n))
        for p in range(n_known):
            x[features[p]] = 0.0
        out_indptr[i + 1] = end
    return out_indptr, out_indices[:end].copy(), out_values[:end].copy()


@compiled
def _include(mean, squares, value, n):  # type: ignore[no-untyped-def]
    """Return the mean and the sum of squared distances once the n-th value is included."""
    distance = value - mean
    mean += distance / n
    return mean, squares + distance * (value - mean)


@compiled
def _standard(value, mean, squares, n):  # type: ignore[no-untyped-def]
    """Return the distance from the mean in standard deviations; 0 where nothing varies."""
    deviation = np.sqrt(squares / n)
    return (value - mean) / deviation if deviation > 0.0 else 0.0


@compiled
def _append(indices, values, end, index, value):  # type: ignore[no-untyped-def]
    if value == 0.0:
        return end
    indices[end], values[end] = index, value
    return end + 1
