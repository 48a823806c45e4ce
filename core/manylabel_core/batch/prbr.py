"""PrBR: PrML with independent labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.reporting import Reporter, warn_not_converged
from manylabel_core.batch.decisions.learner import deciding
from manylabel_core.batch.privileged.learner import PrivilegedLearner
from manylabel_core.solvers import ProgressCallback, solve_privileged_dual


@documented
@dataclass(eq=False, repr=False)
class PrBR(PrivilegedLearner):
    """PrBR (privileged binary relevance) learns an SVM for each label, with the help of the other labels.

    PrML with W = I: minimises for each label

        |z|^2/2 + gamma2/2 |w~|^2 + b^2/(2 B^2) + sum_i (C <w~, t_i> + rho/2 zeta_i^2)
            y_i (z.x_i + b) >= 1 - <w~, t_i> - zeta_i,     <w~, t_i> >= 0,     zeta_i >= 0,

    where the privileged features t_i are the signs of the other labels and a constant 1. See `PrML` for what they do,
    and for what is not as printed. **Where no example misses its margin by more than C / rho, they are idle**, and this
    is `LinearSVC` with C_svm = rho / 2, or with `loss="hinge"` where rho <= C and C_svm = rho.

    Parameters
    ----------
    %(privileged)s
    tol : float, default=1e-2
        Stop at this relative duality gap, (primal - dual) / primal, over all labels together.
    max_iter : int, default=1000
        Most passes of the solver in a call of `fit`.
    scaling : {"none", "auto", "standard", "max_abs"}, default="none"
        %(scaling)s
    warm_start : bool, default=False
        Store the dual variables, and continue from them when `fit` is called again with as many examples, label sets
        and labels. On the same data and parameters, a fit that was stopped ends bit for bit where it would have ended.
    n_threads : int, default=1
        Over labels.
    random_state : int, RandomState or None, default=0
        Order in which the solver visits the variables.
    %(decisions)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features), float64
    intercept_ : ndarray of shape (n_labels,), float64
    %(decided)s
    correcting_coef_ : ndarray of shape (n_labels, n_labels + 1), float64
        w~ of each label, the constant's last; 0 for labels that are not privileged features.
    primal_objective_, dual_objective_ : float
    duality_gap_ : float
        (primal - dual) / primal.
    n_iter_ : int
        Passes, with those before a resumption.
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
    0.99
    """

    gamma2: float = 1.0
    C: float | None = None
    rho: float = 0.1
    loss: str = "squared_hinge"
    fit_intercept: bool = True
    intercept_scaling: float = 3.16
    privileged: int | str = "all"
    tol: float = 1e-2
    max_iter: int = 1000
    scaling: str = "none"
    warm_start: bool = False
    n_threads: int = 1
    random_state: Any = 0
    optimise: str = "micro_f1"
    calibrate: bool | None = None
    folds: int = 3

    @deciding
    def fit(
        self,
        X: ArrayLike,
        Y: ArrayLike,
        label_names: Iterable[str] | None = None,
        progress: ProgressCallback | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from examples.

        Parameters
        ----------
        %(examples)s
        progress : callable, optional
            Called with a `Progress` (iteration, objective: the dual's, gap, active, seconds) after every pass; when it
            gives True, the fit ends and the model is the one reached so far.
        %(weights)s

        %(outcome)s
        """
        rows, _, problem = self._begin_privileged(X, Y, label_names, sample_weight)
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
        return self

    def _weights(self, width: int) -> Any:
        """Return the weights of the last fit, or None if that had other features."""
        return self.coef_ if self.coef_.shape[1] == width else None
