"""SSMLRL: MLRL that also learns the relations between labels from unlabelled examples.

See Eq. (28) of docs/mathematics.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from manylabel_core.batch.base.documentation import documented
from manylabel_core.batch.base.learner import Signs, Weighting
from manylabel_core.batch.base.problem import SemiSupervisedProblem
from manylabel_core.batch.decisions.learner import deciding
from manylabel_core.batch.parameters import SSMLRLParameters
from manylabel_core.batch.relations.learner import RelationshipLearner
from manylabel_core.checks import is_sparse
from manylabel_core.rows import uneven_weights
from manylabel_core.solvers import ProgressCallback


@documented
class SSMLRL(SSMLRLParameters, RelationshipLearner):
    """SSMLRL is semi-supervised multi-label relationship learning.

    It minimises the convex problem (14) of the paper: that of MLRL, with lam1, plus a penalty on the scores F of the
    unlabelled examples, lam2/2 tr(F inv(Omega) F'). It is solved as MLRL with another kernel, Eq. (28) of
    docs/mathematics.md, which needs memory proportional to the square of the number of unlabelled examples. The model
    is inductive: it predicts any example. Without unlabelled examples it is MLRL.

    {parameters}

    Attributes
    ----------
    support_, support_vectors_, dual_coef_ : ndarrays or CSR array
        See `MLRL`; indices count labelled examples first, then unlabelled ones.
    others
        See `MLRL`.

    References
    ----------
    Y. Zhang, D.-Y. Yeung: Multilabel relationship learning, ACM Transactions on Knowledge Discovery from Data 7
    (2013), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core.batch import SSMLRL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 4))
    >>> Y = (X @ rng.normal(size=(4, 3)) > 0).astype(int)
    >>> model = SSMLRL(lam1=1e-3, lam2=1e-5).fit(X[:50], Y[:50], X[50:])
    >>> print(f"{(model.predict(X) == Y).mean():.2f}")
    0.97
    """

    @deciding
    def fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        Y: ArrayLike,
        X_unlabelled: ArrayLike | None = None,
        label_names: Iterable[str] | None = None,
        progress: ProgressCallback | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled and unlabelled examples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            1 for a relevant label, 0 for an irrelevant one.
        X_unlabelled : array-like or sparse matrix of shape (n_unlabelled, n_features), optional
        label_names, progress, sample_weight
            See `MLRL.fit`, which also lists the errors.
        """
        checked, signs = self._begin(X, Y, label_names)
        self._learn(checked, signs, uneven_weights(sample_weight, len(signs)), progress, X_unlabelled)
        return self

    def _learn(
        self,
        X: Any,
        signs: Signs,
        weights: Weighting | None,
        progress: ProgressCallback | None,
        X_unlabelled: Any = None,
    ) -> None:
        lam1, lam2 = float(self.lam1), float(self.lam2)
        both = self._with_unlabelled(X, X_unlabelled)
        problem = SemiSupervisedProblem(
            self._make_kernel(both), both, signs, lam1 / lam2, n_threads=self.n_threads, seed=self._seed()
        )
        self._alternate(problem, lam1, progress, weights)

    def _with_unlabelled(self, X: Any, X_unlabelled: Any) -> Any:
        """Return all examples, labelled ones first."""
        both = X
        if X_unlabelled is not None and np.shape(X_unlabelled)[:1] != (0,):
            others = self._scaled(self._checked(X_unlabelled, reset=False, name="X_unlabelled"))
            both = sp.csr_array(sp.vstack([X, others])) if is_sparse(X) or is_sparse(others) else np.vstack([X, others])
        self._check_precomputed(both)
        return both
