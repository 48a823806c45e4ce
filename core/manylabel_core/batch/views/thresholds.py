"""A threshold for each label, fitted to scores of the labelled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

HALF = 0.5
"""Scores are regressions on 0 and 1: the threshold where nothing is to be fitted."""


def thresholds(scores: Matrix, Y: Any, rule: str) -> Matrix:
    """Return the thresholds, shape (n_labels,).

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_labels), float64
    Y : ndarray of shape (n_samples, n_labels)
        0 and 1.
    rule : {"f1", "errors", "prevalence", "half"}
        The highest F1 of the label; the fewest errors; as many rows above as have the label; 0.5. A label that all
        or no rows have gets 0.5, which its scores are not near.
    """
    found = np.full(scores.shape[1], HALF)
    if rule == "half":
        return found
    for label in np.flatnonzero((Y == 1).any(axis=0) & (Y == 0).any(axis=0)):
        found[label] = _threshold(scores[:, label], Y[:, label], rule)
    return found


def _threshold(scores: Matrix, y: Any, rule: str) -> float:
    """Return the midpoint of two different scores: the best threshold after the k highest scores, over all k."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    true = np.concatenate([[0], np.cumsum(y[order])])
    above = np.arange(len(true))
    cuts = np.flatnonzero(np.concatenate([[True], ranked[1:] < ranked[:-1], [True]]))
    k = int(cuts[np.argmax(_worth(true[cuts], above[cuts], true[-1], rule))])
    if k == 0:
        return float(np.nextafter(ranked[0], np.inf))
    if k == len(ranked):
        return float(np.nextafter(ranked[-1], -np.inf))
    return float(ranked[k] + (ranked[k - 1] - ranked[k]) / 2)


def _worth(true: NDArray[Any], above: NDArray[Any], relevant: float, rule: str) -> NDArray[Any]:
    """Return the value to maximise, given the true labels among the rows above the threshold."""
    if rule == "f1":
        return np.asarray(2.0 * true / (above + relevant))
    if rule == "errors":
        return np.asarray(2.0 * true - above)
    return np.asarray(-np.abs(above - relevant))
