"""Progress callbacks of a fit, which can also stop it early."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from manylabel_core.batch.decisions.learner import warn_of_convergence
from manylabel_core.solvers import Progress, ProgressCallback


class Reporter:
    """Adapter between the optional callback of a caller and the solvers.

    A fit that calls a solver once passes it `solver`. A fit that calls solvers repeatedly passes them `half_step`, and
    reports its overall progress with `reached`. `stopped` is true once the caller has requested the end.
    """

    def __init__(self, callback: ProgressCallback | None, iteration: int = 1) -> None:
        self._callback = callback
        self._start = time.perf_counter()
        self._active = 1.0
        self._last = (iteration, math.inf, math.inf)
        self.stopped = False

    @property
    def solver(self) -> Callable[[Progress], bool] | None:
        return self._tell if self._callback is not None else None

    @property
    def half_step(self) -> Callable[[Progress], bool] | None:
        return self._within if self._callback is not None else None

    def reached(self, iteration: int, objective: float, gap: float) -> None:
        """Report the overall progress, and store it for the reports of solvers."""
        self._last = (iteration, objective, gap)
        if self._callback is not None:
            self._tell(Progress(*self._last, self._active, time.perf_counter() - self._start))

    def _within(self, solver: Progress) -> bool:
        self._active = solver.active
        return self._tell(Progress(*self._last, self._active, time.perf_counter() - self._start))

    def _tell(self, progress: Progress) -> bool:
        if self._callback is not None and self._callback(progress):
            self.stopped = True
        return self.stopped


def warn_not_converged(max_iter: int, gap: float) -> None:
    warn_of_convergence(
        f"not converged in max_iter={max_iter} iterations: the relative duality gap is {gap:.2g}", stacklevel=6
    )
