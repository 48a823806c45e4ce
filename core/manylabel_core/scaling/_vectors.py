"""Compiled passes of vectors: extraction from rows, normalisation, and reinsertion for models without blocks.

See Eq. (13a) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core._ascending import count_below
from manylabel_core.compiled import compiled

MEAN, SQUARES = 0, 1
"""Rows of `moments`: the mean of a value, and the sum of its squared distances from it (Welford)."""

FAR, EARLY = 10.0, 10
"""Maximum distance from the mean in standard deviations, and number of vectors after which values are clipped to it."""


@compiled
def split_vectors(first, starts, indptr, indices, values, word_indptr, present, vectors):  # type: ignore[no-untyped-def]
    """Copy the vectors of rows to a dense array, of zeros at first."""
    word_indptr[0] = 0
    for i in range(len(indptr) - 1):
        at, end = indptr[i], indptr[i + 1]
        at += count_below(indices[at:end], first)
        word_indptr[i + 1] = word_indptr[i] + at - indptr[i]
        for field in range(len(starts) - 1):
            length = starts[field + 1] - starts[field]
            if at < end and indices[at] == first + starts[field]:
                if at + length > end or indices[at + length - 1] != first + starts[field + 1] - 1:
                    return False
                present[i, field] = True
                for p in range(length):
                    vectors[i, starts[field] + p] = values[at + p]
                at += length
        if at < end:
            return False
    return True


@compiled
def take_words(indptr, word_indptr, entries, taken):  # type: ignore[no-untyped-def]
    """Write the entries of rows that are not of vectors."""
    for i in range(len(indptr) - 1):
        for p in range(word_indptr[i + 1] - word_indptr[i]):
            taken[word_indptr[i] + p] = entries[indptr[i] + p]


@compiled
def standardise_vectors(counts, moments, starts, store, present, vectors):  # type: ignore[no-untyped-def]
    """Standardise vectors value by value, and divide it by its norm, in place; a vector at its mean becomes missing."""
    scaled = np.empty(vectors.shape[1])
    for i in range(len(vectors)):
        for field in range(len(starts) - 1):
            if not present[i, field]:
                continue
            own = slice(starts[field], starts[field + 1])
            row, length = vectors[i, own], np.int64(starts[field + 1] - starts[field])
            _standardise(counts[field], moments[:, own], store, row, scaled[:length])
            if store:
                counts[field] += 1
            total = 0.0
            for p in range(length):
                total += scaled[p] * scaled[p]
            norm = np.sqrt(total) if total > 0.0 else 1.0
            for p in range(length):
                row[p] = scaled[p] / norm
            present[i, field] = total > 0.0


@compiled
def _standardise(n_before, moments, store, given, scaled):  # type: ignore[no-untyped-def]
    """Write the values of a vector as distances from their mean in deviations, by statistics that include it."""
    n = n_before + 1.0
    means, squares = moments[MEAN], moments[SQUARES]
    for p in range(len(given)):
        x, mean, square = np.float64(given[p]), means[p], squares[p]
        spread = np.sqrt(square / max(n_before, 1))
        reach = FAR * spread if (n_before >= EARLY) & (square > 0.0) else np.inf
        x = min(max(x, mean - reach), mean + reach)
        distance = x - mean
        moved = mean + distance / n
        square += distance * (x - moved)
        if store:
            means[p], squares[p] = moved, square
        deviation = np.sqrt(square / n)
        scaled[p] = (x - moved) / deviation if deviation > 0.0 else 0.0


@compiled
def join_vectors(  # type: ignore[no-untyped-def]
    rows_before, shares, starts, present, vectors, indptr, indices, values, out_indptr, out_indices, out_values
):
    """Write rows that have the vectors among the other features; return the number of entries.

    Each block is multiplied by the square root of its gain, so that its part of a linear score is multiplied by the
    gain.
    """
    end = 0
    out_indptr[0] = 0
    n_fields = len(starts) - 1
    for i in range(len(indptr) - 1):
        at, of_words = indptr[i], np.sqrt(shares[i, 0])
        for field in range(n_fields):
            while at < indptr[i + 1] and indices[at] < rows_before[field]:
                out_indices[end] = indices[at] + starts[field]
                out_values[end] = values[at] * of_words
                at, end = at + 1, end + 1
            of_vector = np.sqrt(shares[i, 1 + field])
            if of_vector > 0.0:
                for p in range(starts[field], starts[field + 1]):
                    if vectors[i, p] != 0.0:
                        out_indices[end] = rows_before[field] + p
                        out_values[end] = vectors[i, p] * of_vector
                        end += 1
        while at < indptr[i + 1]:
            out_indices[end] = indices[at] + starts[n_fields]
            out_values[end] = values[at] * of_words
            at, end = at + 1, end + 1
        out_indptr[i + 1] = end
    return end
