"""Random orders from an explicit generator state: one seed gives the same order everywhere."""

import numpy as np

from manylabel_core.compiled import compiled


@compiled
def random_state(seed):  # type: ignore[no-untyped-def]
    """Return a state of `shuffle`, from any seed."""
    state = np.empty(1, np.uint64)
    state[0] = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x2545F4914F6CDD1D)
    return state


@compiled
def shuffle(order, state):  # type: ignore[no-untyped-def]
    """Put integers in a random order (Fisher and Yates), by the xorshift generator of G. Marsaglia, J. Stat. Softw.
    8(14), 2003.
    """
    x = state[0]
    for p in range(len(order) - 1, 0, -1):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        q = np.int64((x >> np.uint64(11)) % np.uint64(p + 1))
        order[p], order[q] = order[q], order[p]
    state[0] = x
