"""What all online learners share on index arrays: parameters, scaling, room to grow, learning, scoring, state."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manylabel_core.checks import check_choice, check_flag
from manylabel_core.online._examples import PROBLEMS, find_problem
from manylabel_core.online.calibration.calibration import Decisions, NoDecisions, chosen_decisions
from manylabel_core.online.drift.detectors import Alarms, Detectors, NoDetectors, chosen_detectors
from manylabel_core.online.parameters import check_positive
from manylabel_core.online.scaling.choices import SCALINGS
from manylabel_core.online.scaling.scaling import Scaling
from manylabel_core.rows import Rows, Targets

DTYPES = ("float32", "float64")
"""Types that weights may have."""


class ArrayLearner(BaseEstimator, metaclass=ABCMeta):
    """The part of `OnlineLearner` that takes index arrays: what a service calls for every request."""

    average: bool
    fit_intercept: bool
    intercept_scaling: float
    scaling: str | None
    calibrate: bool
    optimise: str | None
    drift: str | None
    on_drift: str | None
    dtype: str

    _fixed: tuple[str, ...] = (
        "average",
        "fit_intercept",
        "intercept_scaling",
        "scaling",
        "calibrate",
        "optimise",
        "drift",
        "on_drift",
        "dtype",
    )
    _settled: tuple[object, ...] | None = None
    _n_features = 0
    _n_labels = 0
    _scaler: Scaling
    _decisions: Decisions | NoDecisions
    _detectors: Detectors | NoDetectors
    _step: tuple[float, int, float, int]
    _constant: float

    sounded: Sequence[tuple[int, int]] = ()
    """Alarms of the last call of `learn`, in order: row of the call, and detector as in `alarms`."""

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
        """Bytes of the state; memory in use is up to eight times as much, for room to grow."""
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
        model = self._model_bytes(n_features, n_labels, n_samples, n_scaled)
        labels = self._decisions.nbytes(n_labels) + self._detectors.nbytes(n_labels, n_samples)
        return model + self._scaler.nbytes(n_features) + labels

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
            self._decisions.grow(self._n_labels)
            self._detectors.grow(self._n_labels)

    def reserve(self, n_features: int, n_labels: int) -> None:
        """Take the memory for so many features and labels, changing nothing else.

        `grow` does it where it was not done; on its own it may run in a thread beside `score`, not beside `learn`.
        """
        self._settle()
        n_features, n_labels = max(n_features, self._n_features), max(n_labels, self._n_labels)
        if n_features > self._n_features or n_labels > self._n_labels:
            self._scaler.reserve(n_features)
            self._decisions.reserve(n_labels)
            self._detectors.reserve(n_labels)
            self._enlarge(n_features, n_labels)

    def learn(
        self, rows: Rows, targets: Targets, probabilities: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Learn examples in order.

        Parameters
        ----------
        rows : Rows of n_samples examples
            Feature columns must be below `n_features_`.
        targets : Targets of the same examples
            Label columns must be below their example's `n_labels`, and that at most `n_labels_`.
        probabilities : ndarray of shape (n_samples, n_labels), float64, optional
            Filled with the probability of every label just before its example was learnt. Labels that did not
            exist then have 0.

        Returns
        -------
        ndarray of shape (n_samples, 1 + n_labels), float64
            Scores of each example just before it was learnt, threshold first. Labels that did not exist then
            score 0. With `optimise`, a label's score is the threshold plus half of
            what its log-odds are above its cut.

        Raises
        ------
        ValueError
            If the arrays do not fit together or to the learner, or `probabilities` are asked of a learner with
            calibrate=False; nothing has been learnt then.
        """
        self._settle()
        rows = self._plain(rows)
        problem = find_problem(self._n_features, self._n_labels, *rows, *targets)
        if problem:
            raise ValueError(PROBLEMS[problem])
        n_samples = len(rows.indptr) - 1
        self._check_probabilities(probabilities, n_samples)
        scores = np.empty((n_samples, 1 + self._n_labels), dtype=np.float64)
        if n_samples <= self._rows_at_once:  # the usual call; saves a third of what one example costs
            self.sounded = self._learn_part(rows, targets, scores, probabilities)
            return scores
        sounded: list[tuple[int, int]] = []
        for first, last in _parts(n_samples, lambda: self._rows_at_once):
            own = None if probabilities is None else probabilities[first:last]
            part = rows.part(first, last), targets.part(first, last), scores[first:last]
            sounded += [(first + row, column) for row, column in self._learn_part(*part, own)]
        self.sounded = sounded
        return scores

    def _learn_part(
        self,
        rows: Rows,
        targets: Targets,
        scores: NDArray[np.float64],
        probabilities: NDArray[np.float64] | None,
    ) -> list[tuple[int, int]]:
        """Learn checked rows in order; write their scores and probabilities, and give the alarms."""
        self._learn(self._scaler.learn(rows), targets, scores)
        self._decisions.learn(scores, targets, probabilities)
        sounded = self._detectors.watch(scores, targets)
        if self.on_drift is not None:
            for _, column in sounded:
                self._react(column)
        return sounded

    def _react(self, column: int) -> None:
        """Do what was asked for when the detector of this column sounds; column 0 is that of all labels together."""
        if self.on_drift == "raise":
            self._quicken(column - 1 if column > 0 else None)
        elif column > 0:
            self._restart(column - 1)
            self._decisions.restart(column - 1)

    def alarms(self) -> Alarms:
        """What the detectors of drift have found; without `drift`, nothing."""
        self._settle()
        return self._detectors.alarms()

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
            Scores, threshold first: the same bits that `learn` would give for that example next.
        """
        self._settle()
        rows = self._plain(rows)
        n_samples = len(rows.indptr) - 1
        scores = np.empty((n_samples, 1 + self._n_labels), dtype=np.float64)
        if n_samples <= self._scaler.rows_at_once:
            self._score(self._scaler.score(rows), scores)
        else:
            for first, last in _parts(n_samples, lambda: self._scaler.rows_at_once):
                self._score(self._scaler.score(rows.part(first, last)), scores[first:last])
        self._decisions.cut(scores)
        return scores

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of the labels, given what `score` gave at the present state.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, 1 + n_labels), float64

        Returns
        -------
        ndarray of shape (n_samples, n_labels), float64
            Within [0, 1]; for an example, the same bits that `learn` would give for it next.

        Raises
        ------
        ValueError
            If `scores` has another shape, or the learner has calibrate=False.
        """
        self._settle()
        if scores.ndim != 2 or scores.shape[1] != 1 + self._n_labels:
            raise ValueError(f"scores must have {1 + self._n_labels} columns, as score gives them")
        return self._decisions.rate(scores)

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
        fresh._decisions.restore(owned, fresh._n_labels)
        fresh._detectors.restore(owned, fresh._n_labels)
        self.__dict__.update(fresh.__dict__)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The live part of the arrays of the state; views where possible."""
        return {**self._model(), **self._scaler.state(), **self._decisions.state(), **self._detectors.state()}

    def settled_params(self) -> dict[str, Any]:
        """The parameters, with what None leaves to the learner filled in: a learner of these is the same.

        Raises
        ------
        ValueError
            If one is not allowed, or does not go with the others. The message begins with its name.
        """
        self._check()
        return {**self.get_params(), **self._chosen()}

    def _chosen(self) -> dict[str, Any]:
        """What stands for the parameters that leave a choice to the learner, once they have been checked."""
        return {"scaling": self._chosen_scaling(), "optimise": self._chosen_optimise()}

    def _settle(self, again: bool = False) -> None:
        """Read and check the parameters, at the first use or again; make the empty model at the first use."""
        if self._settled is not None and not again:
            return
        fixed = tuple(getattr(self, name) for name in self._fixed)
        if self._settled not in (None, fixed):
            raise ValueError(f"{', '.join(self._fixed)} cannot be changed once a learner is in use")
        self._check()
        if self._settled is None:
            self._scaler = SCALINGS[self._chosen_scaling()]()
            self._decisions = chosen_decisions(self.calibrate, self._chosen_optimise())
            self._detectors = chosen_detectors(self.drift, self.on_drift)
            self._create()
            self._settled = fixed

    def _check(self) -> None:
        """Read and check the parameters, at no cost in memory."""
        self._step = self._read_step()
        constant = check_positive("intercept_scaling", self.intercept_scaling)
        self._constant = constant if check_flag("fit_intercept", self.fit_intercept) else 0.0
        check_choice("scaling", self._chosen_scaling(), SCALINGS)
        check_choice("dtype", self.dtype, DTYPES)
        chosen_decisions(self.calibrate, self._chosen_optimise())
        chosen_detectors(self.drift, self.on_drift)
        self._check_parameters()
        if self.on_drift == "raise" and not self._shrinks:
            raise ValueError("on_drift must be None or 'restart': the steps of this learner do not shrink")

    @abstractmethod
    def _read_step(self) -> tuple[float, int, float, int]:
        """Check the parameters of a round, and give them as `run_round` takes them."""

    def _chosen_scaling(self) -> str:
        """As asked for, or what suits the learner."""
        return "auto" if self.scaling is None else self.scaling

    def _chosen_optimise(self) -> str:
        """As asked for, or what suits the learner: micro-F1, where there are probabilities."""
        if self.optimise is not None:
            return self.optimise
        return "micro_f1" if check_flag("calibrate", self.calibrate) else "none"

    def _plain(self, rows: Rows) -> Rows:
        """Rows as the kernels are compiled for: values of the learner's type, arrays that may be written."""
        indptr, indices, values = rows
        writeable = indptr.flags.writeable and indices.flags.writeable and values.flags.writeable
        if writeable and values.dtype == self.dtype:
            return rows
        return Rows(np.array(indptr), np.array(indices), np.array(values, dtype=self.dtype))

    def _check_probabilities(self, probabilities: NDArray[np.float64] | None, n_samples: int) -> None:
        if probabilities is None:
            return
        if not self.calibrate:
            raise ValueError("calibrate must be True for probabilities")
        if probabilities.dtype != np.float64 or probabilities.shape != (n_samples, self._n_labels):
            raise ValueError(f"probabilities must be float64 of shape {(n_samples, self._n_labels)}")

    @property
    def _rows_at_once(self) -> int:
        """Most rows learnt in one part of a call: what an alarm does must take effect before the next example."""
        n_rows = self._scaler.rows_at_once
        return n_rows if self.on_drift is None else min(n_rows, self._detectors.n_calm)

    def _check_parameters(self) -> None:
        """Check the parameters that only this learner has."""

    @abstractmethod
    def _create(self) -> None:
        """Make an empty model."""

    @property
    def _shrinks(self) -> bool:
        """Whether steps become smaller as more is learnt, so that `_quicken` has something to undo."""
        return False

    def _restart(self, label: int) -> None:
        """Forget what was learnt of a label: its column is as that of a new label."""
        raise NotImplementedError

    def _quicken(self, label: int | None) -> None:
        """Let the steps of a label, or of everything, be as large as at the start.

        Only learners whose steps shrink have it; `_shrinks` says so.
        """
        raise NotImplementedError

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


def _parts(n_samples: int, size: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """Bounds of the parts that a call is cut into, none for no rows; each of the size allowed when it begins."""
    first = 0
    while first < n_samples:
        last = min(first + size(), n_samples)
        yield first, last
        first = last
