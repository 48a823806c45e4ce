"""Indices of features to columns: a hash table with linear probing.

`slots` holds columns, -1 if missing; its length is a power of 2, and at most half of it is taken. The index of
a column is `indices[column]`. The search for a key begins at the highest bits of its product with a random odd number
(Dietzfelbinger et al., 1997), so that colliding keys cannot be chosen without knowing the number.

References
----------
M. Dietzfelbinger, T. Hagerup, J. Katajainen and M. Penttonen: A reliable randomized algorithm for the closest-pair
problem, Journal of Algorithms 25(1), 1997 (multiply-shift hashing).
"""

import numpy as np

from manylabel_core._ascending import sort
from manylabel_core.compiled import compiled


@compiled
def shift_of(slots):  # type: ignore[no-untyped-def]
    """Return the number of bits by which a product is shifted to give a slot."""
    shift = 64
    while (np.int64(1) << (64 - shift)) < len(slots):
        shift -= 1
    return np.uint64(shift)


@compiled
def find_slot(slots, indices, multiplier, shift, key):  # type: ignore[no-untyped-def]
    """Return the slot with the column of a key, or the free slot for it."""
    slot = np.int64((np.uint64(key) * multiplier) >> shift)
    while slots[slot] >= 0 and indices[slots[slot]] != key:
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@compiled
def insert_columns(slots, indices, multiplier, first, n_columns):  # type: ignore[no-untyped-def]
    """Insert the columns from `first` on, whose indices are new and distinct."""
    shift = shift_of(slots)
    for column in range(first, n_columns):
        slots[find_slot(slots, indices, multiplier, shift, indices[column])] = column


@compiled
def find_columns(slots, indices, multiplier, keys, columns):  # type: ignore[no-untyped-def]
    """Write the column of each key, -1 for an unknown one; return how many are unknown."""
    n_unknown, shift = 0, shift_of(slots)
    for i in range(len(keys)):
        columns[i] = slots[find_slot(slots, indices, multiplier, shift, keys[i])]
        if columns[i] < 0:
            n_unknown += 1
    return n_unknown


@compiled
def place_columns(slots, indices, multiplier, n_columns, keys, values, columns, placed):  # type: ignore[no-untyped-def]
    """Write the columns of keys, ascending, and their values; unknown keys get the columns from `n_columns` on. Return
    the number of unknown keys.
    """
    shift = shift_of(slots)
    new, ascends = n_columns, True
    for i in range(len(keys)):
        column = slots[find_slot(slots, indices, multiplier, shift, keys[i])]
        if column < 0:
            column = new
            new += 1
        ascends = ascends and (i == 0 or columns[i - 1] < column)
        columns[i] = column
        placed[i] = values[i]
    if not ascends:
        order = np.empty(len(keys), np.int64)  # each column, and behind it its place
        for i in range(len(keys)):
            order[i] = np.int64(columns[i]) << 32 | i
        sort(order)
        for i in range(len(keys)):
            columns[i] = order[i] >> 32
            placed[i] = values[order[i] & 0xFFFFFFFF]
    return new - n_columns
