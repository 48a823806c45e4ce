"""Compiled passes of vectors: extraction from rows, normalisation, and reinsertion for models without blocks.

See Eq. (12b) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core._ascending import count_below
from manylabel_core.compiled import compiled
from manylabel_core.scaling._automatic import (
    EARLY,
    FAR,
    FAR_IN_A_ROW,
    LEAVES,
    NEAR_IN_A_ROW,
    NEARBY,
    VARIES,
    WAITS,
)

MEAN, SQUARES, SINCE, RUN, LAST = range(5)
"""Rows of `moments`, as in `_automatic`."""


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
def standardise_vectors(moments, starts, store, present, vectors):  # type: ignore[no-untyped-def]
    """Standardise vectors value by value, and divide it by its norm, in place; a vector at its mean becomes missing."""
    scaled = np.empty(vectors.shape[1])
    for i in range(len(vectors)):
        for field in range(len(starts) - 1):
            if not present[i, field]:
                continue
            own = slice(starts[field], starts[field + 1])
            row, length = vectors[i, own], np.int64(starts[field + 1] - starts[field])
            _standardise(moments[:, own], store, row, scaled[:length])
            total = 0.0
            for p in range(length):
                total += scaled[p] * scaled[p]
            norm = np.sqrt(total) if total > 0.0 else 1.0
            for p in range(length):
                row[p] = scaled[p] / norm
            present[i, field] = total > 0.0


@compiled
def _standardise(moments, store, given, scaled):  # type: ignore[no-untyped-def]
    """Write the values of a vector as distances from their mean in deviations, by statistics that include it."""
    means, squares, sinces = moments[MEAN], moments[SQUARES], moments[SINCE]
    runs, lasts = moments[RUN], moments[LAST]
    for p in range(len(given)):
        x, mean, square, since, run = np.float64(given[p]), means[p], squares[p], sinces[p], runs[p]
        varies = square > VARIES * since * mean * mean
        spread = np.sqrt(square / since) if varies else np.inf
        move = abs(x - lasts[p])
        far = (since >= EARLY) & (abs(x - mean) > LEAVES * spread)
        near = varies & (move > 0.0) & (move < NEARBY * spread)
        rest = run - 1.0 if run > 0.0 else (0.0 if move > 0.0 else run)
        run = max(run, 0.0) + 1.0 if far else (min(run, 0.0) - 1.0 if near else rest)
        restarts = (run >= FAR_IN_A_ROW) | (run <= -NEAR_IN_A_ROW)
        waits = far & (run >= WAITS) & (not restarts)
        mean = 0.0 if restarts else mean
        square = 0.0 if restarts else square
        since = 0.0 if restarts else since
        reach = FAR * spread if since >= EARLY else np.inf
        clipped = min(max(x, mean - reach), mean + reach)
        distance = clipped - mean
        moved = mean + distance / (since + 1.0)
        mean, square, since = (
            mean if waits else moved,
            square if waits else square + distance * (clipped - moved),
            since if waits else since + 1.0,
        )
        if store:
            means[p], squares[p], sinces[p] = mean, square, since
            runs[p], lasts[p] = 0.0 if restarts else run, x
        varies = square > VARIES * since * mean * mean
        scaled[p] = (clipped - mean) / np.sqrt(square / since) if varies else 0.0


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
