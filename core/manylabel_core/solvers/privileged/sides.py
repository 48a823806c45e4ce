"""The labels of an SVM+ dual: their variables, their weights, their objectives, and visits to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.rows import Rows
from manylabel_core.solvers._shuffle import random_state
from manylabel_core.solvers.privileged._either import squares_of
from manylabel_core.solvers.privileged._visits import evaluate, intercept, privileged_weights, visit
from manylabel_core.solvers.privileged.task import Task, Variables, intercepts_of
from manylabel_core.solvers.workers import Workers

HALF = 0.5
"""A label is skipped if its gap is below this part of the requested gap divided by the number of labels."""
GROUP = 32
"""Labels whose scores are computed at once."""
SWEEPS, COUPLED_SWEEPS = 20, 3
"""Maximum number of sweeps at a visit, without and with coupled labels."""
ROUNDS = 3
"""Rounds over all coupled labels between two evaluations of all."""
MANY = 0.3
"""If a larger share of variables is inside their bounds, there is only one round."""

SAME = 1e-9
"""Weights with a smaller relative difference are regarded as those of the same variables."""

Matrix = NDArray[np.float64]


class PrivilegedSide(ABC):
    """Labels of an SVM+ dual, with shared examples X (n_samples, n_features).

    Since the last `evaluate`, `losses` and `linear` (n_labels,) have the parts of the objectives that are not quadratic
    in Z, and `gaps` the duality gap of each label (infinite at first).
    """

    def __init__(self, X: Any, task: Task, weights: Matrix, at: Variables, threads: Workers) -> None:
        self._X = X
        self._rows = (
            X if isinstance(X, np.ndarray) else Rows(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data)
        )
        self._squares = squares_of(self._rows)
        self.task = task
        self._weights = weights
        self.at = at
        self._threads = threads
        n_labels = len(at.alpha)
        self.losses, self.linear = np.zeros(n_labels), np.zeros(n_labels)
        self.intercepts = intercepts_of(task, at.alpha)
        self.gaps = np.full(n_labels, np.inf)
        self._active: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = [(np.empty(0, np.int32),) * 2] * n_labels
        self._groups = [np.arange(k, min(k + GROUP, n_labels)) for k in range(0, n_labels, GROUP)]

    @property
    def n_open(self) -> int:
        return sum(len(pairs) for pairs, _ in self._active)

    @abstractmethod
    def weights(self) -> Matrix:
        """Return the weights, (n_labels, n_features)."""

    @abstractmethod
    def evaluate(self, goal: float, again: bool) -> tuple[float, float]:
        """Return the primal and the dual objective; labels with a gap below the goal may be skipped. `again` is true if
        a stopped run had already evaluated this point; then the primal weights are not averaged again.
        """

    @abstractmethod
    def sweep(self, goal: float, seed: int) -> None:
        """Visit the labels whose gap is above the goal."""

    def _evaluate(self, labels: NDArray[np.int64], Z: Matrix, again: bool) -> None:
        """Evaluate some labels at their weights Z."""
        if not len(labels):
            return
        self.intercepts[labels] = [intercept(self.task, label, self.at.alpha[label]) for label in labels]
        scores = Z @ self._X.T if isinstance(self._X, np.ndarray) else np.ascontiguousarray((self._X @ Z.T).T)
        scores += self.intercepts[labels, None]
        pairs, kinds = (np.empty(length, np.int32) for length in (len(self._squares), len(self.task.sizes)))
        for f, label in zip(scores, labels, strict=True):
            alpha, beta, known = (part[label] for part in self.at)
            v = np.empty(len(known))
            privileged_weights(self.task, label, alpha, beta, v)
            about = self.task, self._weights, label, f, alpha, beta, v, known
            self.losses[label], self.linear[label], n_pairs, n_kinds = evaluate(*about, again, pairs, kinds)
            self._active[label] = pairs[:n_pairs].copy(), kinds[:n_kinds].copy()
            # z.X'b and b^2 / B^2: the share of the label in the quadratic parts of both objectives.
            self.gaps[label] = self.losses[label] - self.linear[label] + np.dot(f, alpha * self.task.Y[label])

    def _quadratic_intercepts(self) -> float:
        """Return `sum_l b_l^2 / (2 B^2)`."""
        b = self.intercepts
        return 0.5 * float(b @ b) / self.task.intercept if self.task.intercept else 0.0

    def _visit(self, label: int, s: float, z: NDArray[np.float64], sweeps: int, goal: float, seed: int) -> float:
        alpha, beta, _ = (part[label] for part in self.at)
        about = self._rows, self._squares, self.task, self._weights, label, *self._active[label], alpha, beta
        return float(visit(*about, s, z, sweeps, goal, random_state(seed + label)))

    def _sums(self, labels: NDArray[np.int64]) -> Matrix:
        """Return `X'b` of some labels, (len(labels), n_features)."""
        B = self.at.alpha[labels] * self.task.Y[labels]
        return np.ascontiguousarray(B @ self._X if isinstance(self._X, np.ndarray) else (self._X.T @ B.T).T)


class Independent(PrivilegedSide):
    """Labels with S = I: each is a separate problem."""

    def __init__(self, X: Any, task: Task, weights: Matrix, at: Variables, threads: Workers, Z: Matrix | None) -> None:
        super().__init__(X, task, weights, at, threads)
        self._Z = np.empty((len(at.alpha), X.shape[1]))
        threads.map(self._make, self._groups)
        if Z is not None and np.allclose(Z, self._Z, rtol=SAME, atol=SAME * np.abs(self._Z).max()):
            self._Z[:] = Z

    def weights(self) -> Matrix:
        return self._Z

    def _make(self, labels: NDArray[np.int64]) -> None:
        self._Z[labels] = self._sums(labels)

    def evaluate(self, goal: float, again: bool) -> tuple[float, float]:
        open_ = [labels[self.gaps[labels] > goal] for labels in self._groups]
        self._threads.map(lambda labels: self._evaluate(labels, self._Z[labels], again), open_)
        quadratic = 0.5 * np.einsum("lj,lj->l", self._Z, self._Z)
        intercepts = self._quadratic_intercepts()
        return float((self.losses + quadratic).sum()) + intercepts, float((self.linear - quadratic).sum()) - intercepts

    def sweep(self, goal: float, seed: int) -> None:
        def visit_group(labels: NDArray[np.int64]) -> None:
            for label in labels[self.gaps[labels] > goal]:
                self._visit(int(label), 1.0, self._Z[label], SWEEPS, goal, seed)

        self._threads.map(visit_group, self._groups)


class Coupled(PrivilegedSide):
    """Labels with S = W'W, and so weights `z_l = D'w_l`, `D = sum_l w_l (X'b_l)'`.

    Within a visit only z_l moves. D follows after the visits to a group of labels; within the group, changes reach the
    other labels by S. A stored D replaces the computed one, up to rounding.
    """

    def __init__(
        self,
        X: Any,
        task: Task,
        weights: Matrix,
        at: Variables,
        threads: Workers,
        W: Matrix,
        D: Matrix | None,
    ) -> None:
        super().__init__(X, task, weights, at, threads)
        self._W = W
        self.D = np.zeros((len(W), X.shape[1]))
        self._columns = threads.parts(X.shape[1])
        for labels in self._groups:
            self._add(labels, self._sums(labels))
        if D is not None and np.allclose(D, self.D, rtol=SAME, atol=SAME * np.abs(self.D).max()):
            self.D[:] = D

    def weights(self) -> Matrix:
        return self._products(np.arange(self._W.shape[1]))

    def evaluate(self, goal: float, again: bool) -> tuple[float, float]:
        # The weights of all labels must come from one D, so all labels are evaluated.

        def evaluate_group(labels: NDArray[np.int64]) -> None:
            self._evaluate(labels, self._W[:, labels].T @ self.D, again)

        self._threads.map(evaluate_group, self._groups)
        quadratic = 0.5 * float(np.vdot(self.D, self.D)) + self._quadratic_intercepts()
        return float(self.losses.sum()) + quadratic, float(self.linear.sum()) - quadratic

    def sweep(self, goal: float, seed: int) -> None:
        first, n_labels = 0.0, len(self.gaps)
        open_ = np.flatnonzero(self.gaps > goal)
        groups = [open_[k : k + GROUP] for k in range(0, len(open_), GROUP)]
        # If many variables are not at their bounds, another evaluation is cheaper than another round.
        for turn in range(ROUNDS if self.n_open < MANY * self.at.alpha.size else 1):
            gain = sum(self._visit_group(labels, goal, seed + turn * n_labels) for labels in groups)
            first = first if turn else gain
            if gain <= 0.1 * first:
                break

    def _visit_group(self, labels: NDArray[np.int64], goal: float, seed: int) -> float:
        S = self._W[:, labels].T @ self._W[:, labels]
        Z = self._products(labels)
        moved = np.zeros_like(Z)
        gain = 0.0
        for k, label in enumerate(labels):
            z = Z[k] + S[k] @ moved
            before = z.copy()
            gain += self._visit(int(label), float(S[k, k]), z, COUPLED_SWEEPS, goal, seed)
            if S[k, k] > 0:
                moved[k] = (z - before) / S[k, k]
        self._add(labels, moved)
        return gain

    def _products(self, labels: NDArray[np.int64]) -> Matrix:
        W = self._W[:, labels].T
        return np.hstack(self._threads.map(lambda part: W @ self.D[:, part], self._columns))

    def _add(self, labels: NDArray[np.int64], sums: Matrix) -> None:
        W = self._W[:, labels]

        def add(part: slice) -> None:
            self.D[:, part] += W @ sums[:, part]

        self._threads.map(add, self._columns)
