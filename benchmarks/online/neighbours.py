"""Nearest neighbours among the latest examples, the basis of the best published stream learners; for dense streams.

Predictions use only earlier rows and their true labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW, K = 1_000, 10
"""Number of latest examples searched, and number of neighbours."""

Votes = NDArray[np.int64]


class MajorityVote:
    """Majority vote: a label is predicted if most of the neighbours have it."""

    def __init__(self, n_labels: int) -> None:
        pass

    def predict(self, votes: Votes) -> NDArray[np.bool_]:
        return votes > K / 2

    def learn(self, votes: Votes, y: NDArray[np.int8]) -> None:
        pass


class MLkNN:
    """ML-kNN (Zhang and Zhou, 2007): a label is predicted if it was mostly true with this number of votes."""

    def __init__(self, n_labels: int) -> None:
        self._counts = np.ones((2, n_labels, K + 1))
        self._labels = np.arange(n_labels)

    def predict(self, votes: Votes) -> NDArray[np.bool_]:
        prior = self._counts.sum(axis=2)
        likelihood = self._counts[:, self._labels, votes] / prior
        return np.asarray(prior[1] * likelihood[1] > prior[0] * likelihood[0])

    def learn(self, votes: Votes, y: NDArray[np.int8]) -> None:
        self._counts[y.astype(np.intp), self._labels, votes] += 1.0


NEIGHBOURS: dict[str, Callable[[int], Any]] = {
    f"nearest {K} of {WINDOW:,}, majority": MajorityVote,
    f"nearest {K} of {WINDOW:,}, ML-kNN": MLkNN,
}


def predict_and_learn(
    make: Callable[[int], Any], X: NDArray[Any], Y: NDArray[np.int8], limit: float
) -> tuple[NDArray[np.int8], float]:
    """Return predictions for the examples reached within `limit` CPU seconds, and the seconds.

    Features are standardised by the earlier examples.
    """
    rule, predicted = make(Y.shape[1]), np.zeros_like(Y)
    mean, squares = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    began = time.process_time()
    for i, x in enumerate(X):
        votes = _votes(X[max(0, i - WINDOW) : i], Y[max(0, i - WINDOW) : i], x, np.sqrt(squares / max(i, 1)))
        predicted[i] = rule.predict(votes)
        rule.learn(votes, Y[i])
        distance = x - mean
        mean += distance / (i + 1)
        squares += distance * (x - mean)
        if time.process_time() - began > limit:
            return predicted[: i + 1], time.process_time() - began
    return predicted, time.process_time() - began


def _votes(X: NDArray[Any], Y: NDArray[np.int8], x: NDArray[Any], deviation: NDArray[np.float64]) -> Votes:
    """Return the number of nearest examples with each label."""
    varies = deviation > 0.0
    distance = (((X - x)[:, varies] / deviation[varies]) ** 2).sum(axis=1)
    nearest = np.argpartition(distance, K - 1)[:K] if len(X) > K else slice(None)
    return np.asarray(Y[nearest].sum(axis=0, dtype=np.int64))
