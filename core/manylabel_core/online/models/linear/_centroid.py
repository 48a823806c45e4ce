"""Online centroids, Eq. (10) of docs/mathematics.md: for every label the direction of the sum of its examples.

Each example of a label weighs GROWTH more than the one before. The square roots of the rarity replace a logarithm: they
have identical bits on every machine. The table is that of `_table`, with zeros in the row of the constant feature and
in the column of the threshold.

Sums stay below 1e33, so nothing overflows in float32: weights of labels end at MAX_WEIGHT times 63.5, and all examples
of a label together weigh at most 16 times the next one.
"""

import numpy as np

from manylabel_core._ascending import count_below, sort
from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._sparse_table import (
    BLOCK,
    add_products,
    add_to_columns,
    blocks_of,
    divide_column,
    missing_room,
)
from manylabel_core.online.models.linear._table import WEIGHTS, longest_row, padded, score_plane
from manylabel_core.online.updates._targets import weight_of

WEIGHT, SQUARE = range(2)
"""Rows of the table of labels: the weight of the label's next example, and the squared norm of its sum."""

GROWTH = 1.0 / 16.0
"""Relative growth of the weight from one example of a label to the next: the last twelve have half of the weight."""

MAX_WEIGHT = 2.0**32
"""Bound of weights, a power of two. A larger weight and the sum of its label are divided by it."""

MIN_SQUARE = 1e-12
"""Lower bound of squared norms."""


@compiled
def score_centroid(table, labels, seen, examples, scores):  # type: ignore[no-untyped-def]
    """Write the scores (n_samples, 1 + n_labels) of rows; features that were never learnt count as 0."""
    indptr, indices, values = examples
    z, sums = np.empty(longest_row(indptr)), np.empty(padded(table, scores.shape[1]))
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        _score_example(table, labels, seen, indices[row], values[row], z, sums, scores[i])


@compiled
def learn_centroid(table, labels, seen, examples, targets, scores):  # type: ignore[no-untyped-def]
    """Learn rows in order; write the scores of each row before it was learnt."""
    indptr, indices, values = examples
    listed_indptr, listed, listed_signs, _, n_labels, weights = targets
    z, sums = np.empty(longest_row(indptr)), np.empty(padded(table, scores.shape[1]))
    for i in range(len(indptr) - 1):
        row, now, weight = slice(indptr[i], indptr[i + 1]), n_labels[i], weight_of(weights, i)
        features = indices[row]
        scores[i, 1 + now :] = 0.0
        _score_example(table, labels, seen, features, values[row], z, sums, scores[i, : 1 + now])
        norm = _count(seen, features, z)
        for at in range(listed_indptr[i], listed_indptr[i + 1]):
            if listed_signs[at] > 0:
                label = listed[at]
                own = _grow(labels[:, label], weight, sums[1 + label], norm)
                for p in range(len(features)):
                    table[1 + features[p], 0, 1 + label] += table.dtype.type(own * z[p])
                if labels[WEIGHT, label] > MAX_WEIGHT:
                    for feature in range(len(table)):
                        table[feature, 0, 1 + label] /= table.dtype.type(MAX_WEIGHT)
                    _shrink(labels[:, label])


@compiled
def score_sparse_centroid(table, labels, seen, examples, scores):  # type: ignore[no-untyped-def]
    """Write the scores of rows as `score_centroid`, with a sparse table."""
    indptr, indices, values = examples
    z, sums = np.empty(longest_row(indptr)), np.empty(_width(scores))
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        _score_sparse_example(table, labels, seen, indices[row], values[row], z, sums, scores[i])


