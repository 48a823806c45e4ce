"""Weights of views that the labels choose: the views that predict labels of rows left out weigh more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.views.block import Block, Matrix
from manylabel_core.batch.views.ridge import rotate
from manylabel_core.batch.views.start import principal_axes

LEAST_LABELLED = 50
"""Of fewer labelled rows the labels say too little of views: they weigh the same."""
MOST_LABELLED = 2_000
"""So many of the labelled rows, spread over all, are enough to tell a factor of 2."""
RATIO = 16.0
"""The largest weight is at most so many times the smallest."""
GAIN = 1e-3
"""By this share of the error of rows left out a change of a weight must lower it."""


def label_weights(
    views: Sequence[Block], Y: Matrix, labelled: NDArray[np.int64], n_axes: int, random: np.random.RandomState
) -> Matrix:
    """Return what the squared errors of the views are multiplied with, shape (n_views,); 1 is the first guess.

    The views side by side, each multiplied with the root of its weight, predict the labels by ridge regression. A
    weight is doubled or halved where that lowers the error of labelled rows left out, view by view, until none does.

    Parameters
    ----------
    views : list of Block
        Rows that lack a view count as average.
    Y : ndarray of shape (n_labelled, n_labels), float64
    labelled : ndarray of shape (n_labelled,), int64
        The rows of Y.
    n_axes : int
        So many of a view's principal axes are looked at.
    random : RandomState
    """
    if len(views) == 1 or len(labelled) < LEAST_LABELLED:
        return np.ones(len(views))
    some = np.linspace(0, len(labelled) - 1, min(len(labelled), MOST_LABELLED)).astype(np.int64)
    features = [principal_axes(view.rows(labelled[some]), n_axes, random) for view in views]
    features = [F - F.mean(axis=0) for F in features]
    Y = Y[some] - Y[some].mean(axis=0)

    def error(weights: Matrix) -> float:
        return rotate(np.hstack([c**0.5 * F for c, F in zip(weights, features, strict=True)]), Y).best()[1]

    return doubled_or_halved(error, len(views))


def doubled_or_halved(error: Callable[[Matrix], float], n: int) -> Matrix:
    """Minimise over n weights that are powers of 2, one after the other, from 1."""
    weights = np.ones(n)
    least, v, since = error(weights), 0, 0
    while since < n:
        found = False
        for factor in (2.0, 0.5):
            trial = weights.copy()
            trial[v] *= factor
            if trial.max() > RATIO * trial.min():
                continue
            value = error(trial)
            if value < (1.0 - GAIN) * least:
                weights, least, found = trial, value, True
                break
        since = 0 if found else since + 1
        v = (v + 1) % n
    return weights
