"""PrML: privileged multi-label learning.

See Eq. (29) of docs/mathematics.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.learner import Signs, Weighting
from manylabel_core.batch.base.reporting import Reporter, warn_not_converged
from manylabel_core.batch.parameters import MAX_SHARE, PrMLParameters
from manylabel_core.batch.privileged.factors import Factors, leading
from manylabel_core.batch.privileged.learner import PrivilegedLearner
from manylabel_core.batch.privileged.rounds import Reached, Rounds, Settings
from manylabel_core.solvers import ProgressCallback
from manylabel_core.solvers.privileged.dual import Variables
from manylabel_core.solvers.workers import blas_threads


@documented
class PrML(PrMLParameters, PrivilegedLearner):
    """PrML (privileged multi-label learning) learns weights of low rank, with the other labels as privileged
    information.

    It minimises Eq. (29) of docs/mathematics.md, which also states the differences from the paper, over a dictionary D,
    coefficients W, correcting weights w~ and intercepts. The privileged features of a label are the signs of the other
    labels of the example and a constant 1. They determine for which sets of labels an example may miss its margin at
    the cost C. They are known in training only, so predictions use the linear model `Z = D'W` alone.

    **If no example misses its margin by more than C / rho, the privileged features are idle**, and the model is an SVM
    with the squared hinge loss and weights of low rank. On the paper's datasets they gave no measurable gain, see
    docs/reproduction.md.

    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features), float64
    intercept_ : ndarray of shape (n_labels,), float64
    {decided}
    dictionary_ : ndarray of shape (rank, n_features), float64
        D.
    label_factors_ : ndarray of shape (rank, n_labels), float64
        W. The product of both is `coef_`. After a fit that was stopped before its first round, `coef_` is the model of
        `PrBR`, and the product is its best approximation of this rank.
    correcting_coef_ : ndarray of shape (n_labels, n_labels + 1), float64
        w~ of each label, with the weight of the constant last; 0 for the label itself.
    objective_ : float
        Value in the current round; before the first one, that of `PrBR`.
    objective_trace_ : ndarray of shape (2 * rounds,)
        The objective after each split and at the end of each round. A split raises it at most by rounding; a round,
        solved to a relative gap of tol, by at most that share.
    duality_gap_ : float
        Relative duality gap of the last round's problem, over D, b and w~ with W fixed.
    n_rounds_ : int
        Rounds that have begun.
    n_iter_ : int
        Passes of the solver over all rounds, including those before a resumption.
    {privileged_dual}
    {columns}

    References
    ----------
    S. You, C. Xu, Y. Wang, C. Xu, D. Tao: Privileged multi-label learning, IJCAI (2017).

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core.batch import PrML
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 6))
    >>> Y = (X @ rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5)) > 0).astype(int)
    >>> model = PrML(rank=2, C=1.0, rho=1.0).fit(X, Y)
    >>> print(f"{(model.predict(X) == Y).mean():.2f}, rank {np.linalg.matrix_rank(model.coef_)}")
    0.99, rank 2
    """

    def _learn(self, X: Any, signs: Signs, weights: Weighting | None, progress: ProgressCallback | None) -> None:
        rows, problem = self._privileged(X, signs, weights)
        rank = self._rank(signs.shape[1], rows.shape[1])
        settings = Settings(
            rank, float(self.gamma1), int(self.rounds), self.tol, self.max_iter, self.n_threads, self._seed()
        )
        with blas_threads(int(self.n_threads)):
            run = Rounds(rows, problem, settings, Reporter(progress).solver)
            known = self._known_variables(problem)
            earlier = self._earlier(known, rank, rows.shape[1]) if known is not None else None
            here = run.start(known) if earlier is None else run.resumed(earlier)
            reached = run.run(here)
        self._keep(reached, rank)
        if not (reached.converged or reached.stopped):
            warn_not_converged(self.max_iter, reached.gap)

    def _earlier(self, at: Variables, rank: int, width: int) -> Reached | None:
        """Return the result of an earlier fit with the same number of features and rank."""
        shapes = (rank, width), (rank, len(at.alpha))
        if (self.dictionary_.shape, self.label_factors_.shape) != shapes:
            return None
        factors = Factors(self.dictionary_, self.label_factors_) if self.n_rounds_ else None
        trace, gap = self.objective_trace_.tolist(), self.duality_gap_
        model = at, self.coef_, self.intercept_, factors
        return Reached(*model, self.n_rounds_, self.n_iter_, trace, self.objective_, gap)

    def _keep(self, reached: Reached, rank: int) -> None:
        self._keep_scores(reached.Z, reached.intercept)
        self.dictionary_, self.label_factors_ = reached.factors or leading(reached.Z, rank, self.gamma1)
        self._keep_variables(reached.at)
        self.objective_ = reached.objective
        self.objective_trace_ = np.array(reached.trace, dtype=np.float64)
        self.n_rounds_, self.n_iter_, self.duality_gap_ = reached.round_, reached.n_iter, float(reached.gap)

    def _rank(self, n_labels: int, n_features: int) -> int:
        whole = isinstance(self.rank, int | np.integer)
        rank = int(self.rank) if whole else min(math.ceil(self.rank * n_labels), MAX_SHARE)
        return min(rank, n_labels, n_features)
