"""Choice of thresholds and calibration from out-of-fold scores, which come from models that have not learnt the row.

Cross-validation on these scores chooses between one threshold for all labels and one per label: the thresholds for the
rows of a fold are tuned on the other folds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manylabel_core.batch.decisions.thresholds import Matrix, Truth, best_cuts, value
from manylabel_core.splitting import Rows, folds

Parts = Sequence[tuple[Rows, Rows]]
"""Training rows and held-out rows of each fold."""


def divided(n_samples: int, n_folds: int, seed: int) -> Parts:
    """Return random folds of the rows, or none if a fold has fewer than 2 rows.

    The same arguments give the same folds.
    """
    if n_samples < 2 * n_folds:
        return []
    return folds(n_samples, n_folds, seed)


def tune_thresholds(scores: Matrix, Y: Truth, parts: Parts, measure: str, weights: Matrix | None = None) -> Matrix:
    """Return the thresholds that optimise a metric, shape (n_labels,).

    Parameters
    ----------
    scores, Y : ndarrays of shape (n_samples, n_labels), float64 and bool
        Out-of-fold scores, and true labels.
    parts : sequence of (rows learnt, rows held out)
        Folds of the scores.
    measure : str
        One of `manylabel_core.batch.decisions.thresholds.MEASURES`.
    weights : ndarray of shape (n_samples,), float64, optional
        Sample weights.
    """
    shared = _validated(scores, Y, parts, measure, weights)[0]
    return best_cuts(scores, Y, measure, weights, shared=shared)


def validated_scores(scores: Matrix, Y: Truth, parts: Parts, measure: str, weights: Matrix | None = None) -> Matrix:
    """Return scores minus thresholds that were tuned on other folds, with the better kind of thresholds.

    So metrics of the result are not biased by the choice of thresholds. The parameters are those of `tune_thresholds`.
    """
    return _validated(scores, Y, parts, measure, weights)[1]


def _validated(scores: Matrix, Y: Truth, parts: Parts, measure: str, weights: Matrix | None) -> tuple[bool, Matrix]:
    """Return whether a common threshold is at least as good as one per label, and the scores minus the better
    thresholds."""
    found: dict[bool, Matrix] = {}
    for shared in (True, False):
        found[shared] = np.empty_like(scores)
        for rows in range(len(parts)):
            held = parts[rows][1]
            others = np.concatenate([part for number, (_, part) in enumerate(parts) if number != rows])
            theirs = None if weights is None else weights[others]
            found[shared][held] = scores[held] - best_cuts(scores[others], Y[others], measure, theirs, shared=shared)
    one = value(found[True], Y, measure, weights) >= value(found[False], Y, measure, weights)
    return one, found[one]
