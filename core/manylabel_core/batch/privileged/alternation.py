"""PrML's alternation: coefficients W for a dictionary D, a dictionary for the coefficients.

Both halves are SVM+ duals of the same variables (`privileged_dual`), so each one starts where the other has ended. A
half solves its problem to a relative gap, not to the end: what it gives counts, label by label in the W-step, only if
it lowers the objective. After each round D and W are replaced by the cheapest factors with the same product: the paper
has no such step, without which the alternation takes many rounds to move what one factor has too much of to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.base.reporting import Reporter
from manylabel_core.batch.privileged.factors import Factors, leading
from manylabel_core.solvers import Privileged, PrivilegedResult, solve_privileged_dual
from manylabel_core.solvers.privileged.dual import Variables

Matrix = NDArray[np.float64]

START_TOL = 0.1
"""How precisely the machines are solved whose weights are the start."""
SEEDS = 7
"""Seeds that a round takes."""
MAX_PASSES = 1000


class Settings(NamedTuple):
    """The alternation has these parameters of `PrML`."""

    rank: int
    gamma1: float
    tol: float
    max_iter: int
    n_threads: int
    seed: int


@dataclass
class FactorsState:
    """The state of an alternation holds what it has reached after a number of whole rounds.

    Attributes
    ----------
    factors, at : the model, the dual variables and privileged weights
    objective : of them
    gap : the larger one of the relative gaps of the last two halves
    trace : the objective at the start and after every half and every new split, taken or not; three for each round
    n_iter : number of rounds, those before a resumption included
    stopped, converged : whether the caller ended it; whether it is at its end
    """

    factors: Factors
    at: Variables
    objective: float
    gap: float = np.inf
    trace: list[float] = field(default_factory=list)
    n_iter: int = 0
    stopped: bool = False
    converged: bool = False


class Alternation:
    """An alternation is one run of the fit.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_samples, n_features), float64
        With a constant feature.
    problem : Privileged
    settings : Settings
    report : Reporter
    """

    def __init__(self, X: Any, problem: Privileged, settings: Settings, report: Reporter) -> None:
        self.X = X
        self.problem = problem
        self.settings = settings
        self.report = report

    def start(self, at: Variables | None = None) -> FactorsState:
        """Return the leading singular vectors of the weights of independent machines, roughly solved."""
        result = self._solve(self.X, START_TOL, 0, start=at)
        factors = leading(result.Z, self.settings.rank, self.settings.gamma1)
        at = result.at
        return self._told(FactorsState(factors, at, self._objective(factors, at)))

    def resume(self, factors: Factors, at: Variables, trace: list[float], gap: float) -> FactorsState:
        """Return where another run ended; its rounds count if it was one on the same problem."""
        at = self.problem.start(at)
        reached = FactorsState(factors, at, self._objective(factors, at), gap, trace, (len(trace) - 1) // 3)
        if not trace or min(trace[-3:]) != reached.objective:
            return self.start(at)  # of another problem's factors, directions may be lost for good
        reached.converged = self._has_converged(reached)
        return reached

    def run(self, at: FactorsState) -> FactorsState:
        """Run whole rounds, until one has lowered the objective by less than tol."""
        before = at.n_iter
        while not (at.converged or self.report.stopped) and at.n_iter - before < self.settings.max_iter:
            after = self._round(at)
            if self.report.stopped:
                break
            at = after
            self.report.reached(at.n_iter - before, at.objective, at.gap)
        at.stopped = self.report.stopped
        return at

    def _told(self, at: FactorsState) -> FactorsState:
        at.trace.append(at.objective)
        return at

    def _has_converged(self, at: FactorsState) -> bool:
        """Return whether the last round has lowered the objective too little: each ended at the least of its values."""
        if at.n_iter == 0:
            return False
        before, now = min(at.trace[-6:-3]), min(at.trace[-3:])
        return before - now <= self.settings.tol * abs(now)

    def _round(self, at: FactorsState) -> FactorsState:
        trace, seed = list(at.trace), 1 + SEEDS * at.n_iter
        factors, variables, W_gap = self._coefficients(at.factors, at.at, seed)
        trace.append(self._objective(factors, variables))
        if self.report.stopped:
            return at
        factors, variables, objective, D_gap = self._dictionary(factors, variables, trace, seed + 1)
        factors, variables, objective = self._split(factors, variables, objective, trace)
        after = FactorsState(factors, variables, objective, max(W_gap, D_gap), trace, at.n_iter + 1)
        after.converged = self._has_converged(after)
        return after

    def _coefficients(self, before: Factors, at: Variables, seed: int) -> tuple[Factors, Variables, float]:
        """Take the W-step: keep for each label the better one of what it had and what the solver gives."""
        U = np.ascontiguousarray(self.X @ before.D.T)
        known = at.known.copy()
        had = self._label_costs(before, known)
        gamma1 = self.settings.gamma1
        result = self._solve(U, self.settings.tol, seed, scale=1.0 / gamma1, start=at)
        W = np.ascontiguousarray(result.Z.T)
        has = result.losses + 0.5 * gamma1 * np.einsum("kl,kl->l", W, W)
        worse = had < has
        W[:, worse] = before.W[:, worse]
        result.at.known[worse] = known[worse]
        return Factors(before.D, W), result.at, result.gap

    def _dictionary(
        self, before: Factors, at: Variables, trace: list[float], seed: int
    ) -> tuple[Factors, Variables, float, float]:
        """Take the D-step, unless it raises the objective of the W-step, the last of the trace."""
        result = self._solve(self.X, self.settings.tol, seed, W=before.W, start=at)
        assert result.D is not None
        after = Factors(result.D, before.W)
        objective, found = trace[-1], self._objective(after, result.at)
        trace.append(found)
        if found <= objective:
            return after, result.at, found, result.gap
        return before, Variables(result.at.alpha, result.at.beta, at.known), objective, result.gap

    def _split(
        self, before: Factors, at: Variables, objective: float, trace: list[float]
    ) -> tuple[Factors, Variables, float]:
        """Return the cheapest factors with the same product, unless they raise the objective."""
        after = leading(before.product(), self.settings.rank, self.settings.gamma1)
        known = at.known.copy()
        found = self._objective(after, at._replace(known=known))
        trace.append(found)
        if found <= objective:
            return after, at._replace(known=known), found
        return before, at, objective

    def _solve(self, X: Any, tol: float, seed: int, **options: Any) -> PrivilegedResult:
        told: Callable[[Any], bool] | None = self.report.half_step
        return solve_privileged_dual(
            X,
            self.problem,
            tol=tol,
            max_iter=MAX_PASSES,
            n_threads=self.settings.n_threads,
            seed=self.settings.seed + seed,
            progress=told,
            **options,
        )

    def _objective(self, factors: Factors, at: Variables) -> float:
        """Evaluate the problem (5), with the second slack: at privileged weights that may be lifted a little."""
        return factors.cost(self.settings.gamma1) + float(self._losses(factors, at.known).sum())

    def _label_costs(self, factors: Factors, known: Matrix) -> NDArray[np.float64]:
        squares = np.einsum("kl,kl->l", factors.W, factors.W)
        return np.asarray(self._losses(factors, known) + 0.5 * self.settings.gamma1 * squares)

    def _losses(self, factors: Factors, known: Matrix) -> NDArray[np.float64]:
        def scores(labels: slice) -> Matrix:
            Z = factors.W[:, labels].T @ factors.D
            return np.ascontiguousarray((self.X @ Z.T).T)

        return self.problem.losses(scores, known)
