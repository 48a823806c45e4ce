"""Places at which a JSON text can be cut: commas outside of strings."""

import numpy as np
from numpy.typing import NDArray

from manylabel_core.compiled import compiled

QUOTE, BACKSLASH, COMMA = 34, 92, 44
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 91, 93, 123, 125


@compiled
def next_cut(
    raw: NDArray[np.uint8], begin: int, size: int, stack: NDArray[np.uint8], depth: int
) -> tuple[int, int, int, int]:
    """Find the first comma of a JSON text at least `size` bytes after `begin`; the text is valid if, and only if, each
    of its pieces is.
    """
    n, i = raw.shape[0], begin
    least, opened = depth, 0
    while i < n:
        byte = raw[i]
        if byte == QUOTE:
            i += 1
            while i < n and raw[i] != QUOTE:
                i += 2 if raw[i] == BACKSLASH else 1
        elif byte in (OPEN_LIST, OPEN_OBJECT):
            if depth == stack.shape[0]:
                break
            stack[depth] = byte
            depth += 1
            opened += 1
        elif byte in (CLOSE_LIST, CLOSE_OBJECT):
            depth -= 1
            least = min(least, depth)
            if depth <= 0:
                break
        elif byte == COMMA and i - begin >= size and depth > 0:
            return i, depth, least, opened
        i += 1
    return n, max(depth, 0), max(least, 0), opened
