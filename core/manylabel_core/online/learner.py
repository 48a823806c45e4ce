"""Base of the online learners: parameters, and scikit-learn's interface for matrices."""

from __future__ import annotations

import operator
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.frames import arranged
from manylabel_core.online.calibration.calibration import MEASURES, check_calibration, make_calibration
from manylabel_core.online.drift.detectors import DETECTORS, REACTIONS, Alarms, Detectors, check_detectors
from manylabel_core.online.estimator import Estimator, not_fitted
from manylabel_core.online.models.model import Model
from manylabel_core.online.pipeline import Pipeline
from manylabel_core.parameters import FLAG, NULL, Choice, check_parameters, declared, parameter, parameters
from manylabel_core.rows import Matrix, as_rows, as_targets, as_weights
from manylabel_core.scaling.choices import MISSING, SCALINGS, check_scaling, make_scaling

DTYPES = ("float32", "float64")
"""Allowed types of weights."""


class _InUse(Estimator):
    """Field of the state of a learner in use; it is not a parameter."""

    _pipeline: Pipeline | None = None
    _fixed_values: tuple[object, ...] = ()
    _checked: tuple[object, ...] = ()
    """Values of all parameters when they were last checked."""
    _feature_names: tuple[str, ...] = ()
    _label_names: tuple[str, ...] = ()