@compiled
def learn_sparse_centroid(table, labels, seen, first, examples, targets, scores):  # type: ignore[no-untyped-def]
    """Learn rows as `learn_centroid`, to the bit, with a sparse table.

    Begins with row `first`. Returns the first row that was not learnt, and the room that the pool may lack for it; then
    nothing of this row has been learnt.
    """
    indptr, indices, values = examples
    listed_indptr, listed, listed_signs, _, n_labels, weights = targets
    z, sums = np.empty(longest_row(indptr)), np.empty(_width(scores))
    for i in range(first, len(indptr) - 1):
        row, now, weight = slice(indptr[i], indptr[i + 1]), n_labels[i], weight_of(weights, i)
        features, true = indices[row], slice(listed_indptr[i], listed_indptr[i + 1])
        scores[i, 1 + now :] = 0.0
        _score_sparse_example(table, labels, seen, features, values[row], z, sums, scores[i, : 1 + now])
        columns = _true_columns(listed[true], listed_signs[true])
        blocks = blocks_of(columns)
        room = missing_room(table, features, len(blocks))
        if room > 0:
            return i, room
        norm, shares, missing = _count(seen, features, z), np.empty(len(columns)), np.empty(len(blocks), np.int64)
        for at, column in enumerate(columns):
            shares[at] = _grow(labels[:, column - 1], weight, sums[column], norm)
        for p in range(len(features)):
            add_to_columns(table, features[p], z[p], shares, columns, blocks, missing)
        for column in columns:
            if labels[WEIGHT, column - 1] > MAX_WEIGHT:
                divide_column(table, column, MAX_WEIGHT)
                _shrink(labels[:, column - 1])
    return len(indptr) - 1, 0


@compiled
def _true_columns(listed, listed_signs):  # type: ignore[no-untyped-def]
    """Return the columns of the true labels in ascending order."""
    columns, n = np.empty(len(listed), np.int64), 0
    for at in range(len(listed)):
        columns[n] = 1 + listed[at]
        n += listed_signs[at] > 0
    sort(columns[:n])
    return columns[:n]


@compiled
def _width(scores):  # type: ignore[no-untyped-def]
    """Return the number of columns of all blocks."""
    return (scores.shape[1] + BLOCK - 1) // BLOCK * BLOCK


@compiled
def _count(seen, features, z):  # type: ignore[no-untyped-def]
    """Count an example and its features; return |z|^2."""
    norm = 0.0
    for p in range(len(features)):
        norm += z[p] * z[p]
        seen[1 + features[p]] += 1.0
    seen[0] += 1.0
    return norm


@compiled
def _grow(label, weight, score, norm):  # type: ignore[no-untyped-def]
    """Update the weight and squared norm of a label by an example; return the example's weight in the sum."""
    own = weight * label[WEIGHT]
    squared = label[SQUARE] + own * (2.0 * score + own * norm)
    label[SQUARE] = max(squared, 0.0)
    label[WEIGHT] += GROWTH * own
    return own


@compiled
def rarity(n, n_feature):  # type: ignore[no-untyped-def]
    """Return the factor of a feature present in `n_feature` of n examples."""
    return np.sqrt(np.sqrt((n + 2.0) / (n_feature + 2.0)))


@compiled
def _score_example(table, labels, seen, features, values, z, sums, scores):  # type: ignore[no-untyped-def]
    """Write z, the sums C.z with that of the threshold in front, and the scores."""
    known = _weigh(seen, features, values, z)
    own = sums[: padded(table, len(scores))]
    score_plane(table, WEIGHTS, 0.0, features[:known], z, own)
    _normalise(labels, own, scores)


@compiled
def _score_sparse_example(table, labels, seen, features, values, z, sums, scores):  # type: ignore[no-untyped-def]
    known = _weigh(seen, features, values, z)
    sums[:] = 0.0
    add_products(table, features[:known], z, sums)
    _normalise(labels, sums, scores)


@compiled
def _weigh(seen, features, values, z):  # type: ignore[no-untyped-def]
    """Write z; return how many features were learnt."""
    known = count_below(features, len(seen) - 1)
    for p in range(known):  # separate loops, so that the second one is vectorised
        z[p] = seen[np.uint64(1 + features[p])]
    for p in range(known):
        z[p] = values[p] * rarity(seen[0], z[p])
    return known


@compiled
def _normalise(labels, sums, scores):  # type: ignore[no-untyped-def]
    """Write the scores by the sums C.z, of which the first is that of the threshold."""
    scores[0] = 0.0
    for label in range(len(scores) - 1):
        scores[1 + label] = sums[1 + label] / np.sqrt(max(labels[SQUARE, label], MIN_SQUARE))


@compiled
def _shrink(label):  # type: ignore[no-untyped-def]
    """Divide the weight of a label by MAX_WEIGHT, as its sum."""
    label[WEIGHT] /= MAX_WEIGHT
    label[SQUARE] /= MAX_WEIGHT * MAX_WEIGHT
