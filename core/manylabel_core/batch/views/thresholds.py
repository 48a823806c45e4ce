"""Threshold of each label, fitted to the scores of the labelled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.decisions.thresholds import best_cuts, between

Matrix = NDArray[np.float64]

HALF = 0.5
"""Threshold without a fit: scores are regressions on 0 and 1."""


def thresholds(scores: Matrix, Y: Any, rule: str) -> Matrix:
    """Return the thresholds, shape (n_labels,).

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_labels), float64
    Y : ndarray of shape (n_samples, n_labels)
        0 and 1.
    rule : {"f1", "prevalence", "half"}
        The highest F1 of the label; as many rows above the threshold as have the label; 0.5. A label that all rows or
        no rows have gets 0.5.
    """
    found = np.full(scores.shape[1], HALF)
    both = (Y == 1).any(axis=0) & (Y == 0).any(axis=0)
    if rule == "f1":
        found[both] = best_cuts(scores[:, both], Y[:, both] == 1, "macro_f1", shared=False)
    elif rule == "prevalence":
        for label in np.flatnonzero(both):
            found[label] = _cut_after(np.sort(scores[:, label])[::-1], int(Y[:, label].sum()))
    return found


def _cut_after(ranked: Matrix, count: int) -> float:
    """Return the threshold that about this number of scores, which descend, exceed; equal scores stay together."""
    cuts = np.flatnonzero(np.concatenate([[True], ranked[1:] < ranked[:-1], [True]]))
    k = int(cuts[np.argmin(np.abs(cuts - count))])
    if k == 0:
        return float(np.nextafter(ranked[0], np.inf))
    if k == len(ranked):
        return float(np.nextafter(ranked[-1], -np.inf))
    return float(between(ranked[k], ranked[k - 1]))
