"""The loop of all dual solvers: passes over blocks of points in a random order, until the duality gap is small."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manylabel_core.solvers.coupled.problem import Task
from manylabel_core.solvers.coupled.side import Side
from manylabel_core.solvers.inputs import Control
from manylabel_core.solvers.result import TINY, DualResult, Progress, ProgressCallback
from manylabel_core.solvers.workers import Workers

QUIET = 1e-3
"""A point whose share of the gap is below this many times the mean share is omitted from the next pass."""
RESOLUTION = 1e-6
"""Smallest gap per variable, relative to the mean c, that single precision resolves: scores near 1 are rounded to about
1e-7."""
HALF = 0.5
"""Labels are solved to this share of the requested gap; the rest is for pairs that are not yet active."""
CHECKED = frozenset(2**power for power in range(3, 31))
"""Number of passes after which the solver checks whether rounding keeps the gap large."""
ALONE = 256
"""Maximum number of active points that form one block, for any solver: the block is solved within the cache."""


AnySide = TypeVar("AnySide", bound=Side)


def precisions(dtype: DTypeLike) -> list[np.dtype[Any]]:
    """Return the precisions to use in turn; double-precision data needs only double precision."""
    return [np.dtype(kind) for kind in ((np.float32, np.float64) if dtype == np.float32 else (np.float64,))]


class Loop(Generic[AnySide]):
    """Passes over the points of several sides, with a report after each.

    Parameters
    ----------
    make_sides : callable
        Makes sides with some precision from B, which it may store without a copy. All sides have the same points, and
        each has separate labels.
    dtypes : list of dtype
        Precisions in the order of use. The next one is used when the requested gap is below the resolution of the
        current one.
    start : ndarray of shape (n_samples, n_labels), float64
        B.
    """

    def __init__(
        self,
        make_sides: Callable[[np.dtype[Any], NDArray[np.float64]], Sequence[AnySide]],
        dtypes: list[np.dtype[Any]],
        start: NDArray[np.float64],
        control: Control,
        progress: ProgressCallback | None,
        workers: Workers,
    ) -> None:
        self._start = time.perf_counter()
        self._make_sides = make_sides
        self._finer = dtypes[1:]
        self.sides = make_sides(dtypes[0], start)
        self.control = control
        self.progress = progress
        self.workers = workers
        self.trace: list[Progress] = []
        self.converged = False
        self._rng = np.random.default_rng(control.seed)

    def run(self) -> None:
        """Iterate until the gap is small, the caller stops it, or the passes are used up."""
        for iteration in range(self.control.max_iter + 1):
            last = iteration == self.control.max_iter
            active = self._account(iteration, last)
            self.converged = self._is_small()
            stopped = self._report(iteration)
            if self.converged or last:
                return
            if stopped:
                self._refreshed()
                return
            self._sweep(active)

    def variables(self) -> NDArray[np.float64]:
        """Return B, (n_samples, n_labels)."""
        return joined([side.B for side in self.sides])

    def result(self, bias: NDArray[np.float64], **model: NDArray[np.float64] | None) -> DualResult:
        """Return the result with the biases and the model (`F` or `Z`) of the sides, which are consumed."""
        alpha = self.variables()
        return DualResult(
            alpha=np.abs(alpha, out=alpha),
            bias=bias,
            primal=self.primal,
            dual=self.dual,
            n_iter=self.trace[-1].iteration,
            converged=self.converged,
            trace=self.trace,
            **model,
        )

    def _account(self, iteration: int, last: bool) -> NDArray[np.int64]:
        """Find the objectives, the gap, and the points for the next pass; the final pass is evaluated in the highest
        precision.
        """
        active = self._evaluate()
        while self._finer and (self._is_fine() or self._is_rounded(last or iteration in CHECKED)):
            self.sides = self._make_sides(self._finer.pop(0), self.variables())
            active = self._evaluate()
        if (last or self._is_small()) and self._refreshed():
            active = self._evaluate()
        return active

    def _evaluate(self) -> NDArray[np.int64]:
        shares = np.zeros((len(self.sides), len(self.sides[0].B)))
        values = self.workers.map(lambda k: self.sides[k].evaluate(shares[k]), range(len(self.sides)))
        gap, self.dual, n_open = (sum(column) for column in zip(*values, strict=True))
        self.primal = self.dual + gap
        self._open = n_open / sum(side.B.size for side in self.sides)
        total = shares.sum(axis=0)
        return np.flatnonzero(total > QUIET * total.mean())

    def _is_small(self) -> bool:
        return bool(self.primal - self.dual <= self.control.tol * max(abs(self.primal), TINY))

    def _is_fine(self) -> bool:
        """Return whether the requested gap is too small for single precision."""
        n_variables = sum(side.B.size for side in self.sides)
        return bool(self.control.tol * abs(self.primal) < RESOLUTION * self.sides[0].task.mean_c * n_variables)

    def _is_rounded(self, now: bool) -> bool:
        """Return whether the rounding of the data, which the gap includes, is a large part of the requested gap."""
        if not (now or self._is_small()):
            return False
        rounding = sum(self.workers.map(lambda side: side.rounding(), self.sides))
        self.primal += rounding
        return not rounding <= HALF * self.control.tol * abs(self.primal)  # it may be NaN

    def _refreshed(self) -> bool:
        return any(self.workers.map(lambda side: side.refresh(), self.sides))

    def _report(self, iteration: int) -> bool:
        gap = (self.primal - self.dual) / max(abs(self.primal), TINY)
        self.trace.append(Progress(iteration, self.dual, gap, self._open, time.perf_counter() - self._start))
        return bool(self.progress is not None and self.progress(self.trace[-1]))

    def _sweep(self, active: NDArray[np.int64]) -> None:
        """Make one pass over the active points; with the equality, first over the most violating pair of each label."""
        order = self._rng.permutation(active)
        seed = int(self._rng.integers(2**63))
        n_labels = sum(side.B.shape[1] for side in self.sides)
        for side in self.sides:
            side.goal = HALF * self.control.tol * abs(self.primal) / n_labels
        self.workers.map(lambda side: side.sweep(*_blocks(side, order), seed), self.sides)


def sides_by_thread(
    make: Callable[[Task, NDArray[np.float64], Workers], AnySide],
    task: Task,
    B: NDArray[np.float64],
    threads: Workers,
    together: bool,
) -> list[AnySide]:
    """Return one side with all threads, or one side per thread if labels can be separated."""
    if together:
        return [make(task, B, threads)]
    alone, parts = Workers(None, 1), threads.parts(B.shape[1])
    return [make(task.labels(part), np.ascontiguousarray(B[:, part]), alone) for part in parts]


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return columns of several sides side by side; not copied if there is only one."""
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def _blocks(side: Side, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return points in the order of the pass, and the starts of its blocks, followed by the end.

    With the equality, both points of the most violating pair of a label are in one of the first blocks, which
    guarantees progress.
    """
    number = 1 if len(order) <= ALONE else -(-len(order) // side.block_size)
    starts = np.arange(number + 1, dtype=np.int64) * len(order) // number
    if not side.task.equality:
        return order, starts
    worst = side.pairs[side.pairs[:, 0] >= 0]
    together = np.union1d(order, worst)
    if len(together) <= ALONE:
        return together, np.array([0, len(together)])
    step = max(1, side.block_size // 2)
    heads = [np.unique(worst[first : first + step]) for first in range(0, len(worst), step)]
    ends = np.cumsum([0, *map(len, heads)])
    return np.concatenate([*heads, order]), np.concatenate([ends, ends[-1] + starts[1:]])
