"""PrBR: PrML with independent labels."""

from __future__ import annotations

from typing import Any

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.learner import Signs, Weighting
from manylabel_core.batch.base.reporting import Reporter, warn_not_converged
from manylabel_core.batch.parameters import PrBRParameters
from manylabel_core.batch.privileged.learner import PrivilegedLearner
from manylabel_core.solvers import ProgressCallback, solve_privileged_dual


@documented
class PrBR(PrBRParameters, PrivilegedLearner):
    """PrBR (privileged binary relevance) learns an SVM for each label, with the other labels as privileged information.

    It is PrML with W = I, Eq. (29) of docs/mathematics.md. See `PrML` for the privileged features. **If no example
    misses its margin by more than C / rho, they have no effect**, and the model equals that of `LinearSVC` with
    C_svm = rho / 2.

    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features), float64
    intercept_ : ndarray of shape (n_labels,), float64
    %(decided)s
    correcting_coef_ : ndarray of shape (n_labels, n_labels + 1), float64
        w~ of each label, with the weight of the constant last; 0 for the label itself.
    primal_objective_, dual_objective_ : float
    duality_gap_ : float
        (primal - dual) / primal.
    n_iter_ : int
        Passes, including those before a resumption.
    %(privileged_dual)s
    %(columns)s

    References
    ----------
    S. You, C. Xu, Y. Wang, C. Xu, D. Tao: Privileged multi-label learning, IJCAI (2017).

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core.batch import PrBR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 4))
    >>> Y = (X @ rng.normal(size=(4, 3)) > 0).astype(int)
    >>> model = PrBR(C=1.0, rho=2.0).fit(X, Y)
    >>> print(f"{(model.predict(X) == Y).mean():.2f}")
    0.98
    """

    def _learn(self, X: Any, signs: Signs, weights: Weighting | None, progress: ProgressCallback | None) -> None:
        rows, problem = self._privileged(X, signs, weights)
        known = self._known_variables(problem)
        told = Reporter(progress)
        earlier: dict[str, Any] = (
            {} if known is None else {"weights": self._weights(rows.shape[1]), "done": self.n_iter_}
        )
        result = solve_privileged_dual(
            rows,
            problem,
            start=known,
            tol=self.tol,
            max_iter=self.max_iter,
            progress=told.solver,
            n_threads=self.n_threads,
            seed=self._seed(),
            **earlier,
        )
        self._keep_scores(result.Z, result.intercept)
        self._keep_variables(result.at)
        self.primal_objective_, self.dual_objective_ = result.primal, result.dual
        self.duality_gap_, self.n_iter_ = float(result.gap), result.n_iter
        if not (result.converged or told.stopped):
            warn_not_converged(self.max_iter, result.gap)

    def _weights(self, width: int) -> Any:
        """Return the weights of the last fit, or None if it had other features."""
        return self.coef_ if self.coef_.shape[1] == width else None
