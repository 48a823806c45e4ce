"""MLRL: support vector machines that learn the relations between their labels.

See Eq. (25) of docs/mathematics.md.
"""

from __future__ import annotations

from typing import Any

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.learner import Signs, Weighting
from manylabel_core.batch.parameters import MLRLParameters
from manylabel_core.batch.relations.learner import RelationshipLearner
from manylabel_core.solvers import ProgressCallback


@documented
class MLRL(MLRLParameters, RelationshipLearner):
    """MLRL (multi-label relationship learning) finds weights and a label covariance together.

    It minimises the convex problem (6) of the paper over weights, intercepts and covariances Omega, Eq. (25) of
    docs/mathematics.md. The intercepts are free. A label with only one class is always predicted as that class.

    {parameters}

    Attributes
    ----------
    label_covariance_ : ndarray of shape (n_labels, n_labels), float64
        Omega: positive definite, trace 1, the covariance of the weights of labels, and so of their scores.
    label_correlation_ : ndarray of shape (n_labels, n_labels), float64
        Omega, scaled to a unit diagonal.
    covariance_eps_ : float
        Constant added to the diagonal of a singular covariance before scaling it to trace 1; 0 if none.
    objective_trace_ : ndarray
        Objective (6) after every half-step: for the weights of the covariance that a round tried, and, if they lower
        (6), for their best covariance. Weights that do not lower (6) are rejected, so `primal_objective_` is the
        minimum, not always the last value.
    {model}
    {decided}
    primal_objective_, dual_objective_ : float
        (6) at the end, and a lower bound on its minimum over all variables, including Omega.
    duality_gap_ : float
        (primal - dual) / primal.
    n_iter_ : int
        Rounds.
    {dual}
    {columns}

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
    0.98, -1.00
    """

    def _learn(self, X: Any, signs: Signs, weights: Weighting | None, progress: ProgressCallback | None) -> None:
        self._alternate(self._problem(X, signs, equality=True), float(self.lam), progress, weights)
