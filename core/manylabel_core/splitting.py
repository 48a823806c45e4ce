"""Hold-out splits and folds of the rows of a dataset."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def held_out(n_rows: int, share: float, seed: int) -> tuple[Rows, Rows]:
    """Return ascending training rows, and a random share for evaluation; raise ValueError if either is empty."""
    if not 0.0 < share < 1.0:
        raise ValueError(f"holdout must be a share above 0 and below 1, such as 0.2, not {share:g}")
    n_held = round(share * n_rows)
    if not 0 < n_held < n_rows:
        raise ValueError(
            f"holdout {share:g} of {n_rows} rows leaves {n_held} for evaluation; both parts must have rows"
        )
    order = np.random.default_rng([seed, n_rows]).permutation(n_rows)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def folds(n_rows: int, n_folds: int, seed: int) -> list[tuple[Rows, Rows]]:
    """Return random folds, each with ascending training rows and held-out rows; raise ValueError if there are more
    folds than rows.
    """
    if n_folds > n_rows:
        raise ValueError(f"folds must be at most the number of rows, {n_rows}, not {n_folds}")
    order = np.random.default_rng([seed, n_rows, n_folds]).permutation(n_rows)
    every = np.arange(n_rows)
    return [(np.setdiff1d(every, part), np.sort(part)) for part in np.array_split(order, n_folds)]
