"""Sorting, and search in ascending numbers.

These small functions replace NumPy's, which numba compiles from dozens of functions for every type.
"""

from manylabel_core.compiled import compiled

FEW = 16
"""Maximum number of numbers for which insertion sort is faster than heap sort."""


@compiled
def sort(values):  # type: ignore[no-untyped-def]
    """Sort numbers, none of which is NaN, in place: insertion sort of few, else heap sort, O(n log n) for any order."""
    n = len(values)
    if n <= FEW:
        for end in range(1, n):
            value, at = values[end], end
            while at > 0 and values[at - 1] > value:
                values[at] = values[at - 1]
                at -= 1
            values[at] = value
        return
    for step in range(n + n // 2 - 1):  # first make a heap, then move the largest behind it, again and again
        if step < n // 2:
            at, end = n // 2 - 1 - step, n
            value = values[at]
        else:
            at, end = 0, n - 1 - (step - n // 2)
            value = values[end]
            values[end] = values[0]
        child = 2 * at + 1
        while child < end:
            if child + 1 < end and values[child] < values[child + 1]:
                child += 1
            if not value < values[child]:
                break
            values[at] = values[child]
            at, child = child, 2 * child + 1
        values[at] = value


@compiled
def count_below(ascending, bound):  # type: ignore[no-untyped-def]
    """Return how many ascending numbers are below a bound."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low
