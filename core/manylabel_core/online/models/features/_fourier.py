"""Random Fourier features of the RBF kernel, Eq. (22) of docs/mathematics.md.

Frequencies are stored in turns, w_m / (2 pi), because an angle in turns is reduced to one turn without error.
"""

import math

import numpy as np

from manylabel_core._elementary import cos_sin, log
from manylabel_core.compiled import compiled

_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


@compiled
def draw_frequencies(seed, column, scale, frequencies):  # type: ignore[no-untyped-def]
    """Write the elements of all frequencies for one feature, a function of the seed and the column, by Box and Muller
    from SplitMix64.
    """
    start = _scramble(_scramble(np.uint64(seed)) ^ np.uint64(column))
    n = len(frequencies)
    for m in range(0, n, 2):
        # In (0, 1], so that the logarithm is finite, and in [0, 1).
        radius = (np.float64(_scramble(start + np.uint64(m)) >> np.uint64(11)) + 1.0) * _TO_UNIT
        cosine, sine = cos_sin(np.float64(_scramble(start + np.uint64(m + 1)) >> np.uint64(11)) * _TO_UNIT)
        length = scale * math.sqrt(-2.0 * log(radius))
        frequencies[m] = length * cosine
        if m + 1 < n:
            frequencies[m + 1] = length * sine


@compiled
def _scramble(number):  # type: ignore[no-untyped-def]
    """Scramble a number by SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""
    number = np.uint64(number) + _STRIDE
    number = (number ^ (number >> np.uint64(30))) * _FIRST
    number = (number ^ (number >> np.uint64(27))) * _SECOND
    return number ^ (number >> np.uint64(31))


@compiled
def draw_table(seed, first, scale, frequencies):  # type: ignore[no-untyped-def]
    """Write the rows of a table (features, frequencies) from `first` on."""
    for column in range(first, len(frequencies)):
        draw_frequencies(seed, column, scale, frequencies[column])


@compiled
def to_random_features(seed, scale, frequencies, indptr, indices, values, features):  # type: ignore[no-untyped-def]
    """Write the features (n_samples, 2 P) of rows; a column that the table does not have yet is drawn."""
    n = frequencies.shape[1]
    turns, drawn = np.empty(n), np.empty(n, frequencies.dtype)
    length = 1.0 / math.sqrt(n)
    for i in range(len(indptr) - 1):
        turns[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x = np.float64(values[p])
            if x == 0.0:
                continue
            row = drawn
            if indices[p] < len(frequencies):
                row = frequencies[indices[p]]
            else:
                draw_frequencies(seed, np.int64(indices[p]), scale, drawn)
            for m in range(n):
                turns[m] += x * row[m]
        for m in range(n):
            cosine, sine = cos_sin(turns[m])
            features[i, m], features[i, n + m] = length * cosine, length * sine