@declared
class OnlineLearner(_InUse, metaclass=ABCMeta):
    """Multi-label model that learns examples in order.

    The model scores every label and a threshold; labels that score above the threshold are predicted. Column 0 of an
    array of raw scores is the threshold, column 1 + l the label l.

    The state depends only on the parameters and on the examples in their order. It does not depend on the grouping of
    examples into calls, on the time when `Pipeline.grow` announced features and labels, or on a `state` and `restore`
    in between. This holds bit for bit.

    Parameters are read at the first use and at every `partial_fit`. A learner declares its parameters as fields (see
    `manylabel_core.parameters`), checks in `_check_parameters` that they do not conflict, and creates its model in
    `_make_model`.
    """

    scaling: str | None = parameter(
        None,
        Choice(tuple(SCALINGS)),
        NULL,
        text="Scaling of features as part of the model. 'auto': quantities that most examples have are standardised "
        "over the stream so far, other features are divided by their usual size and weighted by their rarity, and "
        "every example is scaled to unit norm (an example of up to ten quantities to about unit norm). 'none': "
        "features as they are. 'unit': every example to unit norm. None means 'auto'.",
    )
    missing: str | None = parameter(
        None,
        Choice(MISSING),
        NULL,
        text="Value of a quantity that most examples have and an example lacks. 'mean': the mean of the examples that "
        "have it, only with scaling='auto'. 'zero': 0, as for any other missing feature. None means 'mean' with "
        "scaling='auto', and 'zero' with any other scaling.",
    )
    calibrate: bool = parameter(
        True,
        FLAG,
        text="Whether probabilities are calibrated for each label. Scores and predictions do not depend on it, except "
        "through `optimise`.",
    )
    optimise: str | None = parameter(
        None,
        Choice(tuple(MEASURES)),
        NULL,
        text="Metric that the decision threshold of each label optimises, from the probabilities so far; needs "
        "`calibrate`. With 'none', labels above the learnt threshold are predicted. None means 'micro_f1', or 'none' "
        "if passes are given, without `calibrate`, and for the passive-aggressive baselines.",
    )
    drift: str | None = parameter(
        None,
        Choice(DETECTORS),
        NULL,
        text="Drift detector for the errors of each label and of all labels together. None means no detector.",
    )
    on_drift: str | None = parameter(
        None,
        Choice(REACTIONS),
        NULL,
        text="Reaction to an alarm before the next example is learnt; needs `drift`. 'raise': the steps of the label, "
        "or of all labels at the alarm for all together, become as large as at the start; only for learners whose "
        "steps shrink. 'restart': the label is reset and learnt from scratch. None means no reaction.",
    )
    dtype: str = parameter(
        "float32",
        python=(Choice(DTYPES),),
        text="Type of the stored numbers: weights, coefficients, sums of squares, support vectors. Scores are summed "
        "in float64.",
    )

    @property
    def pipeline(self) -> Pipeline:
        """Return the scaling, model, calibration and detectors, created at the first use; `restore` replaces them.

        They learn and score index arrays, whereas a learner accepts matrices. Raises ValueError if a parameter is not
        allowed.
        """
        if self._pipeline is None:
            self._begin(self._make_pipeline())
        return self._pipeline  # type: ignore[return-value]

    @property
    def n_features_(self) -> int:
        """Return the number of feature columns."""
        return 0 if self._pipeline is None else self._pipeline.n_features

    @property
    def n_labels_(self) -> int:
        """Return the number of label columns."""
        return 0 if self._pipeline is None else self._pipeline.n_labels

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Return the names of the columns of the data frames X that were learnt, object (n_features,).

        Raises AttributeError if X was never a data frame whose columns have names.
        """
        return _as_attribute("feature_names_in_", self._feature_names)

    @property
    def label_names_(self) -> NDArray[Any]:
        """Return the names of the columns of the data frames Y that were learnt, object (n_labels,). Raises
        AttributeError if Y was never a data frame whose columns have names."""
        return _as_attribute("label_names_", self._label_names)

    def partial_fit(
        self, X: Matrix, Y: Matrix, known: Matrix | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the rows of X in order, and return the learner.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Additional columns are new features, which all earlier examples lack. NaN, or an entry that a sparse matrix
            does not store, is a missing value; a 0 is a value. The names of the columns of a data frame are stored, so
            later data frames may have the columns in another order.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            1 for a relevant label, 0 for an irrelevant one. Additional columns are new labels.
        known : array-like or sparse matrix of shape (n_samples, n_labels), bool, optional
            Labels with known truth; the loss omits the others. None: all.
        sample_weight : array-like of shape (n_samples,), optional
            Factor of the loss of each example, above 0 and at most 1,000; no weight makes a step overshoot.
            Probabilities, decision thresholds and the choice of an expert use the same weights. Statistics of features
            and drift detectors count each example once. None: 1.

        Raises
        ------
        ValueError
            If a parameter or argument is not allowed, or columns learnt before are missing. In that case, nothing has
            been learnt.
        """
        self._read_parameters()
        X, feature_names = self._arranged_features(X)
        Y, label_names = arranged("Y", Y, self._label_names)
        rows, n_features = as_rows(X, self.dtype)
        targets = as_targets(Y, None if known is None else arranged("known", known, label_names)[0])
        n_samples = len(rows.indptr) - 1
        if len(targets.complete) != n_samples:
            raise ValueError(f"Y must have {n_samples} rows, like X, not {len(targets.complete)}")
        targets = targets._replace(weights=as_weights(sample_weight, n_samples))
        n_labels = int(targets.n_labels[0]) if n_samples else self.n_labels_
        _check_width("X", n_features, self.n_features_)
        _check_width("Y", n_labels, self.n_labels_)
        _check_names("X", feature_names, n_features, self._feature_names)
        _check_names("Y", label_names, n_labels, self._label_names)
        self.pipeline.grow(n_features, n_labels)
        self.pipeline.learn(rows, targets)
        self._feature_names = feature_names or self._feature_names
        self._label_names = label_names or self._label_names
        return self

    def predict(self, X: Matrix) -> NDArray[np.uint8]:
        """Predict label sets: 1 where a label scores above the threshold, shape (n_samples, n_labels), uint8.

        Raises
        ------
        NotFittedError
            If nothing has been learnt yet.
        ValueError
            X is invalid; see `partial_fit`.
        """
        return (self.decision_function(X) > 0).astype(np.uint8)

    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        """Return the probability of every label, shape (n_samples, n_labels), float64.

        The probabilities of an example do not sum to 1. Raises the errors of `predict`, and ValueError if
        calibrate=False.
        """
        return self.pipeline.probabilities(self._scores(X))

    def decision_function(self, X: Matrix) -> NDArray[np.float64]:
        """Return score minus threshold of every label, shape (n_samples, n_labels), float64.

        With `optimise`, it is half of the distance of the label's log-odds from its decision threshold. Raises the
        errors of `predict`.
        """
        labels, thresholds = self.scores(X)
        return labels - thresholds[:, np.newaxis]

    def scores(self, X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores of the labels, (n_samples, n_labels), and of the threshold, (n_samples,), float64; errors
        as in `predict`.

        With `optimise`, decision thresholds are subtracted from the scores.
        """
        scores = self._scores(X)
        return scores[:, 1:], scores[:, 0]

    def _scores(self, X: Matrix) -> NDArray[np.float64]:
        """Return scores, threshold first."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(f"this {type(self).__name__} has not learnt anything yet; call partial_fit first")
        rows, n_features = as_rows(self._arranged_features(X)[0], self.dtype)
        _check_width("X", n_features, self.n_features_)
        return self.pipeline.score(rows)

    def _arranged_features(self, X: Matrix) -> tuple[Matrix, tuple[str, ...]]:
        return arranged("X", X, self._feature_names)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there are labels to predict."""
        return self.n_labels_ > 0

    def alarms(self) -> Alarms:
        """Return the drift alarms; empty without `drift`."""
        return self.pipeline.alarms()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of the arrays that define the learner together with its parameters. Names of columns are not
        included."""
        return {name: np.array(array, order="C") for name, array in self.pipeline.arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the `state` of a learner with the same parameters.

        The arrays may come from an untrusted source: all conditions that compiled functions require are checked.

        Raises
        ------
        ValueError
            If an array is missing, does not match the parameters, or holds invalid values; in that case, the learner is
            unchanged.
        """
        pipeline = self._make_pipeline()
        pipeline.restore(arrays)
        self._begin(pipeline)
        self._feature_names = self._label_names = ()

    def resolved_params(self) -> dict[str, Any]:
        """Return the parameters with resolved defaults: a learner with these values is identical.

        Raises ValueError, with a message that begins with its name, if a parameter is not allowed or conflicts with
        another.
        """
        self._check()
        return {**self.get_params(), **self._resolved()}

    def _resolved(self) -> dict[str, Any]:
        """Return the resolved values of parameters that are None, after validation."""
        return {
            "scaling": self._resolved_scaling(),
            "missing": self._resolved_missing(),
            "optimise": self._resolved_optimise(),
        }

    def _resolved_scaling(self) -> str:
        """Return the requested scaling, or the default of the learner."""
        return "auto" if self.scaling is None else self.scaling

    def _resolved_missing(self) -> str:
        """Return the requested replacement of missing quantities, or the default of the scaling."""
        if self.missing is not None:
            return self.missing
        return "mean" if self._resolved_scaling() == "auto" else "zero"

    def _resolved_optimise(self) -> str:
        """Return the requested metric, or the default, which is micro-F1 with probabilities."""
        if self.optimise is not None:
            return self.optimise
        return "micro_f1" if self.calibrate else "none"

    def _begin(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._fixed_values, self._checked = self._read_fixed(), ()

    def _read_parameters(self) -> None:
        """Read the parameters again, because they may have changed since the first use."""
        pipeline, given = self.pipeline, _values_of(type(self))(self)
        if len(given) == len(self._checked) and all(map(operator.is_, given, self._checked)):
            return
        if self._fixed_values != self._read_fixed():
            names = ", ".join(each.name for each in parameters(type(self)) if not each.adjustable)
            raise ValueError(f"{names} cannot be changed once a learner is in use")
        self._check()
        self._adjust(pipeline.model)
        self._checked = given

    def _read_fixed(self) -> tuple[object, ...]:
        return tuple(getattr(self, each.name) for each in parameters(type(self)) if not each.adjustable)

    def _make_pipeline(self) -> Pipeline:
        """Return an empty pipeline with the current parameters."""
        self._check()
        return Pipeline(
            make_scaling(self._resolved_scaling(), self._resolved_missing()),
            self._make_model(),
            make_calibration(self.calibrate, self._resolved_optimise(), fitted=not self._stacked),
            None if self.drift is None else Detectors(),
            self.on_drift,
            self.dtype,
        )

    def _check(self) -> None:
        """Check the parameters without allocating memory."""
        check_parameters(self)
        self._check_parameters()
        check_scaling(self._resolved_scaling(), self._resolved_missing())
        check_calibration(self.calibrate, self._resolved_optimise())
        check_detectors(self.drift, self.on_drift)
        if self.on_drift == "raise" and not self._shrinks:
            raise ValueError("on_drift must be None or 'restart': the steps of this learner do not shrink")

    @property
    def _stacked(self) -> bool:
        """True if the model is a stack: its scores are log-odds, and need no curves."""
        return False

    @property
    def _shrinks(self) -> bool:
        """True if steps become smaller as more is learnt, so that `reset_step_sizes` has an effect."""
        return False

    def _check_parameters(self) -> None:
        """Check that the parameters, each of which is valid, do not conflict."""

    @abstractmethod
    def _make_model(self) -> Model:
        """Return an empty model for checked parameters."""

    def _adjust(self, model: Any) -> None:
        """Apply changes of non-fixed parameters to the model."""


@cache
def _values_of(learner: type) -> Callable[[object], tuple[object, ...]]:
    """Return a function that reads all parameters, called by each `partial_fit`."""
    return operator.attrgetter(*(each.name for each in parameters(learner)))


def _as_attribute(name: str, names: tuple[str, ...]) -> NDArray[Any]:
    if not names:
        raise AttributeError(f"{name} is known only after a data frame with names of columns was learnt")
    return np.array(names, dtype=object)


def _check_names(name: str, names: tuple[str, ...], columns: int, seen: tuple[str, ...]) -> None:
    if seen and not names and columns > len(seen):
        raise ValueError(f"{name} must be a data frame to have more than the {len(seen)} columns seen before")


def _check_width(name: str, columns: int, seen: int) -> None:
    if columns < seen:
        raise ValueError(f"{name} must have at least the {seen} columns seen before, not {columns}")
