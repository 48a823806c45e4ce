"""What all online learners share on index arrays: parameters, scaling, room to grow, learning, scoring, state."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manylabel_core._parameters import check_choice, check_flag
from manylabel_core.online._checks import PROBLEMS, find_problem
from manylabel_core.online._parameters import check_passes, check_positive
from manylabel_core.online.scaling import SCALINGS, Scaling
from manylabel_core.rows import Rows, Targets

DTYPES = ("float32", "float64")
"""Types that weights may have."""


class ArrayLearner(BaseEstimator, metaclass=ABCMeta):
    """The part of `OnlineLearner` that takes index arrays: what a service calls for every request."""

    eta: float
    passes: int | float
    fit_intercept: bool
    intercept_scaling: float
    scaling: str
    dtype: str

    _fixed: tuple[str, ...] = ("fit_intercept", "intercept_scaling", "scaling", "dtype")
    _settled: tuple[object, ...] | None = None
    _n_features = 0
    _n_labels = 0
    _scaler: Scaling
    _step: tuple[float, int, float]
    _constant: float

    @property
    def n_features_(self) -> int:
        """Number of feature columns."""
        return self._n_features

    @property
    def n_labels_(self) -> int:
        """Number of label columns."""
        return self._n_labels

    @property
    def nbytes(self) -> int:
        """Bytes of the state; memory in use is up to four times as much, for room to grow."""
        return self.nbytes_after(self._n_features, self._n_labels, 0, 0)

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Most bytes that the state can have once it has grown and learnt.

        Parameters
        ----------
        n_features, n_labels : int
            Columns it will then have, at least those it has.
        n_samples, n_values : int
            Examples it will have learnt by then beyond those it has, and their values.
        """
        self._settle()
        n_scaled = self._scaler.values_after(n_features, n_samples, n_values)
        return self._model_bytes(n_features, n_labels, n_samples, n_scaled) + self._scaler.nbytes(n_features)

    def grow(self, n_features: int, n_labels: int) -> None:
        """Make room for at least this many features and labels. A learner never shrinks.

        Raises
        ------
        ValueError
            If a parameter of the constructor is not allowed.
        """
        self.reserve(n_features, n_labels)
        if n_features > self._n_features or n_labels > self._n_labels:
            self._n_features = max(n_features, self._n_features)
            self._n_labels = max(n_labels, self._n_labels)
            self._scaler.grow(self._n_features)

    def reserve(self, n_features: int, n_labels: int) -> None:
        """Take the memory for so many features and labels, changing nothing else.

        `grow` does it where it was not done; on its own it may run in a thread beside `score`, not beside `learn`.
        """
        self._settle()
        n_features, n_labels = max(n_features, self._n_features), max(n_labels, self._n_labels)
        if n_features > self._n_features or n_labels > self._n_labels:
            self._scaler.reserve(n_features)
            self._enlarge(n_features, n_labels)

    def learn(self, rows: Rows, targets: Targets) -> NDArray[np.float64]:
        """Learn examples in order.

        Parameters
        ----------
        rows : Rows of n_samples examples
            Feature columns must be below `n_features_`.
        targets : Targets of the same examples
            Label columns must be below their example's `n_labels`, and that at most `n_labels_`.

        Returns
        -------
        ndarray of shape (n_samples, 1 + n_labels), float64
            Raw scores of each example just before it was learnt, threshold first. Labels that did not exist
            then score 0.

        Raises
        ------
        ValueError
            If the arrays do not fit together or to the learner; nothing has been learnt then.
        """
        self._settle()
        rows = self._plain(rows)
        problem = find_problem(self._n_features, self._n_labels, *rows, *targets)
        if problem:
            raise ValueError(PROBLEMS[problem])
        n_samples = len(rows.indptr) - 1
        scores = np.empty((n_samples, 1 + self._n_labels), dtype=np.float64)
        if n_samples <= self._scaler.rows_at_once:
            self._learn(self._scaler.learn(rows), targets, scores)
            return scores
        for first, last in self._parts(n_samples):
            part = self._scaler.learn(rows.part(first, last))
            self._learn(part, targets.part(first, last), scores[first:last])
        return scores

    def score(self, rows: Rows) -> NDArray[np.float64]:
        """Score examples without learning.

        Parameters
        ----------
        rows : Rows of n_samples examples
            Columns of `n_features_` and above are features never learnt: they have no weight, and count in
            the norm of an example.

        Returns
        -------
        ndarray of shape (n_samples, 1 + n_labels), float64
            Raw scores, threshold first: the same bits that `learn` would give for that example next.
        """
        self._settle()
        rows = self._plain(rows)
        n_samples = len(rows.indptr) - 1
        scores = np.empty((n_samples, 1 + self._n_labels), dtype=np.float64)
        if n_samples <= self._scaler.rows_at_once:
            self._score(self._scaler.score(rows), scores)
            return scores
        for first, last in self._parts(n_samples):
            self._score(self._scaler.score(rows.part(first, last)), scores[first:last])
        return scores

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of the arrays that, with the parameters, are the learner."""
        self._settle()
        return {name: np.array(array, order="C") for name, array in self._arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over the `state` of a learner with the same parameters.

        The arrays may come from anybody: whatever a kernel relies on is checked.

        Raises
        ------
        ValueError
            If an array is missing, does not fit to the parameters, or holds what no learner does; the learner
            is unchanged then.
        """
        self._settle()
        fresh = type(self)(**self.get_params())
        fresh._settle()
        expected = fresh._arrays()
        for name, like in expected.items():
            if name not in arrays or (arrays[name].dtype, arrays[name].ndim) != (like.dtype, like.ndim):
                raise ValueError(f"state must hold {name}, {like.ndim}-D of {like.dtype}")
        owned = {name: np.array(arrays[name], order="C") for name in expected}
        fresh._n_features, fresh._n_labels = fresh._restore(owned)
        fresh._scaler.restore(owned, fresh._n_features)
        self.__dict__.update(fresh.__dict__)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The live part of the arrays of the state; views where possible."""
        return {**self._model(), **self._scaler.state()}

    def _settle(self, again: bool = False) -> None:
        """Read and check the parameters, at the first use or again; make the empty model at the first use."""
        if self._settled is not None and not again:
            return
        fixed = tuple(getattr(self, name) for name in self._fixed)
        if self._settled not in (None, fixed):
            raise ValueError(f"{', '.join(self._fixed)} cannot be changed once a learner is in use")
        self._step = (check_positive("eta", self.eta), *check_passes(self.passes))
        constant = check_positive("intercept_scaling", self.intercept_scaling)
        self._constant = constant if check_flag("fit_intercept", self.fit_intercept) else 0.0
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("dtype", self.dtype, DTYPES)
        self._check_parameters()
        if self._settled is None:
            self._scaler = SCALINGS[self.scaling]()
            self._create()
            self._settled = fixed

    def _plain(self, rows: Rows) -> Rows:
        """Rows as the kernels are compiled for: values of the learner's type, arrays that may be written."""
        indptr, indices, values = rows
        writeable = indptr.flags.writeable and indices.flags.writeable and values.flags.writeable
        if writeable and values.dtype == self.dtype:
            return rows
        return Rows(np.array(indptr), np.array(indices), np.array(values, dtype=self.dtype))

    def _parts(self, n_samples: int) -> Iterator[tuple[int, int]]:
        """Bounds of the parts that a call is cut into to bound the memory of scaling."""
        size = self._scaler.rows_at_once
        for first in range(0, n_samples, size):
            yield first, min(first + size, n_samples)

    def _check_parameters(self) -> None:
        """Check the parameters that only this learner has."""

    @abstractmethod
    def _create(self) -> None:
        """Make an empty model."""

    @abstractmethod
    def _enlarge(self, n_features: int, n_labels: int) -> None:
        """Make room for so many features and labels."""

    @abstractmethod
    def _learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        """Learn checked, scaled rows; write their scores."""

    @abstractmethod
    def _score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        """Write the scores of scaled rows."""

    @abstractmethod
    def _model(self) -> dict[str, NDArray[Any]]:
        """The live part of the model's arrays; views where possible."""

    @abstractmethod
    def _model_bytes(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Bytes of the arrays of `_model` after so much growth, at most."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        """Take over arrays, already owned and of the right types; give the numbers of features and labels.

        Raises ValueError if they do not fit together, or a kernel cannot rely on them.
        """
