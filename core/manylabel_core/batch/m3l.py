"""M3L: max-margin multi-label classification with a prior on the relations between labels.

See Eq. (27) of docs/mathematics.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.learner import BatchLearner
from manylabel_core.batch.base.reporting import Reporter, warn_not_converged
from manylabel_core.batch.decisions.learner import deciding
from manylabel_core.checks import check_flag, check_positive
from manylabel_core.mercer import KernelFunction
from manylabel_core.priors import Prior, matrix
from manylabel_core.rows import uneven_weights
from manylabel_core.solvers import ProgressCallback


@documented
@dataclass(eq=False, repr=False)
class M3L(BatchLearner):
    """M3L: support vector machines for all labels, coupled by a given prior R.

    Minimises the problem P2 of the paper with the Hamming loss,

        1/2 sum_lk inv(R)[l, k] z_l.z_k + C sum_il max(0, 2 - 2 y_il z_l.phi(x_i)),     y_il in {-1, +1},

    and predicts a label where z_l.phi(x) > 0. R carries what is known about the relations between labels but
    not shown by the training examples, e.g. because the categories to come are others (zero-shot learning).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss. The paper's hinge is twice the usual one, so with R = I each label's machine is
        scikit-learn's `SVC` or `LinearSVC(loss="hinge")` with **C_svm = 2 C**.
    R : array-like of shape (n_labels, n_labels), Prior or None, default=None
        Symmetric and positive definite; `manylabel_core.priors` makes such matrices from attributes of
        categories, from label sets, from a fitted MLRL. None is the identity: independent labels.
        `t * R` with C is the same as R with `t * C`: keep the mean diagonal near 1 to keep C's meaning.
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        %(kernel)s
    gamma : float, "scale" or "mean_distance", default="scale"
        %(gamma)s
    degree : int, default=3
    coef0 : float, default=0.0
    fit_intercept : bool, default=True
        Add a constant feature 1, or 1 to the kernel. By design the intercept is regularised and coupled by R
        like every weight; a free one could undo what R says.
    tol : float, default=1e-3
        Stop at this relative duality gap, (primal - dual) / primal.
    max_iter : int, default=10000
        Most sweeps of the solver.
    scaling : {"none", "auto", "standard", "max_abs"}, default="none"
        %(scaling)s
    warm_start : bool, default=False
        Keep the dual variables (`alpha_`), and continue from them when `fit` is called again with Y of the same
        shape: to resume a stopped fit, after small changes of C or R, or on changed examples.
    %(resources)s
    %(decisions)s

    Attributes
    ----------
    %(model)s
    %(decided)s
    prior_eps_ : float
        Constant on the diagonal of the prior that makes it positive definite; 0 for a matrix.
    primal_objective_, dual_objective_ : float
        P2 and D2 of the paper at the end.
    duality_gap_ : float
        (primal - dual) / primal: how far from the optimum the model can be at most.
    n_iter_ : int
    %(dual)s
    %(columns)s

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
    0.99
    """

    C: float = 1.0
    R: ArrayLike | Prior | None = None
    kernel: str | KernelFunction = "linear"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    fit_intercept: bool = True
    tol: float = 1e-3
    max_iter: int = 10_000
    scaling: str = "none"
    warm_start: bool = False
    cache_mb: float = 2000.0
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
            Called with a `Progress` (iteration, objective: the dual's, gap, active, seconds) now and then;
            when it gives True, the fit ends and the model is the one reached so far.
        %(weights)s

        %(outcome)s
        """
        C = check_positive("C", self.C)
        check_flag("fit_intercept", self.fit_intercept)
        X, signs = self._begin(X, Y, label_names)
        weights = uneven_weights(sample_weight, len(signs))
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
        return self

    def _prior(self, n_labels: int) -> tuple[NDArray[np.float64], float]:
        if self.R is None:
            return np.eye(n_labels), 0.0
        if isinstance(self.R, Prior):
            return matrix(self.R.R, n_labels), self.R.eps
        return matrix(self.R, n_labels), 0.0
