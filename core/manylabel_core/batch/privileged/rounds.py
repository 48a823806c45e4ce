"""PrML's rounds: an SVM for each label, then rounds that split the weights again and fit the dictionary.

With the coefficients W fixed, Eq. (29) of docs/mathematics.md has a dual that `solve_privileged_dual` solves with S =
W'W. With the weights Z fixed, the best W is known in closed form (`leading`). All these duals have the same variables,
so each one starts from the result of the previous one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.privileged.factors import Factors, leading
from manylabel_core.solvers import Privileged, PrivilegedResult, Progress, solve_privileged_dual
from manylabel_core.solvers.privileged.dual import Variables

Matrix = NDArray[np.float64]

START_TOL = 0.1
"""Relative gap of the initial SVMs, whose weights give the first split."""


class Settings(NamedTuple):
    """Parameters of `PrML` that the rounds need."""

    rank: int
    gamma1: float
    rounds: int
    tol: float
    max_iter: int
    n_threads: int
    seed: int


@dataclass
class Reached:
    """State that a fit has reached."""

    at: Variables  # dual variables and privileged weights
    Z: Matrix  # (n_labels, n_features)
    intercept: NDArray[np.float64]
    factors: Factors | None = None  # D and W with Z = W'D; None before the first round
    round_: int = 0  # current round; 0 before the first
    n_iter: int = 0  # passes of the solver, including those before a resumption
    trace: list[float] = field(default_factory=list)  # objective after every split and every solution of a round
    objective: float = np.inf  # (29)
    gap: float = np.inf  # relative duality gap of the current problem
    converged: bool = False  # whether all rounds have ended
    stopped: bool = False  # whether the caller ended the fit


class Rounds:
    """Rounds of one fit to X, (n_samples, n_features), float64. `progress` is called with a `Progress` after each pass,
    and ends the fit by returning True.
    """

    def __init__(
        self, X: Any, problem: Privileged, settings: Settings, progress: Callable[[Progress], bool] | None
    ) -> None:
        self._X = X
        self._problem = problem
        self._settings = settings
        self._progress = progress
        self._passes = 0

    def start(self, at: Variables | None = None) -> Reached:
        """Return the initial state, optionally from the variables of another problem."""
        n_labels = len(self._problem.task.Y)
        weights = np.zeros((n_labels, self._X.shape[1]))
        return Reached(self._problem.start(at), weights, np.zeros(n_labels))

    def resumed(self, known: Reached) -> Reached:
        """Return the state in which another fit ended; if its problem was different, only its variables are used."""
        if known.factors is not None:
            # Factors of another problem may lack directions that no later round restores.
            objective = self._objective(known.factors, known.intercept, known.at.known)
            if not np.isclose(objective, known.objective, rtol=1e-9, atol=0.0):
                return self.start(known.at)
        ended = known.round_ >= self._settings.rounds and known.gap <= self._settings.tol
        return replace(known, converged=ended)

    def run(self, here: Reached) -> Reached:
        """Run until all rounds have ended, the passes are used up, or the caller stops the run."""
        while not here.converged:
            result, here = self._solved(here)
            last = here.round_ == self._settings.rounds
            if result.converged and here.round_ and len(here.trace) < 2 * here.round_:
                here.trace.append(here.objective)
            here.converged = result.converged and last
            if here.stopped or here.converged or not result.converged:
                break
            here = self._split(here)
        return here

    def _solved(self, here: Reached) -> tuple[PrivilegedResult, Reached]:
        """Solve the problem of the current round."""
        settings, before = self._settings, self._passes
        stopped = False

        def tell(now: Progress) -> bool:
            nonlocal stopped
            assert self._progress is not None
            stopped = self._progress(replace(now, iteration=before + now.iteration))
            return stopped

        result = solve_privileged_dual(
            self._X,
            self._problem,
            W=None if here.factors is None else here.factors.W,
            start=here.at,
            weights=here.Z if here.factors is None else here.factors.D,
            done=here.n_iter,
            tol=settings.tol if here.factors is not None else max(START_TOL, settings.tol),
            max_iter=settings.max_iter - before,
            n_threads=settings.n_threads,
            seed=settings.seed,
            progress=None if self._progress is None else tell,
        )
        self._passes += result.n_iter - here.n_iter
        factors, objective = here.factors, result.primal
        if factors is not None:
            assert result.D is not None
            factors = Factors(result.D, factors.W)
            objective += 0.5 * settings.gamma1 * float(np.vdot(factors.W, factors.W))
        reached = Reached(
            result.at,
            result.Z,
            result.intercept,
            factors,
            here.round_,
            result.n_iter,
            here.trace,
            objective,
            result.gap,
        )
        reached.stopped = stopped
        return result, reached

    def _split(self, here: Reached) -> Reached:
        """Return the state at the start of a round, with the cheapest factors of the weights."""
        factors = leading(here.Z, self._settings.rank, self._settings.gamma1)
        objective = self._objective(factors, here.intercept, here.at.known)
        after = replace(here, factors=factors, round_=here.round_ + 1, objective=objective)
        after.trace = [*here.trace, objective]
        return after

    def _objective(self, factors: Factors, intercept: NDArray[np.float64], known: Matrix) -> float:
        """Evaluate (29) at privileged weights lifted to feasibility."""

        def scores(labels: slice) -> Matrix:
            Z = factors.W[:, labels].T @ factors.D
            return np.ascontiguousarray((self._X @ Z.T).T) + intercept[labels, None]

        squared = self._problem.task.intercept
        intercepts = 0.5 * float(intercept @ intercept) / squared if squared else 0.0
        losses = self._problem.losses(scores, known.copy())
        return factors.cost(self._settings.gamma1) + intercepts + float(losses.sum())
