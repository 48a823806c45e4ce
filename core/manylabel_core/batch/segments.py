"""A long fit cut into segments, so that it can be interrupted and continued, with the same result bit by bit.

A batch learner with `warm_start` continues where its last fit was stopped. The interruption may change the last bits of
the result (the solver restarts its visits of the examples), so a fit that may be interrupted is always cut. The cuts
follow from the data and from counts of iterations alone, never from time: with or without an interruption between two
segments, the fit goes through the same segments.

Each segment is longer than the one before. So a learner that loses something at each start, as MLRL its model of
the optimum, gets its time in the end; and the first segment is long enough for most fits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from manylabel_core.checks import is_sparse
from manylabel_core.solvers import Progress, ProgressCallback

GROWTH = 1.25
"""Growth factor of the length of segments."""
SEGMENT_WORK = 2e9
"""Multiplications in the first segment, roughly: some seconds."""
LEAST = 5
"""Minimum iterations of the first segment, for a learner that loses something when it resumes."""
ONLY_TO_GO_ON = ("alpha_", "beta_", "joint_coef_")
"""Attributes that estimators have with `warm_start` only."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Progress of a fit in segments: segments, iterations and seconds so far."""

    segments: int = 0
    iterations: int = 0
    seconds: float = 0.0


def fit_in_segments(
    estimator: Any,
    fit: Callable[[ProgressCallback], object],
    first: int,
    *,
    reached: Reached | None = None,
    progress: ProgressCallback | None = None,
    checkpoint: Callable[[Reached], None] | None = None,
) -> Reached:
    """Fit an estimator, segment by segment.

    Parameters
    ----------
    estimator : batch learner
        With `max_iter` for the whole fit. To continue, the one that was there at a checkpoint.
    fit : callable
        Fits the estimator with the progress callback that it is given.
    first : int
        Iterations of the first segment; see `first_segment`.
    reached : Reached, optional
        Progress at that checkpoint.
    progress : callable, optional
        The callback of the estimator's `fit`, with iterations and seconds counted from the very beginning. Its result
        is ignored.
    checkpoint : callable, optional
        Called between two segments; what the estimator is now, as bytes, is enough to continue.

    Returns
    -------
    Reached
        At the end of the fit.
    """
    at, most = reached or Reached(), int(estimator.max_iter)
    estimator.set_params(warm_start=True)
    try:
        while True:
            segment = _Segment(at, ceil(first * GROWTH**at.segments), progress)
            estimator.set_params(max_iter=max(1, most - at.iterations))
            fit(segment.tell)
            at = segment.reached()
            estimator.set_params(max_iter=most)
            if not segment.stopped or at.iterations >= most:
                _finish(estimator, at)
                return at
            if checkpoint is not None:
                checkpoint(at)
    finally:
        estimator.set_params(max_iter=most, warm_start=False)


def _finish(estimator: Any, at: Reached) -> None:
    """Remove the data needed only to resume, as after an undivided fit."""
    estimator.n_iter_ = at.iterations
    for name in ONLY_TO_GO_ON:
        if hasattr(estimator, name):
            delattr(estimator, name)


def first_segment(
    X: Any,
    n_labels: int,
    *,
    kernel: str = "linear",
    passes: int = 1,
    least: int = LEAST,
    work: float = SEGMENT_WORK,
) -> int:
    """Return how many iterations the first segment should have.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features), or a list of such views
    n_labels : int
    kernel : str
        "linear", or another one: then an iteration works on all pairs of examples.
    passes : int
        Over the examples in an iteration, roughly.
    least : int
        Iterations at least: a learner that loses nothing when it continues needs only one.
    work : float
        Multiplications in the segment, roughly.
    """
    views = X if isinstance(X, list) else [X]
    size = sum(int(view.nnz) if is_sparse(view) else int(np.prod(view.shape)) for view in views)
    if kernel != "linear":
        size = views[0].shape[0] ** 2
    return max(least, ceil(work / max(1, size * n_labels * passes)))


class _Segment:
    """Progress of the whole fit, which is interrupted at the end of the segment."""

    def __init__(self, before: Reached, length: int, progress: ProgressCallback | None) -> None:
        self._before, self._length, self._progress = before, length, progress
        self._start = time.perf_counter()
        self._iteration = 0
        self.stopped = False

    def tell(self, at: Progress) -> bool:
        if at.fold:  # progress of the tuning of thresholds, which runs after the last segment
            if self._progress is not None:
                self._progress(at)
            return False
        self._iteration = at.iteration
        self.stopped = self.stopped or at.iteration >= self._length
        if self._progress is not None:
            here = self.reached()
            self._progress(Progress(here.iterations, at.objective, at.gap, at.active, here.seconds))
        return self.stopped

    def reached(self) -> Reached:
        seconds = self._before.seconds + time.perf_counter() - self._start
        return Reached(self._before.segments + 1, self._before.iterations + self._iteration, seconds)
