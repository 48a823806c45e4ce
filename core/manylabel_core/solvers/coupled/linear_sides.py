"""Labels of a linear model: weights are stored, and scores are computed for visited points.

Dense and sparse rows differ only in the products, which use BLAS or compiled passes over CSR.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import Rows
from manylabel_core.solvers._csr import squared_lengths
from manylabel_core.solvers._shuffle import random_state
from manylabel_core.solvers.coupled._active import ENOUGH, Pairs, count_active, keep_active, list_active, visit_labels
from manylabel_core.solvers.coupled._block import solve_block
from manylabel_core.solvers.coupled._csr_blocks import add_outer, subtract_scores, sweep_blocks
from manylabel_core.solvers.coupled.problem import Task
from manylabel_core.solvers.coupled.side import Side
from manylabel_core.solvers.workers import Workers

DENSE_BLOCK, CSR_BLOCK = 128, 32
"""Points solved at a time. There are fewer for sparse rows, whose inner products would soon cost more than the saved
sweeps.
"""
CHUNK = 4096
"""Points whose scores are computed at a time."""
FEW = 0.2
"""Maximum share of active pairs for which sparse rows are visited for their active labels only."""
VISIT_SWEEPS = 20
"""Maximum number of sweeps over the active pairs of a label in a pass."""
ROUNDS, ROUND_SWEEPS, GROUP = 5, 2, 16
"""Settings for coupled labels: rounds of a pass over all labels, sweeps per visit, labels whose weights are made at
once."""


class LinearSide(Side):
    """Side that stores weights; base for dense and sparse rows.

    `constant` is the value of a feature that all points have, 0 for none. V is `X'B` followed by the row of the
    constant, None if unknown; it is used only with coupled labels.
    """

    def __init__(
        self,
        task: Task,
        B: NDArray[np.float64],
        n_features: int,
        constant: float,
        dtype: np.dtype[Any],
        threads: Workers,
        V: NDArray[np.float64] | None,
    ) -> None:
        super().__init__(task, B)
        self._n_features = n_features
        self._constant = dtype.type(constant)
        self._threads = threads
        self._T = np.empty(B.shape, dtype)
        self._stale = True
        self.V = V if task.coupled else None
        """X'B in double precision, while it is known."""
        self._Z = self._fresh_weights(dtype)  # the last row is the constant
        self._exact: NDArray[np.float64] | None = None

    @property
    def weights(self) -> NDArray[np.float64]:
        """Return `X'B S`, followed by the row of the constant, (n_features + 1, n_labels), float64."""
        return self._Z.astype(np.float64) if self._exact is None else self._exact

    def gradient(self) -> NDArray[Any]:
        if self._stale:
            self._threads.map(self._score, self._threads.parts(len(self._T), CHUNK))
            self._stale = False
        return self._T

    def sweep(self, points: NDArray[np.int64], starts: NDArray[np.int64], seed: int) -> None:
        self._stale, self._exact, self.V = True, None, None
        self._sweep(points, starts, random_state(seed))

    def refresh(self) -> bool:
        if self._exact is not None or self._Z.dtype == np.float64:
            return False
        self._exact = self._fresh_weights(np.dtype(np.float64))
        self._Z[:] = self._exact
        self._stale = True
        return True

    def _fresh_weights(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the weights without the rounding of the steps that have led to B."""
        if not self.task.coupled:
            return self._fresh(dtype, self.task.times_coupling)
        if self.V is None:
            self.V = self._fresh(np.dtype(np.float64), lambda B: B)
        return self.task.times_coupling(self.V).astype(dtype, copy=False)

    def _fresh(self, dtype: np.dtype[Any], coupled: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Return `X'M`, followed by the row of the constant."""
        Z = np.zeros((self._n_features + 1, self.B.shape[1]), dtype)
        moved = np.flatnonzero(self.B.any(axis=1))
        for first in range(0, len(moved), CHUNK):
            points = moved[first : first + CHUNK]
            self._add(points, coupled(self.B[points]).astype(dtype, copy=False), Z)
        return Z

    @abstractmethod
    def _score(self, points: slice) -> None:
        """Write the gradient of some points into _T."""

    @abstractmethod
    def _add(self, points: NDArray[np.int64], M: NDArray[Any], Z: NDArray[Any]) -> None:
        """Add `x'M` of some points to Z."""

    @abstractmethod
    def _sweep(self, points: NDArray[np.int64], starts: NDArray[np.int64], state: NDArray[np.uint64]) -> None: ...


class DenseSide(LinearSide):
    """Side with a linear model of dense rows X, (n_samples, n_features)."""

    def __init__(
        self,
        X: NDArray[Any],
        constant: float,
        V: NDArray[np.float64] | None,
        task: Task,
        B: NDArray[np.float64],
        threads: Workers,
    ) -> None:
        self._X = X
        self.block_size = DENSE_BLOCK
        super().__init__(task, B, X.shape[1], constant, X.dtype, threads, V)

    def _sweep(self, points: NDArray[np.int64], starts: NDArray[np.int64], state: NDArray[np.uint64]) -> None:
        sweeps = self.sweeps(starts)
        for first, last in pairwise(starts):
            block = points[first:last]
            X = self._X[block]
            T = self.task.Y[block] - X @ self._Z[:-1] - self._constant * self._Z[-1]
            moves = np.empty_like(T)
            K = X @ X.T + self._constant**2
            if solve_block(K, T, self.B, block, self.task, sweeps, state, moves):
                self._add_rows(X, self.task.times_coupling(moves), self._Z)

    def _score(self, points: slice) -> None:
        scores = self._X[points] @ self._Z[:-1] + self._constant * self._Z[-1]
        np.subtract(self.task.Y[points], scores, out=self._T[points])

    def _add(self, points: NDArray[np.int64], M: NDArray[Any], Z: NDArray[Any]) -> None:
        self._add_rows(self._X[points].astype(Z.dtype, copy=False), M, Z)

    def _add_rows(self, X: NDArray[Any], M: NDArray[Any], Z: NDArray[Any]) -> None:
        Z[:-1] += X.T @ M
        Z[-1] += self._constant * M.sum(axis=0)


class CsrSide(LinearSide):
    """Side with a linear model of sparse rows."""

    def __init__(
        self,
        X: Rows,
        n_features: int,
        constant: float,
        V: NDArray[np.float64] | None,
        task: Task,
        B: NDArray[np.float64],
        threads: Workers,
    ) -> None:
        self._X = X
        self.block_size = CSR_BLOCK
        super().__init__(task, B, n_features, constant, X.values.dtype, threads, V)
        self._squares = squared_lengths(X, self._constant)

    def _sweep(self, points: NDArray[np.int64], starts: NDArray[np.int64], state: NDArray[np.uint64]) -> None:
        pairs = None if self.task.equality or len(starts) == 2 else self._few_active()
        if pairs is None:
            sweeps = self.sweeps(starts)
            sweep_blocks(self._X, self._constant, self._Z, self.B, self.task, points, starts, sweeps, state)
            return
        if self.task.coupled:
            self._visit_in_rounds(pairs, state)
        else:
            W = np.ascontiguousarray(self._Z.T)
            labels = np.arange(len(W))
            self._visit(pairs, labels, W, W, VISIT_SWEEPS, state)
            self._Z[:] = W.T
        keep_active(pairs, self.B)

    def _few_active(self) -> Pairs | None:
        """Return the active pairs, if they are few."""
        counts = np.empty(self.B.shape[1], np.int64)
        known = self._T, self.B, self.task.Y, self.task.c  # the previous pass ended with a computation of the gradient
        count_active(*known, counts)
        if counts.sum() > FEW * self.B.size:
            return None
        pairs = Pairs.empty(counts)
        list_active(*known, pairs)
        return pairs

    def _visit_in_rounds(self, pairs: Pairs, state: NDArray[np.uint64]) -> None:
        """Visit the labels in turn, a few sweeps each, because they depend on each other."""
        start = np.ascontiguousarray(self._Z.T)
        S = self.task.S.astype(start.dtype)
        moved = np.zeros_like(start)  # X'b of each label since the start
        first = 0.0
        for turn in range(ROUNDS):
            gap = 0.0
            for k in range(0, len(start), GROUP):
                labels = np.arange(k, min(k + GROUP, len(start)))
                W = start[labels] + S[labels] @ moved
                gap += self._visit(pairs, labels, W, moved[labels[0] : labels[-1] + 1], ROUND_SWEEPS, state)
            first = first if turn else gap
            if gap <= max(ENOUGH * first, self.goal * len(start)):
                break
        self._Z[:] = (start + S @ moved).T

    def _visit(
        self,
        pairs: Pairs,
        labels: NDArray[np.int64],
        W: NDArray[Any],
        moved: NDArray[Any],
        sweeps: int,
        state: NDArray[np.uint64],
    ) -> float:
        about = self._X, self._constant, self._squares, pairs, self.task, labels
        return float(visit_labels(*about, W, moved, sweeps, self.goal, state))

    def _score(self, points: slice) -> None:
        T = self._T[points]
        T[:] = self.task.Y[points]
        subtract_scores(self._X, self._constant, self._Z, np.arange(points.start, points.stop), T)

    def _add(self, points: NDArray[np.int64], M: NDArray[Any], Z: NDArray[Any]) -> None:
        add_outer(self._X, self._constant, points, M, Z)
