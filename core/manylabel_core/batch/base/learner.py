"""Base of the batch learners: common parameters, checks, kernels, predictions, and state."""

from __future__ import annotations

import re
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from manylabel_core.batch.base.inputs import check_gram, check_label_names, check_labels
from manylabel_core.batch.base.problem import Expansion, KernelProblem, LinearProblem, Weights, balanced
from manylabel_core.batch.base.serialisation import FITTED_LAST, Serialisable
from manylabel_core.batch.decisions.learner import DecidingLearner, Given, calibrates, deciding, taken
from manylabel_core.checks import is_sparse
from manylabel_core.explanation import Explanation, NotLinear, Scorer, explain_scores
from manylabel_core.mercer import Kernel, KernelFunction, mean_distance, scale_gamma
from manylabel_core.rows import as_rows, row_blocks, uneven_weights
from manylabel_core.scaling.fitted import FITTED_SCALINGS, FittedScaling
from manylabel_core.solvers import ProgressCallback

Signs = NDArray[np.int8]
"""Labels of shape (n_samples, n_labels) as +1 and -1."""
Weighting = NDArray[np.float64]
"""Weights of examples, of shape (n_samples,)."""

_MODEL = ("coef_", "support_", "support_vectors_", "dual_coef_", "intercept_")


class BatchLearner(ClassifierMixin, DecidingLearner, Serialisable, metaclass=ABCMeta):
    """Multi-label model fitted to all examples at once, with one linear or kernel score per label.

    A label is predicted when its score is above its threshold. With a linear kernel the scores are `X @ coef_.T +
    intercept_`, otherwise `kernel(X, support_vectors_) @ dual_coef_ + intercept_`.
    """

    scaling: str
    kernel: str | KernelFunction
    gamma: float | str
    degree: int
    coef0: float
    tol: float
    max_iter: int
    warm_start: bool
    cache_mb: float
    n_threads: int
    random_state: Any
    scaling_: FittedScaling | None

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
        X : array-like or sparse matrix of shape (n_samples, n_features)
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            1 for a relevant label, 0 for an irrelevant one. A label may have one class only.
        label_names : iterable of str, optional
            Stored as `label_names_`. None: the columns of a data frame Y.
        progress : callable, optional
            Called with a `Progress` from time to time, and by PrML and PrBR after each pass. `Progress` has the
            iteration (a sweep or pass; a round of MLRL), the objective (the dual one, for PrML of the current round;
            for MLRL Eq. (6) after the last half-step), the relative duality gap (infinite at first), the share of
            active variables, and the seconds. If it returns True, the fit ends with the current model.
        sample_weight : array-like of shape (n_samples,), optional
            Factor of the loss of each row, above 0 and at most 1,000. Thresholds and probabilities use the weights,
            too. Scaling ignores the weights. None: 1 for every row.

        Raises
        ------
        ValueError
            If a parameter or argument is not allowed; the message names it.
        """
        checked, signs = self._begin(X, Y, label_names)
        self._learn(checked, signs, uneven_weights(sample_weight, len(signs)), progress)
        return self

    @abstractmethod
    def _learn(self, X: Any, signs: Signs, weights: Weighting | None, progress: ProgressCallback | None) -> None:
        """Learn from checked, scaled examples."""

    def label_scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the scores of the labels before thresholds, shape (n_samples, n_labels), float64.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            With kernel="precomputed": the kernel values with all examples of `fit`.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If The features of X differ from those of `fit`, or a value is not finite.
        """
        check_is_fitted(self, FITTED_LAST)
        checked = self._checked(X, reset=False)
        scores = np.empty((checked.shape[0], len(self.intercept_)))
        for rows in row_blocks(checked.shape[0], self._row_bytes(checked)):
            scores[rows] = self._raw_scores(self._scaled(checked[rows]))
        scores += self.intercept_
        return scores

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return `label_scores` minus the thresholds, (n_samples, n_labels), float64: a label is predicted above 0."""
        return self.label_scores(X) - self.threshold_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Predict label sets: 1 where a score is above its threshold, shape (n_samples, n_labels), int64."""
        return (self.decision_function(X) > 0).astype(np.int64)

    @available_if(calibrates)
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of every label, shape (n_samples, n_labels), float64.

        The probabilities of an example do not sum to 1. Raises ValueError if no probabilities were fitted.
        """
        return self.probabilities(self.label_scores(X))

    def explain(self, X: ArrayLike, labels: Sequence[int], k: int) -> list[Explanation]:
        """Explain the scores of some labels by the features of an example, X of shape (1, n_features).

        The scores are those of `decision_function`. The contribution of a feature is its scaled value times its weight:
        a standardised feature is centred at its mean. At most k positive and k negative contributions are listed per
        label.

        Raises
        ------
        NotFittedError, ValueError
            See `label_scores`. Also a ValueError if there are too many features and labels.
        manylabel_core.explanation.NotLinear
            If the kernel is not linear.
        """
        check_is_fitted(self, FITTED_LAST)
        if not hasattr(self, "coef_"):
            raise NotLinear()
        checked = self._checked(X, reset=False)
        given, _ = as_rows(checked, np.float64)
        scaled = as_rows(self._scaled(checked), np.float64)[0].without_zeros().row(0)
        constants = self.intercept_ - self.threshold_

        def scorer(label: int) -> Scorer:
            return Scorer(self.coef_[label, scaled[0]], float(constants[label]))

        return explain_scores(given.row(0)[0], scaled, scorer, labels, k)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        tags.input_tags.allow_nan = self._takes_nan
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        tags.target_tags.one_d_labels = False
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    @property
    def _takes_nan(self) -> bool:
        """True if NaN is a missing value."""
        return self.scaling == "auto" and self.kernel != "precomputed"

    def _begin(self, X: Any, Y: Any, label_names: Iterable[str] | None) -> tuple[Any, NDArray[np.int8]]:
        """Check the input of `fit`, and store its names and scaling; returns X scaled."""
        if isinstance(X, Mapping):
            raise ValueError("X must be an array, a data frame or a sparse matrix, not a mapping")
        if self.kernel == "precomputed" and self.scaling not in ("auto", "none"):
            raise ValueError(f"scaling must be 'auto' or 'none' with kernel='precomputed', not {self.scaling!r}")
        checked = self._checked(X, reset=True)
        signs = check_labels(Y, checked.shape[0])
        names = check_label_names(label_names, Y, signs.shape[1])
        self._forget("label_names_")
        if names is not None:
            self.label_names_ = names
        self.classes_ = np.arange(signs.shape[1])
        scaling = FITTED_SCALINGS["none" if self.kernel == "precomputed" else self.scaling]
        self.scaling_ = None if scaling is None else scaling.fit(checked)
        return self._scaled(checked), signs

    def _scaled(self, X: Any) -> Any:
        """Return checked and scaled rows."""
        return X if self.scaling_ is None else self.scaling_(X)

    def _checked(self, X: Any, *, reset: bool, name: str = "X") -> Any:
        """Return X as an ndarray or CSR array of float32 or float64."""
        if self.kernel == "precomputed" and is_sparse(X):
            raise ValueError(f"{name} must be dense, not sparse, with kernel='precomputed'")
        try:
            X = validate_data(
                self,
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                reset=reset,
                ensure_all_finite="allow-nan" if self._takes_nan else True,
            )
        except ValueError as error:
            if re.search(rf"\b{name}\b", str(error)):  # some of scikit-learn's messages name X, others name no argument
                raise
            raise ValueError(f"{name}: {error}") from error
        return sp.csr_array(X) if is_sparse(X) else X

    def _make_kernel(self, X: Any) -> Kernel:
        """Return the kernel, and store its width as `gamma_`, computed from X if necessary."""
        gamma = 1.0
        if not isinstance(self.gamma, str):
            gamma = float(self.gamma)
        elif self.kernel in ("rbf", "poly") and self.gamma == "scale":
            gamma = scale_gamma(X)
        elif self.kernel in ("rbf", "poly"):
            width = mean_distance(X, self._random())
            gamma = 1.0 / (2.0 * width**2) if width > 0 else 1.0
        self.gamma_ = gamma
        return self._kernel()

    def _problem(
        self, X: Any, signs: NDArray[np.int8], *, equality: bool, constant: float = 0.0
    ) -> KernelProblem | LinearProblem:
        """Return the problem of the examples; `constant` is the square of a regularised constant feature."""
        self._check_precomputed(X)
        kernel = replace(self._make_kernel(X), constant=constant)
        options: dict[str, Any] = {"equality": equality, "n_threads": self.n_threads, "seed": self._seed()}
        if self.kernel == "linear":
            return LinearProblem(X, signs, constant=constant**0.5, **options)
        return KernelProblem(kernel, X, signs, cache_mb=float(self.cache_mb), **options)

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma_, float(self.coef0), int(self.degree))

    def _check_precomputed(self, K: Any) -> None:
        if self.kernel == "precomputed":
            check_gram(K)

    def _keep_model(self, model: Expansion | Weights) -> None:
        """Store the model: the weights for a linear kernel, otherwise the examples whose coefficients are not 0."""
        self._forget(*_MODEL)
        self.intercept_ = np.asarray(model.intercept, dtype=np.float64)
        if isinstance(model, Weights):
            self.coef_ = np.ascontiguousarray(model.Z.T, dtype=np.float64)
        elif self.kernel == "linear":
            self.coef_ = np.ascontiguousarray(safe_sparse_dot(model.X.T, model.A, dense_output=True).T)
        else:
            self.support_ = np.flatnonzero(model.A.any(axis=1))
            self.dual_coef_ = np.ascontiguousarray(model.A[self.support_])
            if self.kernel != "precomputed":
                self.support_vectors_ = model.X[self.support_]

    def _start(
        self, signs: NDArray[np.int8], c: float | NDArray[np.float64], *, equality: bool
    ) -> NDArray[np.float64] | None:
        """Return the dual variables of the earlier fit, made feasible if C, the weights or Y have changed."""
        alpha = getattr(self, "alpha_", None) if self.warm_start else None
        if alpha is None or alpha.shape != signs.shape:
            return None
        alpha = np.minimum(alpha, np.reshape(c, (-1, 1)))
        return balanced(alpha, signs) if equality else alpha

    def _keep_alpha(self, alpha: NDArray[np.float64]) -> None:
        self._forget("alpha_")
        if self.warm_start:
            self.alpha_ = alpha

    def _forget(self, *names: str) -> None:
        for name in names:
            if hasattr(self, name):
                delattr(self, name)

    def _raw_scores(self, X: Any) -> NDArray[Any]:
        """Return the scores of a block of rows, without the intercept."""
        if hasattr(self, "coef_"):
            return np.asarray(X @ self.coef_.T)
        if self.kernel == "precomputed":
            return np.asarray(X[:, self.support_] @ self.dual_coef_)
        return self._kernel()(X, self.support_vectors_) @ self.dual_coef_

    def _without(self, given: Given, held: NDArray[np.int64]) -> Given:
        kept = np.setdiff1d(np.arange(np.shape(given["Y"])[0]), held)
        parts = {**given, "X": taken(given["X"], kept), "Y": taken(given["Y"], kept)}
        if given.get("sample_weight") is not None:
            parts["sample_weight"] = taken(given["sample_weight"], kept)
        if self.kernel == "precomputed":
            for name in parts.keys() & {"X", "X_unlabelled"}:
                parts[name] = _without_columns(parts[name], held)
        return parts

    def _only(self, given: Given, held: NDArray[np.int64]) -> Given:
        rows = taken(given["X"], held)
        return {"X": _without_columns(rows, held) if self.kernel == "precomputed" else rows}

    def _row_bytes(self, X: Any) -> int:
        """Return the temporary bytes for the scores of one row."""
        return 8 * max(len(self.intercept_), X.shape[1] if hasattr(self, "coef_") else len(self.dual_coef_))


def _without_columns(K: Any, columns: NDArray[np.int64]) -> Any:
    """Return kernel values without the columns of some examples."""
    return None if K is None else np.delete(np.asarray(K), columns, axis=1)
