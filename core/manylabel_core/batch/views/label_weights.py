"""Weights of views, chosen by labels: views that predict held-out labels better get larger weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from manylabel_core.batch.views.block import Block, Matrix
from manylabel_core.batch.views.ridge import rotate
from manylabel_core.batch.views.steps import centred
from manylabel_core.checks import is_sparse

LEAST_LABELLED = 50
"""Minimum number of labelled rows that have all views; with fewer, all views have the same weight."""
MOST_LABELLED = 1_000
"""Number of labelled rows used, evenly spread: enough to distinguish a factor of 2."""
MOST_AXES = 400
"""Number of principal axes used, of all views together: enough to distinguish a factor of 2."""
RATIO = 16.0
"""Maximum ratio of the largest weight to the smallest."""
GAIN = 1e-3
"""Minimum relative decrease of the held-out error for a change of a weight."""


def label_weights(views: Sequence[Block], Y: Matrix, labelled: NDArray[np.int64]) -> Matrix:
    """Return the factors of the squared errors of the views, shape (n_views,), from labels Y, (n_labelled, n_labels).

    The views side by side, each multiplied by the root of its weight, predict the labels by ridge regression. Weights
    start at 1. View by view, a weight is doubled or halved if that lowers the error of held-out labelled rows, until no
    change lowers it. Only rows with all views count.
    """
    whole = np.ones(len(labelled), dtype=np.bool_)
    for view in views:
        whole &= True if view.present is None else view.present[labelled]
    known = np.flatnonzero(whole)
    if len(views) == 1 or len(known) < LEAST_LABELLED:
        return np.ones(len(views))
    some = known[np.linspace(0, len(known) - 1, min(len(known), MOST_LABELLED)).astype(np.int64)]
    n_axes = max(1, MOST_AXES // len(views))
    features = [principal_axes(view.rows(labelled[some]), n_axes) for view in views]
    Y = Y[some] - Y[some].mean(axis=0)

    def error(weights: Matrix) -> float:
        return rotate(np.hstack([c**0.5 * F for c, F in zip(weights, features, strict=True)]), Y).best()[1]

    return doubled_or_halved(error, len(views))


def principal_axes(block: Block, n_axes: int) -> Matrix:
    """Return rows, less their mean, on their leading principal axes, (n_samples, at most n_axes); `block` has no
    missing rows.
    """
    n, width = block.X.shape
    if width <= n_axes:
        F = block.times(np.eye(width))
        return np.asarray(F - F.mean(axis=0))
    X = block.X if is_sparse(block.X) else block.X - block.mean
    products = X @ X.T
    gram = centred(products.toarray() if is_sparse(products) else products) / block.scale**2
    values, vectors = eigh(gram, subset_by_index=[max(0, n - n_axes), n - 1])
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(F - F.mean(axis=0))  # directions of length 0 are arbitrary, and may include the constant


def doubled_or_halved(error: Callable[[Matrix], float], n: int) -> Matrix:
    """Minimise over n weights that are powers of 2 by coordinate descent from 1."""
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
