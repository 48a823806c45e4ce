"""Alternation of LSA-MML between bases, label weights and the representation.

After every iteration the representation P is optimal for the other variables. The state therefore consists of the bases
and the weights of labels and views, and a resumed run gives the same result as an uninterrupted one. A basis that would
raise the objective is rejected. The other half-steps minimise the objective exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from manylabel_core.batch.base.reporting import Reporter
from manylabel_core.batch.views import steps
from manylabel_core.batch.views.block import Block, Matrix
from manylabel_core.batch.views.representation import Patterns, represent, view_factors

HALF_STEPS = 3
"""Half-steps of an iteration: bases, weights of labels, representation."""
SAME = 1e-12
"""Maximum relative rounding difference between two objectives of the same model and problem."""
LEAST_ERROR = 1e-15
"""Minimum error of a view, as a share of its energy: the error is a difference of sums, and smaller ones are rounding
errors.
"""


class Model(NamedTuple):
    """Model for predictions, from which a fit can resume."""

    bases: list[Matrix]  # (n_features of the view, n_components), by view
    W: Matrix  # (n_labels, n_components)
    alpha: Matrix  # (n_views,)


class Prices(NamedTuple):
    """Coefficients of the terms of the objective; `beta` is divided by the energy of the labels."""

    r: float
    beta: float
    gamma: float
    ridge: float


class Moments(NamedTuple):
    """Moments of P for the objective: `X'P` and `P'P` of views and of labels (last), and `|P|^2`."""

    crosses: list[Matrix]
    grams: list[Matrix]
    square: float


@dataclass
class ViewsState:
    """State of an alternation."""

    model: Model
    # objective at the start and after every half-step, including earlier runs
    trace: list[float] = field(default_factory=list)
    n_iter: int = 0  # iterations of this run; `total` includes earlier runs
    gap: float = float("inf")  # share by which the last iteration lowered the objective
    converged: bool = False
    stopped: bool = False  # whether the caller stopped the run

    @property
    def total(self) -> int:
        return (len(self.trace) - 1) // HALF_STEPS


class Alternation:
    """One run of the alternating fit."""

    def __init__(self, views: Sequence[Block], labels: Block, prices: Prices, reporter: Reporter) -> None:
        self.views = views
        self.labels = labels
        self.blocks = [*views, labels]
        self.prices = prices
        self.report = reporter
        self.n = labels.X.shape[0]
        self.counts = np.array([view.n_present for view in views], dtype=np.float64)
        self.shares = self.counts / self.n
        self.energies = [block.energy() for block in self.blocks]
        self.patterns = Patterns(self.blocks)

    def run(self, model: Model, trace: list[float], tol: float, max_iter: int) -> ViewsState:
        """Alternate from a model until an iteration lowers the objective by a share of at most tol."""
        at = ViewsState(model)
        moments = self.moments(self.representation(model))
        value = self.objective(model, moments)
        at.trace = [value]
        if trace and math.isclose(trace[-1], value, rel_tol=SAME):  # the same problem: its trace continues
            at.trace, at.gap = list(trace), _gap(trace)
        at.converged = at.gap <= tol
        while at.n_iter < max_iter and not (at.converged or at.stopped):
            moments = self._iterate(at, moments)
            at.gap = _gap(at.trace)
            at.converged = at.converged or at.gap <= tol
            self.report.reached(at.n_iter, at.trace[-1], at.gap)
            at.stopped = self.report.stopped
        return at

    def _iterate(self, at: ViewsState, moments: Moments) -> Moments:
        for step in (self._bases, self._weights):
            at.model = step(at.model, moments)
            at.trace.append(self.objective(at.model, moments))
        found = self.moments(self.representation(at.model))
        value = self.objective(at.model, found)
        at.converged = value > min(at.trace)  # P is the minimiser: only rounding can raise the objective
        at.trace.append(value)
        at.n_iter += 1
        return found

    def factors(self, alpha: Matrix) -> Matrix:
        return view_factors(alpha, self.shares, self.prices.r)

    def representation(self, model: Model) -> Matrix:
        """Return the optimal representation P, Eqs. (12) and (14)."""
        factors = [*self.factors(model.alpha), self.prices.beta]
        return represent(self.blocks, [*model.bases, model.W], factors, self.prices.ridge, self.patterns)

    def moments(self, P: Matrix) -> Moments:
        crosses = [block.cross(P) for block in self.blocks]
        shared = P.T @ P
        grams = [shared if block.present is None else block.gram(P) for block in self.blocks]
        return Moments(crosses, grams, float(np.trace(shared)))

    def objective(self, model: Model, moments: Moments) -> float:
        """Return the objective per row, Eq. (32) of docs/mathematics.md."""
        errors = self.errors(model, moments)
        prices = self.prices
        views = float(self.factors(model.alpha) @ (errors[:-1] + self.counts))
        labels = prices.beta * (errors[-1] + float(np.vdot(model.W, model.W)))
        together = steps.hsic([B.T @ B for B in model.bases])
        return float((views + labels + prices.ridge * moments.square) / self.n - prices.gamma * together)

    def errors(self, model: Model, moments: Moments) -> Matrix:
        """Return |X - P B'|^2 of every view, and of the labels."""
        found = [
            energy - 2.0 * float(np.vdot(B, cross)) + float(np.vdot(B.T @ B, gram))
            for B, energy, cross, gram in zip(
                [*model.bases, model.W], self.energies, moments.crosses, moments.grams, strict=True
            )
        ]
        return np.maximum(found, LEAST_ERROR * np.asarray(self.energies))

    def _bases(self, model: Model, moments: Moments) -> Model:
        bases = list(model.bases)
        for v in range(len(bases)):
            problem = self.basis_problem(v, bases, model.alpha, moments)
            trial = steps.basis(problem, bases[v])
            if problem.value(trial) < problem.value(bases[v]):
                bases[v] = trial
        return model._replace(bases=bases)

    def basis_problem(self, v: int, bases: Sequence[Matrix], alpha: Matrix, moments: Moments) -> steps.Quadratic:
        """Return the problem that view v's basis minimises, Eq. (15)."""
        factor = float(self.factors(alpha)[v]) / self.n
        others = [B.T @ B for w, B in enumerate(bases) if w != v]
        G = steps.pull(others, self.prices.gamma, bases[v].shape[1])
        least = float(np.linalg.eigvalsh(G)[-1])
        return steps.Quadratic(factor * moments.grams[v] - G, factor * moments.crosses[v], least)

    def _weights(self, model: Model, moments: Moments) -> Model:
        return model._replace(W=steps.weights(moments.grams[-1], moments.crosses[-1]))


def _gap(trace: Sequence[float]) -> float:
    """Return the share by which the last iteration lowered the minimum of the objective."""
    if len(trace) <= HALF_STEPS:
        return float("inf")
    before, now = min(trace[:-HALF_STEPS]), min(trace)
    return (before - now) / max(abs(now), np.finfo(np.float64).tiny)
