"""The compiled statistics of the examples of a fit, the same for any order of rows.

See Eq. (12) of docs/mathematics.md.
"""

import numpy as np

from manylabel_core._ascending import count_below, sort
from manylabel_core.compiled import compiled
from manylabel_core.scaling._automatic import COUNT, HAVING, MEAN, SAME, SINCE, SQUARES, VARIES

OUTLIER, PASSES, SETTLED = 5.0, 200, 1e-6
"""Values are clipped at OUTLIER deviations from the mean, in at most PASSES passes over a feature; they end when its
variance changes by less than SETTLED of itself."""


@compiled
def find_moments(indptr, values, moments):  # type: ignore[no-untyped-def]
    """Write the moments of features; those of feature f have the values from `indptr[f]` on, which are sorted here."""
    for feature in range(len(indptr) - 1):
        own = values[indptr[feature] : indptr[feature + 1]]
        _sort(own)
        moments[feature, HAVING] = len(own)
        below = count_below(own, 0.0)
        above = below
        while above < len(own) and own[above] == 0.0:
            above += 1
        n = 0
        for p in range(len(own)):  # without zeros
            own[n] = own[p]
            n += p < below or p >= above
        if n > 0:
            own = own[:n]
            mean, variance = _settle(own)
            moments[feature, COUNT], moments[feature, SINCE] = n, n
            moments[feature, MEAN], moments[feature, SQUARES] = mean, variance * n
            moments[feature, SAME] = _repeats(own)


@compiled
def _sort(values):  # type: ignore[no-untyped-def]
    """Sort values unless they ascend already."""
    falls = False
    for p in range(len(values) - 1):
        falls |= values[p] > values[p + 1]
    if falls:
        sort(values)


@compiled
def _settle(values):  # type: ignore[no-untyped-def]
    """Return the mean and the variance of ascending values, clipped at OUTLIER deviations from their mean."""
    n = len(values)
    mean, variance = _clipped(values, -np.inf, np.inf)
    for _ in range(PASSES):
        reach = OUTLIER * np.sqrt(variance)
        low, high = mean - reach, mean + reach
        if values[0] >= low and values[n - 1] <= high:
            break
        first, last = 0, n
        while values[first] < low:
            first += 1
        while values[last - 1] > high:
            last -= 1
        inner_mean, inner_variance = _clipped(values[first:last], -np.inf, np.inf)
        if not inner_variance > VARIES * inner_mean * inner_mean:
            break  # rare deviations from a constant are no outliers
        before = variance
        mean, variance = _clipped(values, low, high)
        if abs(variance - before) <= SETTLED * before:
            break
    return mean, variance


@compiled
def _clipped(values, low, high):  # type: ignore[no-untyped-def]
    """Return the mean and the variance of clipped values."""
    total, squares = 0.0, 0.0
    for p in range(len(values)):
        total += min(max(np.float64(values[p]), low), high)
    mean = total / len(values)
    for p in range(len(values)):
        distance = min(max(np.float64(values[p]), low), high) - mean
        squares += distance * distance
    return mean, squares / len(values)


@compiled
def _repeats(values):  # type: ignore[no-untyped-def]
    """Return how many of some ascending values would equal the one before them in a random order, on average."""
    n = len(values)
    pairs, first = 0.0, 0
    for p in range(1, n + 1):
        if p == n or values[p] != values[first]:
            pairs += float(p - first) * (p - first - 1)
            first = p
    return np.floor(pairs / n)
