"""Base of PrML and PrBR: parameters, privileged features, and warm starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from manylabel_core.batch.base.inputs import check_diagonal
from manylabel_core.batch.base.learner import BatchLearner, Signs, Weighting
from manylabel_core.batch.base.serialisation import FITTED_LAST
from manylabel_core.scaling.fitted import FittedScaling
from manylabel_core.solvers import Privileged
from manylabel_core.solvers.privileged.dual import Variables


class LinearScores(NamedTuple):
    """Linear model without the state of its training: scores are `X @ coef_.T + intercept_`."""

    coef_: NDArray[np.float64]  # (n_labels, n_features)
    intercept_: NDArray[np.float64]  # (n_labels,)
    scaling_: FittedScaling | None = None  # scaling of the features; None for none


class PrivilegedLearner(BatchLearner):
    """Linear learner that uses the other labels of its training examples as privileged information."""

    # Attributes that BatchLearner needs for kernels; they are not parameters of this class.
    kernel = "linear"
    gamma = "scale"
    degree = 3
    coef0 = 0.0
    cache_mb = 2000.0

    n_iter_: int
    C: float | None
    rho: float
    gamma2: float
    fit_intercept: bool
    intercept_scaling: float

    def to_linear(self) -> LinearScores:
        """Return the weights Z and intercepts minus thresholds, without the training state.

        `FALT.from_linear` accepts the result, as it accepts the model itself.
        """
        check_is_fitted(self, FITTED_LAST)
        return LinearScores(self.coef_, self.intercept_ - self.threshold_, self.scaling_)

    def _privileged(self, X: Any, signs: Signs, weights: Weighting | None) -> tuple[Any, Privileged]:
        """Return X in double precision, and the labels for the solver."""
        check_diagonal(row_norms(X, squared=True))
        problem = Privileged(
            signs,
            C=self._price(),
            rho=float(self.rho),
            gamma=float(self.gamma2),
            intercept=float(self.intercept_scaling) ** 2 if self.fit_intercept else 0.0,
            weights=weights,
        )
        return X.astype(np.float64, copy=False), problem

    def _price(self) -> float:
        """Return C."""
        return 3 * float(self.rho) if self.C is None else float(self.C)

    def _keep_scores(self, Z: NDArray[np.float64], intercept: NDArray[np.float64]) -> None:
        """Store weights of shape (n_labels, n_features), and intercepts."""
        self._forget("coef_", "intercept_")
        self.coef_, self.intercept_ = np.ascontiguousarray(Z), intercept.copy()

    def _keep_variables(self, at: Variables) -> None:
        self.correcting_coef_ = at.known
        self._forget("alpha_", "beta_")
        if self.warm_start:
            self.alpha_, self.beta_ = at.alpha.T, at.beta.T

    def _known_variables(self, problem: Privileged) -> Variables | None:
        """Return the final state of an earlier fit from which this fit resumes, or None."""
        if not (self.warm_start and hasattr(self, "alpha_") and hasattr(self, "beta_")):
            return None
        found = Variables(
            *(np.ascontiguousarray(part) for part in (self.alpha_.T, self.beta_.T, self.correcting_coef_))
        )
        fresh = problem.start()
        return found if all(a.shape == b.shape for a, b in zip(found, fresh, strict=True)) else None
