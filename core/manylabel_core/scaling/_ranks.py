"""The compiled pass of ranks (see `ranks`), Eq. (12c) of docs/mathematics.md."""

import numpy as np

from manylabel_core.compiled import compiled

KNOTS = 8
"""Number of values that represent all values of a feature."""

MIN_VALUES = 7
"""Minimum number of different values of a ranked feature; with fewer, its values are categories."""

MANY_VALUES = 1024.0
"""When the values of a feature have this total weight, their weights are halved."""

MAX_RANKED = 64
"""Maximum number of ranked features: the time of an example grows with the square of the number of inputs."""

VALUE, WEIGHT = 0, 1
"""Rows of a feature's sketch: the knots in ascending order, and how many values each of them stands for. The last
element is free between values."""


@compiled
def rank_rows(sketches, sizes, slots, max_features, zero_is_missing, store, rows):  # type: ignore[no-untyped-def]
    """Return the ranks of rows as index arrays, divided by the root of the number of ranked features.

    Column `slots[f]` - 1 is the rank of feature f; features from `max_features` on have none. With `store`, each row is
    added to the sketches after its ranks are known.
    """
    indptr, indices, values = rows
    out_indptr = np.zeros(len(indptr), np.int64)
    out_indices, out_values = np.empty(len(indices), np.int32), np.empty(len(indices))
    n_ranked, end = np.int64(0), np.int64(0)
    for slot in slots:
        n_ranked = max(n_ranked, slot)
    for i in range(len(indptr) - 1):
        begin = end
        for p in range(indptr[i], indptr[i + 1]):
            feature, value = indices[p], np.float64(values[p])
            if feature < len(sizes) and slots[feature] > 0 and _is_given(value, zero_is_missing):
                share = _share_below(sketches[feature], sizes[feature], value)
                out_indices[end], out_values[end] = slots[feature] - 1, 2.0 * share - 1.0
                end += 1
        root = np.sqrt(np.float64(n_ranked))
        for p in range(begin, end):
            out_values[p] /= root
        out_indptr[i + 1] = end
        if store:
            n_ranked = _store_row(sketches, sizes[:max_features], slots, n_ranked, zero_is_missing, i, rows)
    return out_indptr, out_indices[:end], out_values[:end]


@compiled
def _is_given(value, zero_is_missing):  # type: ignore[no-untyped-def]
    return not (np.isnan(value) or (zero_is_missing and value == 0.0))


@compiled
def _store_row(sketches, sizes, slots, n_ranked, zero_is_missing, i, rows):  # type: ignore[no-untyped-def]
    """Add the values of a row to the sketches; return the number of ranked features."""
    indptr, indices, values = rows
    for p in range(indptr[i], min(indptr[i + 1], indptr[i] + len(sizes))):
        feature, value = indices[p], np.float64(values[p])
        if feature >= len(sizes) or (slots[feature] == 0 and n_ranked == MAX_RANKED):
            continue
        if _is_given(value, zero_is_missing):
            sizes[feature] = _insert(sketches[feature], sizes[feature], value)
            _fade(sketches[feature])
            if slots[feature] == 0 and sizes[feature] >= MIN_VALUES:
                n_ranked += 1
                slots[feature] = n_ranked
    return n_ranked


@compiled
def _share_below(sketch, size, value):  # type: ignore[no-untyped-def]
    """Return the share of the values so far that are below a value, with half of those that equal it, interpolated."""
    k, below = 0, 0.0
    while k < size and sketch[VALUE, k] < value:
        below += sketch[WEIGHT, k]
        k += 1
    total = below
    for rest in range(k, size):
        total += sketch[WEIGHT, rest]
    if k == 0:
        return 0.5 * sketch[WEIGHT, 0] / total
    below -= 0.5 * sketch[WEIGHT, k - 1]
    if k < size:
        least, most = sketch[VALUE, k - 1], sketch[VALUE, k]
        below += 0.5 * (sketch[WEIGHT, k - 1] + sketch[WEIGHT, k]) * ((value - least) / (most - least))
    return below / total


@compiled
def _insert(sketch, size, value):  # type: ignore[no-untyped-def]
    """Add a value; return the number of knots. If there are too many, the two neighbours of least weight are joined."""
    k = 0
    while k < size and sketch[VALUE, k] < value:
        k += 1
    if k < size and sketch[VALUE, k] == value:
        sketch[WEIGHT, k] += 1.0
        return size
    for at in range(size, k, -1):
        sketch[VALUE, at], sketch[WEIGHT, at] = sketch[VALUE, at - 1], sketch[WEIGHT, at - 1]
    sketch[VALUE, k], sketch[WEIGHT, k] = value, 1.0
    if size < KNOTS:
        return size + 1
    least = 0
    for at in range(1, size):
        own, best = _pair(sketch, at), _pair(sketch, least)
        if own < best or (own == best and _gap(sketch, at) < _gap(sketch, least)):
            least = at
    weight, other = sketch[WEIGHT, least], sketch[WEIGHT, least + 1]
    sketch[VALUE, least] += (sketch[VALUE, least + 1] - sketch[VALUE, least]) * (other / (weight + other))
    sketch[WEIGHT, least] = weight + other
    for at in range(least + 1, size):
        sketch[VALUE, at], sketch[WEIGHT, at] = sketch[VALUE, at + 1], sketch[WEIGHT, at + 1]
    sketch[VALUE, size], sketch[WEIGHT, size] = 0.0, 0.0
    return size


@compiled
def _fade(sketch):  # type: ignore[no-untyped-def]
    """Halve the weights of values once they are many, so that a feature that changes is followed."""
    total = 0.0
    for k in range(KNOTS):
        total += sketch[WEIGHT, k]
    if total >= MANY_VALUES:
        for k in range(KNOTS):
            sketch[WEIGHT, k] *= 0.5


@compiled
def _pair(sketch, k):  # type: ignore[no-untyped-def]
    return sketch[WEIGHT, k] + sketch[WEIGHT, k + 1]


@compiled
def _gap(sketch, k):  # type: ignore[no-untyped-def]
    return sketch[VALUE, k + 1] - sketch[VALUE, k]
