"""A sparse table: of every row the blocks of columns that are not all 0.

A block has BLOCK columns; number b has those from b BLOCK on. A row lists its blocks in ascending order. They are one
run of a pool, with room for more; a run that becomes too short is copied to a longer one, and is then free for another
row.

A table is a tuple:

    heads : array of shape (n_rows, 3), int32
        START, COUNT and ROOM: the first place of the row's run, its blocks, and the blocks that it has room for.
    book : array of shape (FREE + N_CLASSES,), int64
        END: the first place that no run has had; HELD: the blocks of all rows; then for every length of runs the first
        place of a free one, or NONE. There stands that of the next one.
    numbers, weights : arrays of shape (n_places,), int32, and (n_places, BLOCK)
        The pool: the numbers of blocks, and their columns.

Weights are those that a dense table would have, to the bit: a block that is not there is 0, and adding 0 to a sum
changes nothing.
"""

import numpy as np

from manylabel_core._ascending import count_below
from manylabel_core.compiled import compiled

BLOCK = 8
START, COUNT, ROOM = range(3)
END, HELD, FREE = range(3)
N_CLASSES = 128
NONE = -1


@compiled
def room_for(n):  # type: ignore[no-untyped-def]
    """Return the length of a run for n > 0 blocks, 1 to 7 times a power of two, and the number of this length."""
    shift, units = 0, n
    while units > 7:
        shift += 1
        units = (n + (1 << shift) - 1) >> shift
    return units << shift, 4 * shift + units - 1


@compiled
def add_products(table, features, values, scores):  # type: ignore[no-untyped-def]
    """Add the products of values and the rows of their features to the scores of all blocks, in float64 and in the
    order of features.
    """
    heads, _, numbers, weights = table
    known = count_below(features, len(heads))
    for p in range(known):
        first, count = heads[features[p], START], heads[features[p], COUNT]
        if count > 0:
            _add_row(numbers[first : first + count], weights[first : first + count], np.float64(values[p]), scores)


@compiled
def _add_row(numbers, weights, value, scores):  # type: ignore[no-untyped-def]
    if numbers[len(numbers) - 1] == len(numbers) - 1:  # all up to the last are present
        dense = weights.reshape(-1)
        for column in range(len(dense)):
            scores[column] += value * dense[column]
    else:
        for k in range(len(numbers)):
            block, own = weights[k], scores[numbers[k] * BLOCK : numbers[k] * BLOCK + BLOCK]
            for j in range(len(block)):  # a length that is unknown at compile time lets the loop be vectorised
                own[j] += value * block[j]


