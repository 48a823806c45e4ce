"""Base of PrML and PrBR: parameters, privileged features, and warm starts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from manylabel_core.batch.base.inputs import check_diagonal
from manylabel_core.batch.base.learner import BatchLearner
from manylabel_core.batch.base.serialisation import FITTED_LAST
from manylabel_core.checks import check_choice, check_count, check_flag, check_positive, is_finite, shown
from manylabel_core.rows import uneven_weights
from manylabel_core.scaling.fitted import FittedScaling
from manylabel_core.solvers import Privileged
from manylabel_core.solvers.blas import blas_threads
from manylabel_core.solvers.privileged.dual import LOSSES, Variables

MAX_LABELS = 2**20
"""The most labels that may be privileged information about one."""


class LinearScores(NamedTuple):
    """The scores are a linear model and nothing else: scores are `X @ coef_.T + intercept_`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features), float64
    intercept_ : ndarray of shape (n_labels,), float64
    scaling_ : FittedScaling or None
        How features are scaled before; None for not at all.
    """

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    scaling_: FittedScaling | None = None


class PrivilegedLearner(BatchLearner):
    """Linear learner that uses the other labels of its training examples as privileged information."""

    # Attributes that BatchLearner needs for kernels; not parameters here.
    kernel = "linear"
    gamma = "scale"
    degree = 3
    coef0 = 0.0
    cache_mb = 2000.0

    n_iter_: int
    C: float | None
    rho: float
    gamma2: float
    loss: str
    fit_intercept: bool
    intercept_scaling: float
    privileged: int | str

    def to_linear(self) -> LinearScores:
        """Return the weights Z and intercepts minus thresholds, without the training state.

        `FALT.from_linear` takes them, as it takes the model itself.
        """
        check_is_fitted(self, FITTED_LAST)
        return LinearScores(self.coef_, self.intercept_ - self.threshold_, self.scaling_)

    def _begin_privileged(
        self, X: Any, Y: Any, label_names: Iterable[str] | None, sample_weight: ArrayLike | None
    ) -> tuple[Any, NDArray[np.int8], Privileged]:
        """Check all inputs; return X in double precision, the signs, and the task of the solver."""
        rho, gamma2 = self._checked_rho(), check_positive("gamma2", self.gamma2)
        check_choice("loss", self.loss, LOSSES)
        scale = check_positive("intercept_scaling", self.intercept_scaling)
        intercept = scale**2 if check_flag("fit_intercept", self.fit_intercept) else 0.0
        if isinstance(X, Mapping):
            raise ValueError("X must be an array, a data frame or a sparse matrix, not a mapping")
        checked, signs = self._begin(X, Y, label_names)
        self._check_privileged()
        check_diagonal(row_norms(checked, squared=True))
        weights = uneven_weights(sample_weight, len(signs))
        mask = nearest(signs, self.privileged, weights) if not isinstance(self.privileged, str) else None
        problem = Privileged(
            signs,
            C=self._price(rho),
            rho=rho,
            gamma=gamma2,
            loss=self.loss,
            intercept=intercept,
            mask=mask,
            weights=weights,
        )
        return checked.astype(np.float64, copy=False), signs, problem

    def _checked_rho(self) -> float:
        infinite = isinstance(self.rho, float) and self.rho == math.inf
        if infinite or (is_finite(self.rho) and self.rho > 0):
            return float(self.rho)
        raise ValueError(f"rho must be a number above 0, which may be infinite, not {shown(self.rho)}")

    def _price(self, rho: float) -> float:
        """Return C."""
        if self.C is None:
            return 0.3 if rho == math.inf else 3 * rho
        try:
            return check_positive("C", self.C)
        except ValueError as error:
            raise ValueError(f"{error}, or None") from None

    def _check_privileged(self) -> None:
        if isinstance(self.privileged, str) and self.privileged == "all":
            return
        try:
            check_count("privileged", self.privileged, MAX_LABELS)
        except ValueError as error:
            raise ValueError(f"{error}, or 'all'") from None

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
        """Return the state in which an earlier fit ended, if this fit is to continue from it and can."""
        if not (self.warm_start and hasattr(self, "alpha_") and hasattr(self, "beta_")):
            return None
        found = Variables(
            *(np.ascontiguousarray(part) for part in (self.alpha_.T, self.beta_.T, self.correcting_coef_))
        )
        fresh = problem.start()
        return found if all(a.shape == b.shape for a, b in zip(found, fresh, strict=True)) else None


def nearest(signs: NDArray[np.int8], number: int, weights: NDArray[np.float64] | None = None) -> NDArray[np.bool_]:
    """Return for each label the labels nearest to it in Hamming distance, (n_labels, n_labels); of equal ones, the
    first. A row counts by its weight.
    """
    S = signs.astype(np.float32)  # sums of +1 and -1 are exact
    agreement = S.T @ S if weights is None else signs.T @ (weights[:, None] * signs)
    np.fill_diagonal(agreement, -np.inf)
    order = np.argsort(-agreement, axis=1, kind="stable")[:, : min(number, len(agreement) - 1)]
    mask = np.zeros(agreement.shape, dtype=bool)
    np.put_along_axis(mask, order, True, axis=1)
    return mask


def blas_threads_if_valid(number: Any) -> AbstractContextManager[None]:
    """Run BLAS with `number` threads within a `with` block, unless the solver will refuse the number."""
    valid = isinstance(number, int | np.integer) and number >= 1
    return blas_threads(int(number)) if valid else nullcontext()
