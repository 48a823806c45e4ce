"""MLRL: support vector machines that learn the relations between their labels.

See Eq. (28) of docs/mathematics.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.decisions.learner import deciding
from manylabel_core.batch.relations.learner import RelationshipLearner
from manylabel_core.checks import check_positive
from manylabel_core.mercer import KernelFunction
from manylabel_core.rows import uneven_weights
from manylabel_core.solvers import ProgressCallback


@documented
@dataclass(eq=False, repr=False)
class MLRL(RelationshipLearner):
    """MLRL (multi-label relationship learning) finds weights and a label covariance together.

    Minimises the convex problem (6) of the paper over the weights W, intercepts b and covariances Omega,

        1/n sum_il max(0, 1 - y_il (w_l.phi(x_i) + b_l)) + lam/2 tr(W inv(Omega) W'),     tr(Omega) = 1,

    where y_il is +1 or -1; with `sample_weight` the mean over examples is a weighted one. The intercepts are free. A
    label with one class only is predicted as that class.

    Parameters
    ----------
    lam : float, default=1e-4
        Regularisation, the paper's lambda. The loss is a *mean* over examples, so the lambda that suits falls
        with their number: it is near 0.1/n to 1/n on the paper's datasets. Its grid of 0.01 to 100 fits a
        loss that is a sum: divide it by n.
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        %(kernel)s
    gamma : float, "scale" or "mean_distance", default="mean_distance"
        %(gamma)s
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
        Stop at this relative duality gap of the whole problem; or when for some rounds hardly anything (0.2
        tol, relatively) could be hoped for from other covariances nearby. With many labels that comes first:
        the bound closes later than the objective settles. `duality_gap_` says what is proven.
    max_iter : int, default=200
        Most rounds of the alternation.
    scaling : {"none", "auto", "standard", "max_abs"}, default="none"
        %(scaling)s
    warm_start : bool, default=False
        Keep the dual variables (`alpha_`), and continue from them and `label_covariance_` when `fit` is called
        again with Y of the same shape.
    %(resources)s
    %(decisions)s

    Attributes
    ----------
    label_covariance_ : ndarray of shape (n_labels, n_labels), float64
        Omega: positive definite, trace 1. It says how the weights of labels, and so their scores, go together.
    label_correlation_ : ndarray of shape (n_labels, n_labels), float64
        The same, scaled to a unit diagonal.
    covariance_eps_ : float
        Constant added to the diagonal of a singular covariance before scaling it to trace 1; 0 if none.
    objective_trace_ : ndarray
        (6) after every half-step: of the weights for the covariance that a round tried, and, if they lower it, of the
        best covariance for them. Weights that do not lower it are not taken, so `primal_objective_` is the least value,
        not always the last.
    %(model)s
    %(decided)s
    primal_objective_, dual_objective_ : float
        (6) at the end, and a lower bound for its minimum over everything, Omega included.
    duality_gap_ : float
        (primal - dual) / primal.
    n_iter_ : int
        Rounds.
    %(dual)s
    %(columns)s

    References
    ----------
    Y. Zhang, D.-Y. Yeung: Multilabel relationship learning, ACM Transactions on Knowledge Discovery from Data 7
    (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core.batch import MLRL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 4))
    >>> first = X @ rng.normal(size=4) > 0
    >>> Y = np.column_stack([first, ~first, X[:, 0] > 0]).astype(int)
    >>> model = MLRL(lam=1e-3).fit(X, Y)
    >>> print(f"{(model.predict(X) == Y).mean():.2f}, {model.label_correlation_[0, 1]:.2f}")
    0.99, -1.00
    """

    lam: float = 1e-4
    kernel: str | KernelFunction = "linear"
    gamma: float | str = "mean_distance"
    degree: int = 3
    coef0: float = 0.0
    tol: float = 1e-3
    max_iter: int = 200
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
            Called with a `Progress` now and then: the round, the objective (6) and the relative duality gap
            as of the last half-step (infinite before the first), the share of active variables, and seconds.
            When it gives True, the fit ends and the model is the one reached so far.
        %(weights)s

        %(outcome)s
        """
        lam = check_positive("lam", self.lam)
        X, signs = self._begin(X, Y, label_names)
        weights = uneven_weights(sample_weight, len(signs))
        self._learn(self._problem(X, signs, equality=True), lam, progress, weights)
        return self
