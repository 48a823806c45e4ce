"""Long fits in segments: a fit can be interrupted and resumed with a result that is identical bit for bit.

A batch learner with `warm_start` resumes where its last fit was stopped. The interruption may change the last bits of
the result (the solver restarts its visits of the examples), so a fit that may be interrupted always has segments. Their
lengths follow from the data and from counts of iterations, never from time.

Each segment is longer than the previous one. So even a learner that loses information at each start (MLRL loses its
model of the optimum) eventually converges. The first segment is long enough for most fits.
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
"""Approximate number of multiplications in the first segment; they take some seconds."""
LEAST = 5
"""Minimum iterations of the first segment, for a learner that loses information when it resumes."""
ONLY_TO_GO_ON = ("alpha_", "beta_", "joint_coef_")
"""Attributes that estimators have only with `warm_start`."""


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
        Its `max_iter` counts for the whole fit. To resume, pass the estimator of a checkpoint.
    fit : callable
        Fits the estimator with a progress callback.
    first : int
        Iterations of the first segment; see `first_segment`.
    reached : Reached, optional
        Progress at the checkpoint.
    progress : callable, optional
        Callback of `fit`, with iterations and seconds since the start of the whole fit. Its result is ignored.
    checkpoint : callable, optional
        Called between segments. The bytes of the estimator at this time suffice to resume.
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
    """Remove the data that only a resumption needs, as an undivided fit does."""
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
    """Return the number of iterations of the first segment.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features), or a list of such views
    kernel : str
        Unless it is "linear", an iteration processes all pairs of examples.
    passes : int
        Approximate passes over the examples per iteration.
    least : int
        Minimum number of iterations; 1 suffices for a learner that loses nothing when it resumes.
    work : float
        Approximate number of multiplications in the segment.
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
