"""PrML: privileged multi-label learning.

See Eq. (32) of docs/mathematics.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.reporting import Reporter
from manylabel_core.batch.privileged.alternation import MAX_PASSES, Alternation, FactorsState, Settings
from manylabel_core.batch.privileged.factors import Factors
from manylabel_core.batch.privileged.learner import PrivilegedLearner, blas_threads
from manylabel_core.checks import check_count, check_positive, is_finite
from manylabel_core.solvers import Privileged, ProgressCallback

MAX_RANK = 2**20


@documented
@dataclass(eq=False, repr=False)
class PrML(PrivilegedLearner):
    """PrML (privileged multi-label learning) learns weights of a small rank with the help of the other labels.

    Minimises the problem (5) of the paper over a dictionary D, coefficients W and correcting weights w~, with a second
    slack zeta,

        |D|^2/2 + sum_l [gamma1/2 |w_l|^2 + gamma2/2 |w~_l|^2 + sum_i (C <w~_l, t_il> + rho zeta_il)]
            y_il w_l.D x_i >= 1 - <w~_l, t_il> - zeta_il,     <w~_l, t_il> >= 0,     zeta_il >= 0,

    where y_il is +1 or -1, x_i has a last feature 1, and the privileged features t_il are the signs of the other labels
    of the example and a constant 1. They say for which sets of labels an example may miss its margin at the price C;
    they are known in training only, and predictions are those of the linear model `Z = D'W`.

    Two things are not as printed. Without the constant among the privileged features the problem often has no solution,
    and without zeta (rho infinite) it is nearly a hard-margin machine, which overfits. `literal=True` and `rho=inf` are
    the printed problem. **With rho <= C the privileged features are idle**: what is left is the hinge loss at the price
    rho, so search rho as a multiple of C.

    Parameters
    ----------
    rank : int or float, default=0.9
        Rows of D: a number, or a share of the number of labels (rounded up), which is how the paper gives it. Never
        more than labels or features. With a full rank, the cost of D and W is sqrt(gamma1) times the nuclear norm of Z.
    gamma1 : float, default=1.0
    gamma2 : float, default=30.0
        The larger, the less slack is had for labels. The paper searches 0.1 to 2, without zeta.
    C, rho : float, defaults 0.03 and 0.05
        rho may be infinite. These, with gamma2, were near to the best on each of emotions, yeast, scene and enron when
        C in 0.03 to 1, rho / C in 1, 1.5, 3 and gamma2 in 1, 30 were compared on halves of training halves: yeast and
        scene like rho = 3 C a little better, emotions and enron rho = C. Both are prices of single examples: the longer
        the rows, the lower.
    %(privileged)s
    tol : float, default=1e-2
        Each half of a round is to be solved to this relative duality gap; the end is when a round lowers the objective
        by less than this share.
    max_iter : int, default=30
        Most rounds in a call of `fit`. (A half takes 1,000 passes at most. With an infinite rho, or huge prices, that
        can be too few: then `duality_gap_` stays above tol, and a ConvergenceWarning says so.)
    scaling : {"none", "auto", "standard", "max_abs"}, default="none"
        %(scaling)s
    warm_start : bool, default=False
        Keep the dual variables, and go on from there when `fit` is called again with as many examples, label sets,
        labels and features. On the same data and parameters, a fit that was stopped ends bit for bit where it would
        have ended, also after `to_bytes` and `from_bytes`; one that had ended stays as it is.
    n_threads : int, default=1
        Over labels. The time of a pass grows with the number of labels, and with how many of them an example has.
    random_state : int, RandomState or None, default=0
        Order in which the solver visits the variables.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features), float64
    intercept_ : ndarray of shape (n_labels,), float64
    dictionary_ : ndarray of shape (rank, n_features + 1), float64
        D, the constant feature's column last.
    label_factors_ : ndarray of shape (rank, n_labels), float64
        W.
    correcting_coef_ : ndarray of shape (n_labels, n_labels + 1), float64
        w~ of each label, the constant's last; 0 for labels that are no privileged features.
    objective_ : float
    objective_trace_ : ndarray of shape (3 n_iter_ + 1,)
        The objective at the start, and in each round after the W-step, the D-step, and a new split of Z into D and W.
        A D-step, solved to a relative gap of tol, may raise it by that share, and then is not taken (neither is such a
        split): where a round has ended is the least of its three values. `objective_` is that of the last round.
    duality_gap_ : float
        The larger one of the relative gaps of the last W-step and D-step. The problem is not convex in both: it bounds
        nothing but these.
    n_iter_ : int
        Rounds, with those before a resumption.
    %(privileged_dual)s
    %(columns)s

    Notes
    -----
    D starts from the leading singular vectors of the weights of independent machines (PrBR), solved roughly: 0 is a
    stationary point. After each round, D and W are replaced by the cheapest factors with the same product.

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

    rank: int | float = 0.9
    gamma1: float = 1.0
    gamma2: float = 30.0
    C: float = 0.03
    rho: float = 0.05
    privileged: int | str = "all"
    literal: bool = False
    tol: float = 1e-2
    max_iter: int = 30
    scaling: str = "none"
    warm_start: bool = False
    n_threads: int = 1
    random_state: Any = 0

    def fit(
        self,
        X: ArrayLike,
        Y: ArrayLike,
        label_names: Iterable[str] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Learn from examples.

        Parameters
        ----------
        %(examples)s
        progress : callable, optional
            Called with a `Progress` now and then: whole rounds of this call so far, the objective and the relative gap
            after the last one (infinite before the first), the share of active variables, and seconds. When it gives
            True, the fit ends, and the model is that of the last whole round.

        %(outcome)s
            Also if `literal` with an infinite rho is a problem whose dual may be unbounded.
        """
        gamma1 = check_positive("gamma1", self.gamma1)
        rows, signs, problem = self._begin_privileged(X, Y, label_names)
        rank = self._rank(signs.shape[1], rows.shape[1])
        settings = Settings(rank, gamma1, self.tol, self.max_iter, self.n_threads, self._seed())
        with blas_threads(self.n_threads):
            reached = self._alternate(rows, problem, settings, progress)
        self._keep(reached)
        if not (reached.converged or reached.stopped):
            warnings.warn(
                f"not converged in max_iter={self.max_iter} rounds: the last one still lowered the objective",
                ConvergenceWarning,
                stacklevel=2,
            )
        elif reached.gap > self.tol and not reached.stopped:
            warnings.warn(
                f"not converged: a half of the last round has used up its {MAX_PASSES} passes, "
                f"with a relative duality gap of {reached.gap:.2g}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _alternate(
        self, X: Any, problem: Privileged, settings: Settings, progress: ProgressCallback | None
    ) -> FactorsState:
        known = self._known_variables(problem)
        shapes = (settings.rank, X.shape[1]), (settings.rank, problem.task.Y.shape[0])
        goes_on = (
            known is not None and self.n_iter_ > 0 and (self.dictionary_.shape, self.label_factors_.shape) == shapes
        )
        report = Reporter(progress, 0)
        run = Alternation(X, problem, settings, report)
        if goes_on:
            assert known is not None
            factors = Factors(self.dictionary_, self.label_factors_)
            return run.run(run.resume(factors, known, self.objective_trace_.tolist(), self.duality_gap_))
        return run.run(run.start())

    def _keep(self, reached: FactorsState) -> None:
        self._keep_scores(reached.factors.product())
        self.dictionary_, self.label_factors_ = reached.factors
        self._keep_variables(reached.at)
        self.objective_ = reached.objective
        self.objective_trace_ = np.array(reached.trace)
        self.n_iter_, self.duality_gap_ = reached.n_iter, float(reached.gap)

    def _rank(self, n_labels: int, n_features: int) -> int:
        if isinstance(self.rank, int | np.integer) and not isinstance(self.rank, bool):
            rank = check_count("rank", self.rank, MAX_RANK)
        elif is_finite(self.rank) and 0 < self.rank <= 1:
            rank = math.ceil(self.rank * n_labels)
        else:
            raise ValueError(f"rank must be an integer of at least 1 or a share in (0, 1], not {self.rank!r}")
        return min(rank, n_labels, n_features)