@compiled
def list_blocks(values, listed):  # type: ignore[no-untyped-def]
    """List the blocks with a non-zero value; return their number."""
    n = 0
    for block in range(len(values) // BLOCK):
        found = 0
        for j in range(BLOCK):
            found += values[block * BLOCK + j] != 0
        listed[n] = block
        n += found > 0
    return n


@compiled
def missing_room(table, rows, n_listed):  # type: ignore[no-untyped-def]
    """Return the possible shortage of the pool to open this number of blocks in each of some rows."""
    heads, book, numbers, _ = table
    end = book[END]
    for row in rows:
        most = heads[row, COUNT] + n_listed
        if most > heads[row, ROOM]:
            end += room_for(most)[0]
    return max(end - len(numbers), 0)


@compiled
def seek(own, block, k):  # type: ignore[no-untyped-def]
    """Return the first index from k on of a number that is at least `block`, among ascending ones, or their number."""
    n = len(own)
    if k < n and own[k] < block:
        high = min(block, n)
        low = min(max(k + 1, block - (own[n - 1] - (n - 1))), high)  # only indices up to the last are missing
        while low < high:
            middle = (low + high) // 2
            if own[middle] < block:
                low = middle + 1
            else:
                high = middle
        return low
    return k


@compiled
def add_to_row(table, row, value, tau, listed, missing):  # type: ignore[no-untyped-def]
    """Add value times tau to a row, in the blocks listed in ascending order; the pool has room, and `missing` is
    scratch like `listed`.
    """
    heads, _, numbers, weights = table
    first, count = heads[row, START], heads[row, COUNT]
    own, blocks = numbers[first : first + count], weights[first : first + count]
    if count == len(listed) and own[count - 1] == listed[count - 1] == count - 1:
        dense = blocks.reshape(-1)
        for column in range(len(dense)):
            dense[column] += value * tau[column]
        return
    k, n_missing = np.int64(0), 0
    for block in listed:
        k = seek(own, block, k)
        if k < count and own[k] == block:
            _add_block(blocks[k], value, tau[block * BLOCK : block * BLOCK + BLOCK])
        else:
            missing[n_missing] = block
            n_missing += 1
    if n_missing > 0:
        open_blocks(table, row, missing[:n_missing])
        first = heads[row, START]
        own, k = numbers[first : first + heads[row, COUNT]], np.int64(0)
        for block in missing[:n_missing]:
            k = seek(own, block, k)
            _add_block(weights[first + k], value, tau[block * BLOCK : block * BLOCK + BLOCK])


@compiled
def _add_block(weights, value, tau):  # type: ignore[no-untyped-def]
    for j in range(len(weights)):
        weights[j] += value * tau[j]


@compiled
def blocks_of(columns):  # type: ignore[no-untyped-def]
    """Return the numbers of the blocks of columns in ascending order, each once."""
    blocks, n = np.empty(len(columns), np.int64), 0
    for column in columns:
        if n == 0 or blocks[n - 1] != column // BLOCK:
            blocks[n] = column // BLOCK
            n += 1
    return blocks[:n]


@compiled
def add_to_columns(table, row, value, changes, columns, blocks, missing):  # type: ignore[no-untyped-def]
    """Add value times changes to a row in ascending columns of `blocks`; the pool has room, and `missing` is scratch
    like `blocks`.
    """
    heads, _, numbers, weights = table
    first, count = np.int64(heads[row, START]), np.int64(heads[row, COUNT])
    k, n_missing = np.int64(0), 0
    own = numbers[first : first + count]
    for block in blocks:
        k = seek(own, block, k)
        if k == count or own[k] != block:
            missing[n_missing] = block
            n_missing += 1
    if n_missing > 0:
        open_blocks(table, row, missing[:n_missing])
        first = np.int64(heads[row, START])
        own = numbers[first : first + heads[row, COUNT]]
    k = np.int64(0)
    for p in range(len(columns)):
        k = seek(own, columns[p] // BLOCK, k)
        weights[first + k, columns[p] % BLOCK] += weights.dtype.type(changes[p] * value)


@compiled
def open_blocks(table, row, listed):  # type: ignore[no-untyped-def]
    """Add blocks of zeros to a row, given in ascending order. The pool must have capacity."""
    heads, book, numbers, weights = table
    first, count, room = np.int64(heads[row, START]), np.int64(heads[row, COUNT]), np.int64(heads[row, ROOM])
    own, new, place = numbers[first : first + count], count + len(listed), first
    if new > room:
        place = _take(book, numbers, new)
    _merge(own, weights[first : first + count], listed, numbers[place : place + new], weights[place : place + new])
    if new > room:
        if room > 0:
            _release(book, numbers, first, room)
        heads[row, ROOM] = room_for(new)[0]
    book[HELD] += len(listed)
    heads[row, START], heads[row, COUNT] = place, new


@compiled
def _merge(own, weights, listed, to, moved):  # type: ignore[no-untyped-def]
    """Write blocks and further ones to a longer run, which may begin with the blocks: from the last one on."""
    i, j = len(own) - 1, len(listed) - 1
    for k in range(len(to) - 1, -1, -1):
        if j >= 0 and (i < 0 or own[i] < listed[j]):
            to[k] = listed[j]
            for column in range(BLOCK):
                moved[k, column] = 0
            j -= 1
        else:
            to[k] = own[i]
            for column in range(BLOCK):
                moved[k, column] = weights[i, column]
            i -= 1


@compiled
def _take(book, numbers, n):  # type: ignore[no-untyped-def]
    """Allocate a run of n blocks; return its start."""
    room, size = room_for(n)
    place = book[FREE + size]
    if place == NONE:
        book[END] += room
        return book[END] - room
    book[FREE + size] = numbers[place]
    return place


@compiled
def _release(book, numbers, place, room):  # type: ignore[no-untyped-def]
    """Assign a run to another row."""
    size = room_for(room)[1]
    numbers[place] = book[FREE + size]
    book[FREE + size] = place


@compiled
def place_of(table, row, column):  # type: ignore[no-untyped-def]
    """Return the position of a row's block with a column, or NONE."""
    heads, _, numbers, _ = table
    first, count, block = np.int64(heads[row, START]), heads[row, COUNT], column // BLOCK
    own = numbers[first : first + count]
    k = seek(own, block, np.int64(0))
    return first + k if k < count and own[k] == block else NONE


@compiled
def gather(table, rows, column, values):  # type: ignore[no-untyped-def]
    """Write the weights of rows in a column."""
    for p in range(len(rows)):
        place = place_of(table, np.int64(rows[p]), column)
        values[p] = 0.0 if place == NONE else table[3][place, column % BLOCK]


@compiled
def divide_column(table, column, by):  # type: ignore[no-untyped-def]
    """Divide the weights of all rows in a column."""
    for row in range(len(table[0])):
        place = place_of(table, row, column)
        if place != NONE:
            table[3][place, column % BLOCK] /= by


@compiled
def clear_column(table, column):  # type: ignore[no-untyped-def]
    """Set the weights of all rows in a column to 0, and remove blocks that hold nothing else."""
    heads, book, numbers, weights = table
    for row in range(len(heads)):
        place = place_of(table, row, column)
        if place != NONE:
            weights[place, column % BLOCK] = 0
            if not weights[place].any():
                for k in range(place, heads[row, START] + heads[row, COUNT] - 1):
                    numbers[k] = numbers[k + 1]
                    weights[k] = weights[k + 1]
                heads[row, COUNT] -= 1
                book[HELD] -= 1


@compiled
def count_blocks(table, ends):  # type: ignore[no-untyped-def]
    """Write the position in the packed non-zero blocks at which each of the first rows ends."""
    heads, weights, n = table[0], table[3], 0
    for row in range(len(ends)):
        for place in range(heads[row, START], heads[row, START] + heads[row, COUNT]):
            n += weights[place].any()
        ends[row] = n


@compiled
def pack_numbers(table, n_rows, packed):  # type: ignore[no-untyped-def]
    """Copy the numbers of the non-zero blocks of the first rows into one run."""
    heads, _, numbers, weights = table
    n = 0
    for row in range(n_rows):
        for place in range(heads[row, START], heads[row, START] + heads[row, COUNT]):
            if weights[place].any():
                packed[n] = numbers[place]
                n += 1


@compiled
def pack_weights(table, n_rows, packed):  # type: ignore[no-untyped-def]
    """Copy the weights of the same blocks as `pack_numbers`."""
    heads, _, _, weights = table
    n = 0
    for row in range(n_rows):
        for place in range(heads[row, START], heads[row, START] + heads[row, COUNT]):
            if weights[place].any():
                packed[n] = weights[place]
                n += 1


@compiled
def room_of(ends):  # type: ignore[no-untyped-def]
    """Return the capacity for rows with these ends."""
    total, first = 0, 0
    for end in ends:
        if end > first:
            total += room_for(end - first)[0]
        first = end
    return total


@compiled
def unpack_blocks(table, ends, packed_numbers, packed):  # type: ignore[no-untyped-def]
    """Fill an empty table of sufficient capacity with the output of `pack_numbers` and `pack_weights`."""
    heads, book, numbers, weights = table
    first = 0
    for row in range(len(ends)):
        count = ends[row] - first
        if count > 0:
            place = _take(book, numbers, count)
            numbers[place : place + count] = packed_numbers[first : first + count]
            weights[place : place + count] = packed[first : first + count]
            heads[row, START], heads[row, COUNT], heads[row, ROOM] = place, count, room_for(count)[0]
            book[HELD] += count
        first = ends[row]
