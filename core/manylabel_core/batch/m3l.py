"""M3L: max-margin multi-label classification with a prior on the relations between labels.

See Eq. (24) of docs/mathematics.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.learner import BatchLearner, Signs, Weighting
from manylabel_core.batch.base.reporting import Reporter, warn_not_converged
from manylabel_core.batch.parameters import M3LParameters
from manylabel_core.priors import Prior, matrix
from manylabel_core.solvers import ProgressCallback


@documented
class M3L(M3LParameters, BatchLearner):
    """M3L: support vector machines for all labels, coupled by a prior R.

    It minimises the problem P2 of the paper with the Hamming loss, Eq. (24) of docs/mathematics.md. R states relations
    between labels that the training examples do not show, for example because future categories differ (zero-shot
    learning).

    {parameters}

    Attributes
    ----------
    {model}
    {decided}
    prior_eps_ : float
        Constant on the diagonal of the prior that makes it positive definite; 0 for a matrix.
    primal_objective_, dual_objective_ : float
        P2 and D2 of the paper at the end.
    duality_gap_ : float
        (primal - dual) / primal: upper bound on the relative distance of the model from the optimum.
    n_iter_ : int
    {dual}
    {columns}

    References
    ----------
    B. Hariharan, S. V. N. Vishwanathan, M. Varma: Efficient max-margin multi-label classification with
    applications to zero-shot learning, Machine Learning 88 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core.batch import M3L
    >>> from manylabel_core.priors import category_attributes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> Y = (X @ rng.normal(size=(4, 3)) > 0).astype(int)
    >>> model = M3L(C=1.0, R=category_attributes(Y)).fit(X, Y)
    >>> print(f"{(model.predict(X) == Y).mean():.2f}")
    0.98
    """

    def _learn(self, X: Any, signs: Signs, weights: Weighting | None, progress: ProgressCallback | None) -> None:
        C = float(self.C)
        prices = C if weights is None else C * weights
        R, self.prior_eps_ = self._prior(signs.shape[1])
        problem = self._problem(X, signs, equality=False, constant=1.0 if self.fit_intercept else 0.0)
        told = Reporter(progress)
        start = self._start(signs, prices, equality=False)
        result = problem.solve(
            2.0 * R, prices, tol=self.tol, max_iter=self.max_iter, alpha0=start, progress=told.solver
        )
        if not (result.converged or told.stopped):
            warn_not_converged(self.max_iter, result.gap)
        # The paper's objectives are twice the solver's, whose hinge is 1 - y z.x.
        self.primal_objective_, self.dual_objective_ = 2.0 * result.primal, 2.0 * result.dual
        self.duality_gap_, self.n_iter_ = float(result.gap), int(result.n_iter)
        self._keep_model(problem.model(result, 2.0 * R))
        self._keep_alpha(result.alpha)

    def _prior(self, n_labels: int) -> tuple[NDArray[np.float64], float]:
        if self.R is None:
            return np.eye(n_labels), 0.0
        if isinstance(self.R, Prior):
            return matrix(self.R.R, n_labels), self.R.eps
        return matrix(self.R, n_labels), 0.0
