"""Labels that S does not couple to other labels, as a unit for the loop of the solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.solvers.coupled._account import account, kkt_bias, worst_pairs
from manylabel_core.solvers.coupled.problem import Task

SWEEPS, SWEEPS_ALONE = 4, 50
"""Maximum number of sweeps over a block, and over a single block."""


class Side(ABC):
    """Dual variables of some labels, and their model."""

    block_size: int  # points solved at a time
    goal = 0.0
    # (n_labels, 2), with the equality: points of each label's most violating pair at the last `evaluate`, or -1
    pairs: NDArray[np.int64]

    def __init__(self, task: Task, B: NDArray[np.float64]) -> None:
        self.task = task
        self.B = B

    @abstractmethod
    def gradient(self) -> NDArray[Any]:
        """Return T = Y - F for all points, (n_samples, n_labels); valid until the next pass."""

    @abstractmethod
    def sweep(self, points: NDArray[np.int64], starts: NDArray[np.int64], seed: int) -> None:
        """Solve block after block, `points[starts[k]:starts[k + 1]]`."""

    @staticmethod
    def sweeps(starts: NDArray[np.int64]) -> int:
        """Return the maximum number of sweeps over each of these blocks."""
        return SWEEPS if len(starts) > 2 else SWEEPS_ALONE

    @abstractmethod
    def refresh(self) -> bool:
        """Recompute the model from B; return False if the change would be negligible."""

    def rounding(self) -> float:
        """Return the maximum error of the gap that results from rounding of double precision data."""
        return 0.0

    def evaluate(self, shares: NDArray[np.float64]) -> tuple[float, float, int]:
        """Write each point's share of the gap; return the gap, the dual objective and the number of open variables.

        With the equality, the gap is computed at the best biases. At these biases, one point of a violating pair may
        have no share. Therefore shares and open variables are computed at the biases in the middle of the most
        violating pairs.
        """
        T, (Y, _, c, _, _, equality) = self.gradient(), self.task
        if not equality:
            gap, dual, n_open = account(T, self.B, Y, c, np.zeros(T.shape[1]), shares)
            return float(gap), float(dual), int(n_open)
        best = best_bias(T, self.task)
        gap, dual, _ = account(T, self.B, Y, c, best, shares)
        self.pairs = np.empty((T.shape[1], 2), np.int64)
        worst_pairs(T, self.B, Y, c, self.pairs)
        middle = T[self.pairs, np.arange(len(best))[:, None]].mean(axis=1, dtype=np.float64)
        _, _, n_open = account(T, self.B, Y, c, np.where(self.pairs[:, 0] >= 0, middle, best), shares)
        return float(gap), float(dual), int(n_open)

    def bias(self) -> NDArray[np.float64]:
        """Return the biases from the optimality conditions; 0 without the equality."""
        if not self.task.equality:
            return np.zeros(self.B.shape[1])
        return np.asarray(kkt_bias(self.gradient(), self.B, self.task.Y, self.task.c))


def best_bias(T: NDArray[Any], task: Task) -> NDArray[np.float64]:
    """Return the biases with the least hinge loss, shape (n_labels,).

    The hinge of an example has its kink at the bias y - F = T. Left of all kinks the slope of a label's loss is minus
    the sum of c over its relevant examples, and each kink adds the c of its example. So the minimum is where the sum of
    c over the lower kinks reaches the sum over the relevant examples. With equal c, this is the (number of relevant)-th
    smallest kink.
    """
    best = np.empty(T.shape[1])
    ranks = np.maximum((task.Y > 0).sum(axis=0), 1) - 1
    for label, column in enumerate(np.ascontiguousarray(T.T)):
        if task.even:
            best[label] = np.partition(column, ranks[label])[ranks[label]]
        else:
            order = np.argsort(column, kind="stable")
            needed = task.c[task.Y[:, label] > 0].sum()
            rank = int(np.searchsorted(np.cumsum(task.c[order]), needed))
            best[label] = column[order[min(rank, len(order) - 1)]]
    return best
