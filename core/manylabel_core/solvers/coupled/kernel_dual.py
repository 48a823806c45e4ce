"""The coupled dual for a Gram matrix, or for rows of a Gram matrix that does not fit in memory."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.solvers._shuffle import random_state
from manylabel_core.solvers.coupled._block import solve_block
from manylabel_core.solvers.coupled.gram_rows import CheckedRows, RowSource, StoredGram, as_row_source
from manylabel_core.solvers.coupled.loop import RESOLUTION, Loop, joined, precisions, sides_by_thread
from manylabel_core.solvers.coupled.problem import Task, make_task, start_from
from manylabel_core.solvers.coupled.side import Side
from manylabel_core.solvers.inputs import make_control
from manylabel_core.solvers.result import DualResult, ProgressCallback
from manylabel_core.solvers.workers import Workers, workers

BLOCK = 256
"""Points solved at a time: their kernel values stay in the second-level cache."""


def solve_kernel_dual(
    K: NDArray[Any] | RowSource | StoredGram,
    Y: ArrayLike,
    S: ArrayLike,
    c: float | ArrayLike,
    *,
    equality: bool = False,
    tol: float = 1e-3,
    max_iter: int = 1000,
    alpha0: ArrayLike | None = None,
    progress: ProgressCallback | None = None,
    n_threads: int = 1,
    seed: int = 0,
) -> DualResult:
    """Solve the label-coupled dual (see `problem`) for a kernel.

    A pass visits the points that still have a share in the gap, in random blocks. It solves the dual of a block for all
    labels in cache, then updates the scores of all points by one matrix product.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), float32 or float64; or RowSource; or StoredGram Positive semi-definite.
        With float32 the solver works in single precision until the requested gap is below its resolution. With a
        StoredGram the kernel values are in single precision too, if their measured rounding is a small part of the
        requested gap. The rounding is part of the reported gap.
    Y, S, c, equality, tol, max_iter, alpha0, progress
        See `solve_linear_dual`, which also lists the errors.
    n_threads : int
        Threads: over labels if S is diagonal, otherwise over the points of the matrix product.
    seed : int
        See `solve_linear_dual`.

    Returns
    -------
    DualResult
        With `F`.
    """
    control = make_control(tol, max_iter, n_threads, seed)
    if isinstance(K, StoredGram) and control.tol < RESOLUTION:
        K.sharpen()
    source = as_row_source(K)
    task = make_task(Y, S, c, source.n, equality)
    with workers(control.n_threads) as threads:

        def make_sides(dtype: np.dtype[Any], B: NDArray[np.float64]) -> list[KernelSide]:
            rows = source
            if isinstance(K, StoredGram) and dtype == np.float64:
                K.sharpen()
                rows = as_row_source(K)
            return _sides(rows, task, threads, dtype, B)

        loop = Loop(make_sides, precisions(source.dtype), start_from(alpha0, task), control, progress, threads)
        loop.run()
        T = joined([side.gradient() for side in loop.sides])
        bias = np.concatenate([side.bias() for side in loop.sides])
    return loop.result(bias, F=np.subtract(task.Y, T, dtype=np.float64))


def _sides(
    source: CheckedRows, task: Task, threads: Workers, dtype: np.dtype[Any], B: NDArray[np.float64]
) -> list[KernelSide]:
    """Return one side per thread if labels are independent and rows are stored, otherwise a single side."""
    make = partial(KernelSide, source, dtype)
    return sides_by_thread(make, task, B, threads, together=task.coupled or not source.stored)


class KernelSide(Side):
    """Side that stores the gradient of its labels for all points; `dtype` is the precision of the work."""

    def __init__(
        self, rows: CheckedRows, dtype: np.dtype[Any], task: Task, B: NDArray[np.float64], threads: Workers
    ) -> None:
        super().__init__(task, B)
        self._rows = rows
        self._threads = threads
        self._dtype = dtype
        self._probe = rows.probe
        self.block_size = BLOCK
        self._T = task.Y.astype(dtype)
        moved = np.flatnonzero(B.any(axis=1))
        for first in range(0, len(moved), BLOCK):
            block = moved[first : first + BLOCK]
            self._subtract(rows.take(block, dtype), task.times_coupling(B[block].astype(dtype)))

    def gradient(self) -> NDArray[Any]:
        return self._T

    def sweep(self, points: NDArray[np.int64], starts: NDArray[np.int64], seed: int) -> None:
        state, sweeps = random_state(seed), self.sweeps(starts)
        for first, last in pairwise(starts):
            block = points[first:last]
            rows = self._rows.take(block, self._dtype)
            moves = np.empty((len(block), self.B.shape[1]), self._dtype)
            K = np.ascontiguousarray(rows[:, block])
            if solve_block(K, self._T[block], self.B, block, self.task, sweeps, state, moves):
                self._subtract(rows, self.task.times_coupling(moves))

    def rounding(self) -> float:
        if self._probe is None:
            return 0.0
        points, rows, weights = self._probe
        T = self.task.Y[points] - self.task.times_coupling(rows @ self.B)
        shares = self.task.c[points] / self.task.largest_c
        return float(self.task.largest_c * ((weights * shares) @ np.abs(T - self._T[points])).sum())

    def refresh(self) -> bool:
        return False  # a matrix product from B would have a rounding error as large as that of all steps together

    def _subtract(self, rows: NDArray[Any], M: NDArray[Any]) -> None:
        """Subtract `K M` from the gradient, for the rows of K of the points that M belongs to."""

        def part(points: slice) -> None:
            self._T[points] -= rows[:, points].T @ M

        self._threads.map(part, self._threads.parts(len(self._T)))
