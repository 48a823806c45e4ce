"""Decisions of batch learners: thresholds and probabilities, fitted to out-of-fold scores; convergence warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import Any, Self, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from manylabel_core.batch.decisions.calibration import fit_curves, probabilities
from manylabel_core.batch.decisions.choice import Parts, divided, tune_thresholds
from manylabel_core.batch.decisions.thresholds import Matrix
from manylabel_core.checks import TooFewRows, is_sparse
from manylabel_core.parameters import check_parameters
from manylabel_core.rows import uneven_weights
from manylabel_core.solvers import Progress
from manylabel_core.splitting import Rows

_silent = ContextVar("silent", default=False)


def warn_of_convergence(message: str, stacklevel: int) -> None:
    """Warn that a fit has not converged, unless it runs in `silent`."""
    if not _silent.get():
        warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)


@contextmanager
def silent() -> Iterator[None]:
    """Suppress convergence warnings of fits in this thread; the filters of `warnings` apply to all threads."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


Given = dict[str, Any]
"""Arguments of `fit`, by name."""
Fit = TypeVar("Fit", bound=Callable[..., Any])


def calibrates(learner: DecidingLearner) -> bool:
    """Return whether the parameters of a learner request probabilities."""
    return bool(learner.chooses_cuts if learner.calibrate is None else learner.calibrate)


class DecidingLearner(BaseEstimator):
    """Batch learner with a decision threshold and a calibration per label.

    A subclass has `label_scores`, the scores before thresholds, and a `fit` with `@deciding`.
    """

    optimise: str
    calibrate: bool | None
    folds: int
    threshold_: NDArray[np.float64]
    curves_: NDArray[np.float64] | None
    random_state: Any

    @property
    def chooses_cuts(self) -> bool:
        """Return whether thresholds are tuned for a metric."""
        return self.optimise != "none"

    @property
    def needs_folds(self) -> bool:
        """Return whether thresholds or probabilities need out-of-fold scores."""
        return self.chooses_cuts or bool(self.calibrate)

    def parts(self, n_samples: int) -> Parts:
        """Return the folds of labelled rows for out-of-fold scores, or none if they are not needed or the rows are too
        few."""
        if not self.needs_folds:
            return []
        return divided(n_samples, self.folds, self._seed())

    def undecided(self, n_samples: int) -> str | None:
        """Return why no thresholds and probabilities can be fitted: `parts` is empty although they are needed."""
        if not self.needs_folds or n_samples >= 2 * self.folds:
            return None
        return (
            f"thresholds and probabilities are not fitted: {self.folds} folds need at least {2 * self.folds} rows, "
            f"not {n_samples}"
        )

    def for_fold(self) -> Self:
        """Return a new estimator with the same parameters that fits neither thresholds nor probabilities."""
        return cast(Self, clone(self).set_params(optimise="none", calibrate=None, warm_start=False))

    def fit_decisions(self, scores: ArrayLike, Y: Any, parts: Parts, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the thresholds and curves that the parameters request.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            `label_scores` of the labelled rows, each from an estimator `for_fold` that has not learnt the row.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            Labels of these rows.
        parts : sequence of (rows learnt, rows held out)
            Result of `parts` for this number of rows.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights. None: 1.
        """
        found, true = np.asarray(scores, dtype=np.float64), as_bool(Y)
        weights = uneven_weights(sample_weight, len(true))
        if self.chooses_cuts:
            self.threshold_ = tune_thresholds(found, true, parts, self.optimise, weights)
        if calibrates(self):
            self.curves_ = fit_curves(found, true, weights)
        return self

    def probabilities(self, scores: Matrix) -> Matrix:
        """Return the probabilities of `label_scores`, both of shape (n_samples, n_labels), float64.

        Raises
        ------
        ValueError
            If no probabilities were fitted.
        """
        if self.curves_ is None:
            raise ValueError(
                "no probabilities were fitted: set calibrate=True, or optimise to a metric; `fit` needs at least 2 "
                "rows for each fold"
            )
        return probabilities(scores, self.curves_)

    def _decide(self, given: Given, told: _Told) -> None:
        """Fit thresholds and curves to out-of-fold scores, unless a fold has too few rows or the fit is stopped."""
        rows, Y = self._labelled(given)
        parts = self.parts(len(rows))
        if (why := self.undecided(len(rows))) is not None:
            warnings.warn(why, stacklevel=4)
        scores = np.empty(Y.shape)
        for told.fold, (_, held) in enumerate(parts, start=1):
            fold = self.for_fold()
            try:
                fold.fit(**self._without(given, rows[held]))
            except TooFewRows as error:
                why = f"thresholds and probabilities are not fitted, because a fold cannot be learnt: {error}"
                warnings.warn(why, stacklevel=4)
                return
            if told.stopped:
                return
            scores[held] = fold.label_scores(**self._only(given, rows[held]))
        if parts:
            self.fit_decisions(scores, Y, parts, given.get("sample_weight"))

    def _seed(self) -> int:
        return int(self._random().randint(2**31 - 1))

    def _random(self) -> np.random.RandomState:
        try:
            random: np.random.RandomState = check_random_state(self.random_state)
        except ValueError as error:
            raise ValueError(f"random_state: {error}") from error
        return random

    def _forget_decisions(self) -> None:
        """Set all thresholds to 0, and remove the probabilities."""
        self.threshold_ = np.zeros(len(self.intercept_))
        self.curves_ = None

    def _labelled(self, given: Given) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows to be divided into folds, and their labels, of shape (n_rows, n_labels)."""
        Y = as_bool(given["Y"])
        return np.arange(len(Y)), Y

    def _without(self, given: Given, held: Rows) -> Given:
        """Return the arguments of `fit` without these rows."""
        raise NotImplementedError

    def _only(self, given: Given, held: Rows) -> Given:
        """Return the arguments of `label_scores` for these rows."""
        raise NotImplementedError


class _Told:
    """Adapter that reports the progress of the fit of a fold to a callback, until the callback requests the end."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback
        self.fold = 0
        self.stopped = False

    def __call__(self, at: Progress) -> bool:
        told = replace(at, fold=self.fold) if self.fold else at
        self.stopped = bool(self._callback(told)) or self.stopped
        return self.stopped


def deciding(fit: Fit) -> Fit:
    """Decorator of `fit` that then fits the requested thresholds and curves, unless the caller has stopped the fit."""
    parameters = signature(fit)

    @wraps(fit)
    def fit_and_decide(self: DecidingLearner, *args: Any, **kwargs: Any) -> Any:
        check_parameters(self)
        bound = parameters.bind(self, *args, **kwargs)
        given = {name: value for name, value in bound.arguments.items() if name != "self"}
        told = _Told(given.get("progress"))
        if given.get("progress") is not None:
            given["progress"] = told
        fit(self, **given)
        self._forget_decisions()
        if not told.stopped and self.needs_folds:
            with silent():  # the fit of all rows has already warned
                self._decide(given, told)
        return self

    return cast(Fit, fit_and_decide)


def taken(matrix: Any, rows: Rows) -> Any:
    """Return some rows of an input of `fit`."""
    if is_sparse(matrix):
        return sp.csr_array(matrix)[rows]
    return matrix.iloc[rows] if hasattr(matrix, "iloc") else np.asarray(matrix)[rows]


def as_bool(Y: Any) -> NDArray[np.bool_]:
    """Convert an indicator matrix to a dense array of bool, (n_samples, n_labels)."""
    return np.asarray(Y.toarray() if is_sparse(Y) else Y) > 0
