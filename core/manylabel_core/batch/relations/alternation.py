"""MLRL's alternation: weights for a label covariance, then a label covariance for the weights.

Problem (6) of the paper, Eq. (25) of docs/mathematics.md, is jointly convex, so every start leads to the same optimum.
The dual, Eq. (27), gives a lower bound for every feasible point: a duality gap for the whole problem.

The paper alternates between the best weights for Omega and the best Omega for the weights. This never raises the
objective, but it is slow where many hinges are at their kinks, and it cannot restore a relation once lost. So the
covariance for the next weights comes from a model of the optimum (`LowerModel`). The round counts only if the weights
lower the objective (a serious step of a bundle method; the others are null steps). Then the best covariance for the
weights follows, Eq. (26). Weights are computed only as precisely as the gap requires.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.base.problem import Problem
from manylabel_core.batch.base.reporting import Reporter
from manylabel_core.batch.relations.covariance import best_covariance
from manylabel_core.batch.relations.lower_model import LowerModel
from manylabel_core.solvers import DualResult, ProgressCallback

Matrix = NDArray[np.float64]

FIRST_TOL = 1e-2  # precision of the weights while the covariance is far from its optimum
PRECISE = 0.2  # precision of the requested weights, as a share of the gap or of the expected gain
SHARE = 0.25  # minimum variance of every direction, as a share of the mean
LEAST = 1e-6  # variance added to every direction, as a share of the mean
HOPELESS, PATIENCE = 0.2, 5  # stop after `PATIENCE` rounds whose predicted gain is below `HOPELESS * tol`
BOUND_EVERY = 3  # rounds between two computations of the best bound, which costs as much as the weights of many labels
MOST = 0.5  # share of the gap above which the weights are refined at once
FINEST = 1e-2  # highest precision of the requested weights, as a share of tol
FIRST_STEP, LONGEST, SHORTEST = 2.0, 200.0, 0.3  # step sizes of the covariance
LONGER, SHORTER = 1.5, 0.7  # factors of the step size after an accepted and a rejected round
WEIGHTLESS = 1e-14  # share of the objective below which weights count as 0
SOLVER_SWEEPS = 1_000  # sweeps per call; with badly scaled features every round uses all of them


@dataclass
class RelationsState:
    """State of an alternation."""

    covariance: Matrix  # best covariance for the weights
    result: DualResult | None = None  # weights: the result of the solver
    S: Matrix | None = None  # the S of that result
    M: Matrix | None = None  # B'KB of that result
    eps: float = 0.0
    objective: float = math.inf  # (6), for weights and covariance
    bound: float = -math.inf  # largest known lower bound on (6)
    hope: float = math.inf  # predicted relative gain of the next round
    hopeless: int = 0  # rounds with hardly any predicted gain
    trace: list[float] = field(default_factory=list)  # (6) after every half-step, accepted or not
    n_iter: int = 0  # rounds
    stopped: bool = False  # whether the caller ended it
    converged: bool = False  # whether the run has ended without the caller

    @property
    def gap(self) -> float:
        """Return the relative duality gap of the whole problem."""
        if self.result is None:
            return math.inf
        apart = max(0.0, self.objective - self.bound)
        return apart / abs(self.objective) if apart else 0.0


class Alternation:
    """One run of the alternating fit of a problem with the equality constraint.

    `c` bounds the dual variables: a number for all examples, or an array with one for each.
    """

    def __init__(
        self, problem: Problem, lam: float, c: float | Matrix, tol: float, progress: ProgressCallback | None
    ) -> None:
        self.problem = problem
        self.lam = lam
        self.c = c
        self.tol = tol
        self.report = Reporter(progress)
        self.model = LowerModel(lam)
        self.inner_tol = max(FIRST_TOL, tol)

    def run(self, covariance: Matrix, alpha: Matrix | None, max_iter: int) -> RelationsState:
        """Alternate from a covariance, and optional dual variables, until the gap is at most tol."""
        at = RelationsState(covariance)
        trial, hoped, step = covariance, -math.inf, FIRST_STEP
        while at.n_iter < max_iter and not (at.converged or at.stopped):
            at.n_iter += 1
            earlier = (at.result.alpha, at.result.V) if at.result else (alpha, None)
            result, M = self._weights(at, trial / self.lam, *earlier)
            at.trace.append(float(result.primal))
            if counts := result.primal < at.objective:
                self._accept(at, result, trial / self.lam, M)
            coarse = not counts and PRECISE * (at.objective - hoped) <= result.absolute_gap
            self._sharpen(0.3 * self.inner_tol if coarse else PRECISE * at.gap)
            at.stopped = self.report.stopped
            at.converged = at.gap <= self.tol or self._weightless(result, trial / self.lam, M)
            if not (at.converged or at.stopped):
                step = min(step * LONGER, LONGEST) if counts else max(step * SHORTER, SHORTEST)
                trial, hoped = self._next(at, step)
        return at

    def _next(self, at: RelationsState, step: float) -> tuple[Matrix, float]:
        """Return the next proposal with its expected gain, and whether to try it."""
        assert at.M is not None
        if at.n_iter % BOUND_EVERY == 0 or at.hopeless >= PATIENCE - 1:
            at.bound = max(at.bound, self.model.bound(at.objective, at.bound))
        trial, hoped = self.model.trial(at.covariance, at.M, at.objective, step, max(LEAST, SHARE * min(1.0, at.gap)))
        at.hope = (at.objective - hoped) / abs(at.objective)
        at.hopeless = at.hopeless + 1 if at.hope <= HOPELESS * self.tol else 0
        at.converged = at.gap <= self.tol or at.hopeless >= PATIENCE
        return trial, hoped

    def _weights(
        self, at: RelationsState, S: Matrix, alpha: Matrix | None, V: Matrix | None
    ) -> tuple[DualResult, Matrix]:
        """Find weights for S and their M; increase the precision while the weights cause most of the gap."""
        while True:
            result = self.problem.solve(
                S,
                self.c,
                tol=self.inner_tol,
                max_iter=SOLVER_SWEEPS,
                alpha0=alpha,
                V0=V,
                progress=self.report.half_step,
            )
            M = self.problem.coupling(result)
            bound = max(at.bound, self.model.bound_with(float(result.alpha.sum()), M))
            objective = min(at.objective, result.primal)
            ended = self.inner_tol <= FINEST * self.tol or not result.converged
            if ended or result.absolute_gap <= MOST * (objective - bound):
                break
            alpha, V = result.alpha, result.V
            self._sharpen(PRECISE * (objective - bound) / abs(objective))
        self.model.add(float(result.alpha.sum()), M)
        at.bound = bound
        return result, M

    def _accept(self, at: RelationsState, result: DualResult, S: Matrix, M: Matrix) -> None:
        """Accept weights, and the best covariance for them."""
        at.result, at.S, at.M = result, S, M
        at.covariance, at.eps, at.objective = S * self.lam, 0.0, float(result.primal)
        if not self._weightless(result, S, M):
            best = best_covariance(S @ M @ S)
            saved = 0.5 * float(np.sum(S * M)) - 0.5 * self.lam * best.cost
            at.trace.append(at.objective - saved)
            if saved >= 0:  # near the optimum, eps may cost more than the step saves
                at.covariance, at.eps, at.objective = best.covariance, best.eps, at.trace[-1]
        self.report.reached(at.n_iter, at.objective, at.gap)

    @staticmethod
    def _weightless(result: DualResult, S: Matrix, M: Matrix) -> bool:
        """Return whether the weights are negligible, so that their relations are undefined."""
        return float(np.sum(S * M)) <= WEIGHTLESS * abs(result.primal)

    def _sharpen(self, wanted: float) -> None:
        """Request weights of a precision if the present ones are less precise and the cost is worthwhile."""
        self.inner_tol = max(min(self.inner_tol, wanted), FINEST * self.tol)
