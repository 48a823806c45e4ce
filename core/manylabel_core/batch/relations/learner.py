"""Base of MLRL and SSMLRL: the alternation and its fitted attributes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.base.learner import BatchLearner
from manylabel_core.batch.base.problem import Problem
from manylabel_core.batch.base.reporting import warn_not_converged
from manylabel_core.batch.relations.alternation import Alternation, RelationsState
from manylabel_core.batch.relations.covariance import correlation
from manylabel_core.solvers import ProgressCallback


class RelationshipLearner(BatchLearner):
    """Learner that fits weights and the relations between labels."""

    label_covariance_: NDArray[np.float64]

    def _alternate(
        self,
        problem: Problem,
        lam: float,
        progress: ProgressCallback | None,
        weights: NDArray[np.float64] | None,
    ) -> None:
        """Run the alternation and store its result."""
        n_samples, n_labels = problem.signs.shape
        c = 1.0 / n_samples if weights is None else weights / weights.sum()
        alpha = self._start(problem.signs, c, equality=True)
        covariance = np.eye(n_labels) / n_labels if alpha is None else self.label_covariance_
        run = Alternation(problem, lam, c, self.tol, progress)
        reached = run.run(covariance, alpha, self.max_iter)
        if not (reached.converged or reached.stopped):
            warn_not_converged(self.max_iter, reached.gap)
        self._keep(problem, reached)

    def _keep(self, problem: Problem, reached: RelationsState) -> None:
        assert reached.result is not None
        assert reached.S is not None
        self._keep_model(problem.model(reached.result, reached.S))
        self.label_covariance_ = reached.covariance
        self.label_correlation_ = correlation(reached.covariance)
        self.covariance_eps_ = reached.eps
        self.objective_trace_ = np.array(reached.trace)
        self.primal_objective_, self.dual_objective_ = reached.objective, reached.bound
        self.duality_gap_, self.n_iter_ = reached.gap, reached.n_iter
        self._keep_alpha(reached.result.alpha)
