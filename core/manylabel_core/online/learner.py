"""Online learners: parameters, matrices in and out, in the manners of scikit-learn."""

from __future__ import annotations

import operator
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.explanation import Explanation
from manylabel_core.online.calibration.calibration import MEASURES, PlattParameters, make_calibration
from manylabel_core.online.drift.detectors import DETECTORS, REACTIONS, Alarms, make_detectors
from manylabel_core.online.estimator import Estimator, not_fitted
from manylabel_core.online.models.model import Model
from manylabel_core.online.pipeline import Learnt, LinearForm, Pipeline
from manylabel_core.parameters import FLAG, NULL, Choice, check_parameters, declared, parameter, parameters
from manylabel_core.rows import Matrix, Rows, Targets, as_rows, as_targets, as_weights
from manylabel_core.scaling.choices import MISSING, SCALINGS, make_scaling

DTYPES = ("float32", "float64")
"""Types that weights may have."""


class _InUse(Estimator):
    """State of a learner in use, which is no parameter."""

    _pipeline: Pipeline | None = None
    _fixed_values: tuple[object, ...] = ()
    _checked: tuple[object, ...] = ()
    """Values of all parameters when they were last checked."""


@declared
class OnlineLearner(_InUse, metaclass=ABCMeta):
    """A multi-label model learns one example after the other, in order.

    The model gives every label and a threshold a score; labels that score above the threshold are predicted.
    Column 0 of an array of raw scores is the threshold, column 1 + l the label l.

    The state depends on the parameters and on the examples in their order, and on nothing else: not on how
    they are grouped into calls, nor on when features and labels were announced by `grow`, nor on a `state`
    and `restore` in between. This holds bit for bit.

    Parameters are read at the first use and at every `partial_fit`. A learner declares them as fields (see
    `manylabel_core.parameters`), checks in `_check_parameters` that they go together, and makes its model in
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
    def n_features_(self) -> int:
        """Return the number of feature columns."""
        return 0 if self._pipeline is None else self._pipeline.n_features

    @property
    def n_labels_(self) -> int:
        """Return the number of label columns."""
        return 0 if self._pipeline is None else self._pipeline.n_labels

    def partial_fit(
        self, X: Matrix, Y: Matrix, known: Matrix | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the rows of X in order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            More columns than before are new features, which all examples so far lack. NaN is a missing value, as is
            what a sparse matrix does not store; a 0 is a value.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            1 for a relevant label, 0 for an irrelevant one. More columns than before are new labels.
        known : array-like or sparse matrix of shape (n_samples, n_labels), bool, optional
            Labels whose truth is known; the loss leaves the others out. None: all.
        sample_weight : array-like of shape (n_samples,), optional
            Factor of the loss of each example, above 0 and at most 1,000. None: 1. The step is that of the
            loss so multiplied, which no weight makes overshoot. The counts for probabilities, for decision
            thresholds and for the choice of an expert counts as often; statistics of features, means of weights
            (`average`) and detectors of drift count each example once.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or argument is not allowed, or has fewer columns than before. Nothing has been
            learnt then.
        """
        self._read_parameters()
        rows, n_features = as_rows(X, self.dtype)
        targets = as_targets(Y, known)
        n_samples = len(rows.indptr) - 1
        if len(targets.complete) != n_samples:
            raise ValueError(f"Y must have as many rows as X, {n_samples}, not {len(targets.complete)}")
        targets = targets._replace(weights=as_weights(sample_weight, n_samples))
        n_labels = int(targets.n_labels[0]) if n_samples else self.n_labels_
        _check_width("X", n_features, self.n_features_)
        _check_width("Y", n_labels, self.n_labels_)
        self.grow(n_features, n_labels)
        self.learn(rows, targets)
        return self

    def predict(self, X: Matrix) -> NDArray[np.uint8]:
        """Predict label sets.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), uint8
            1 where a label scores above the threshold.

        Raises
        ------
        NotFittedError
            If nothing has been learnt yet.
        ValueError
            As `partial_fit` for X.
        """
        return (self.decision_function(X) > 0).astype(np.uint8)

    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        """Return the probability of every label.

        Each label has its own: they do not sum to 1 over the labels of an example.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), float64

        Raises
        ------
        NotFittedError
            As `predict`.
        ValueError
            As `predict`; if the learner has calibrate=False.
        """
        return self.probabilities(self._scores(X))

    def decision_function(self, X: Matrix) -> NDArray[np.float64]:
        """Return score minus threshold of every label, shape (n_samples, n_labels), float64; raises as `predict`.

        With `optimise`, it is half of what the label's log-odds are above its decision threshold.
        """
        labels, thresholds = self.scores(X)
        return labels - thresholds[:, np.newaxis]

    def scores(self, X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores of the labels, with `optimise` less their decision thresholds, and of the threshold.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_labels), float64
        thresholds : ndarray of shape (n_samples,), float64

        Raises
        ------
        NotFittedError, ValueError
            As `predict`.
        """
        scores = self._scores(X)
        return scores[:, 1:], scores[:, 0]

    def _scores(self, X: Matrix) -> NDArray[np.float64]:
        """Return scores, threshold first."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(f"this {type(self).__name__} has not learnt anything yet; call partial_fit first")
        rows, n_features = as_rows(X, self.dtype)
        _check_width("X", n_features, self.n_features_)
        return self.score(rows)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is something to predict with."""
        return self.n_labels_ > 0

    def learn(self, rows: Rows, targets: Targets, probabilities: bool = False) -> Learnt:
        """Learn examples, given as index arrays, in order.

        Parameters
        ----------
        rows : Rows of n_samples examples
            Feature columns must be below `n_features_`.
        targets : Targets of the same examples
            Label columns must be below their example's `n_labels`, and that at most `n_labels_`.
        probabilities : bool, default=False
            Whether probabilities are wanted too.

        Returns
        -------
        Learnt
            Predictions for each example just before it was learnt, and the alarms.

        Raises
        ------
        ValueError
            If the arrays do not fit together or to the learner, or `probabilities` are asked of a learner with
            calibrate=False; nothing has been learnt then.
        """
        return (self._pipeline or self._in_use()).learn(rows, targets, probabilities)

    def score(self, rows: Rows, new_words: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Score examples, given as index arrays, without learning.

        Parameters
        ----------
        rows : Rows of n_samples examples
            Columns of `n_features_` and above are features never learnt: they have no weight, and count in
            the norm of an example.
        new_words : ndarray of shape (n_new,), int64, optional
            Which words of titles the columns from `n_features_` on are, -1 for none, as `link` would say it.

        Returns
        -------
        ndarray of shape (n_samples, 1 + n_labels), float64
            Scores, threshold first: the same bits that `learn` would give for that example next.

        Raises
        ------
        ValueError
            If words are given to a learner that takes no titles.
        """
        return (self._pipeline or self._in_use()).score(rows, new_words)

    @property
    def takes_titles(self) -> bool:
        """Return whether titles of labels count: they do with step="stacked"."""
        return self._stacked

    def set_titles(self, titles: Mapping[int, ArrayLike]) -> None:
        """Replace the words of titles of labels.

        An example that has words of a label's title speaks for the label, by as much as the titles of all labels have
        turned out to be worth: a label can be predicted before its first example.

        Parameters
        ----------
        titles : Mapping of int to array-like of shape (n_words,), int64
            By the column of a label the words of its title, at most 100: numbers of your choice, from 0 to 2^63 - 1.
            None takes the title away.

        Raises
        ------
        ValueError
            If there is no such label, or these are no words; if the learner takes no titles. Nothing has changed then.

        Examples
        --------
        >>> from manylabel_core import FALT
        >>> from manylabel_core.rows import as_rows
        >>> cat, dog = 0, 1
        >>> model = FALT()
        >>> model.grow(2, 2)
        >>> model.set_titles({0: [cat], 1: [dog]})
        >>> model.link([0, 1], [cat, dog])
        >>> rows, _ = as_rows([[1.0, 0.0], [0.0, 1.0]])
        >>> model.score(rows)[:, 1:].argmax(axis=1).tolist()
        [0, 1]
        """
        self._in_use().set_titles(titles)

    def link(self, features: ArrayLike, words: ArrayLike) -> None:
        """Map features to words; words in no title are omitted.

        Bits depend on what is linked, and not on when, as long as it is before a feature's first example.

        Parameters
        ----------
        features : array-like of shape (n_linked,), int
            Columns below `n_features_`, each once.
        words : array-like of shape (n_linked,), int64
            The word of each, as in `set_titles`; -1 for none.

        Raises
        ------
        ValueError
            As `set_titles`; if there is no such feature.
        """
        self._in_use().link(features, words)

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of labels from scores of the current state.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, 1 + n_labels), float64

        Returns
        -------
        ndarray of shape (n_samples, n_labels), float64

        Raises
        ------
        ValueError
            If scores are not of this shape; if the learner has calibrate=False.
        """
        return self._in_use().probabilities(scores)

    def explain(
        self, row: Rows, labels: Sequence[int], k: int, new_words: NDArray[np.int64] | None = None
    ) -> list[Explanation]:
        """Explain the scores of some labels by the features of an example.

        A score is that of `decision_function`. A feature contributes its value as the model sees it times the weight
        of the label less that of the threshold: one that is standardised counts by how far it is from its mean, and
        with `optimise` all is multiplied by the slope of the label's probability, as the score is.

        Parameters
        ----------
        row : Rows of one example
            The same as for `score`.
        labels : columns of labels, below `n_labels_`
        k : int
            The most features listed for a label, and the most against it.
        new_words : ndarray of shape (n_new,), int64, optional
            The same as for `score`.

        Returns
        -------
        list of Explanation
            One for each of `labels`.

        Raises
        ------
        manylabel_core.explanation.NotLinear
            If the model has no weights of features: those with kernels.
        ValueError
            If there is too much to look through.

        Examples
        --------
        >>> import numpy as np
        >>> from manylabel_core import FALT
        >>> from manylabel_core.rows import as_rows
        >>> X, Y = np.eye(3), np.eye(3, dtype=int)
        >>> model = FALT().partial_fit(X, Y)
        >>> row, _ = as_rows([[1.0, 0.0, 1.0]])
        >>> model.explain(row, [0], 1)[0].features
        array([0, 2], dtype=int32)
        """
        return self._in_use().explain(row, labels, k, new_words)

    def curves(self) -> PlattParameters | None:
        """Return the probability curves and decision thresholds of labels; None with calibrate=False."""
        return self._in_use().curves()

    def alarms(self) -> Alarms:
        """Return the drift alarms; empty without `drift`."""
        return self._in_use().alarms()

    def grow(self, n_features: int, n_labels: int) -> None:
        """Grow to at least these numbers of features and labels. A learner never shrinks.

        Raises
        ------
        ValueError
            If a parameter of the constructor is not allowed.
        """
        self._in_use().grow(n_features, n_labels)

    @property
    def vectors(self) -> tuple[int, ...]:
        """Return the lengths of the vectors of each field."""
        return self._in_use().vectors

    def grow_vectors(self, lengths: Sequence[int]) -> None:
        """Grow to vector fields of these lengths, the first of which may exist.

        Rows list the values of the vectors of an example, all of them, behind its other features: those of the first
        field have the columns from `rows.VECTOR_COLUMNS` on, those of each further field the columns after it.

        Parameters
        ----------
        lengths : sequence of int
            Length of the vectors of each field.

        Raises
        ------
        ValueError
            If the known fields have other lengths, or if there are too many or too long ones.

        Examples
        --------
        >>> import numpy as np
        >>> from manylabel_core import FALT
        >>> from manylabel_core.rows import VECTOR_COLUMNS, Rows, as_targets
        >>> model = FALT()
        >>> model.grow(1, 2)
        >>> model.grow_vectors([2])
        >>> columns = np.array([0, VECTOR_COLUMNS, VECTOR_COLUMNS + 1] * 2, dtype=np.int32)
        >>> values = np.array([1.0, 0.2, -0.3, 1.0, -0.1, 0.4], dtype=np.float32)
        >>> rows = Rows(np.array([0, 3, 6]), columns, values)
        >>> _ = model.learn(rows, as_targets([[1, 0], [0, 1]]))
        >>> model.score(rows).shape
        (2, 3)
        """
        self._in_use().grow_vectors(lengths)

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        """Allocate the memory for this number of features and labels, changing nothing else.

        `grow` does it where it was not done; on its own it may run in a thread beside `score`, not beside `learn`. With
        `touch`, the system must give large memory now, and not when it is first written to.
        """
        self._in_use().reserve(n_features, n_labels, touch)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the state; allocated memory is up to eight times as much."""
        return self.nbytes_after(self.n_features_, self.n_labels_, 0, 0)

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Return the most bytes that the state can have once it has grown and learnt.

        Parameters
        ----------
        n_features, n_labels : int
            Columns it will then have, at least those it has.
        n_samples, n_values : int
            Examples it will have learnt by then beyond those it has, and their values.
        """
        return self._in_use().nbytes_after(n_features, n_labels, n_samples, n_values)

    def nbytes_of_vectors(self, n_values: int, n_features: int, n_labels: int) -> int:
        """Return the most bytes that new fields of vectors add to `nbytes_after` with `n_values` more features.

        Parameters
        ----------
        n_values : int
            Values of one vector of each new field.
        n_features, n_labels : int
            Columns it will then have.
        """
        return self._in_use().nbytes_of_vectors(n_values, n_features, n_labels)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of the arrays that, with the parameters, are the learner."""
        return {name: np.array(array, order="C") for name, array in self.arrays().items()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of `state`, views where possible: they change as the learner learns."""
        return self._in_use().arrays()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the `state` of a learner with the same parameters.

        The arrays may come from anybody: whatever a compiled function relies on is checked.

        Raises
        ------
        ValueError
            If an array is missing, does not fit to the parameters, or holds what no learner does; the learner
            is unchanged then.
        """
        pipeline = self._make_pipeline()
        pipeline.restore(arrays)
        self._begin(pipeline)

    def linear_form(self) -> LinearForm:
        """Return the linear function from scaled features to scores and probabilities at the current state.

        Raises
        ------
        manylabel_core.explanation.NotLinear
            If the model is not linear, or titles of labels count.
        NotFittedError
            If nothing has been learnt yet.
        """
        if self._pipeline is None:
            raise not_fitted("nothing has been learnt yet")
        return self._pipeline.linear_form()

    def resolved_params(self) -> dict[str, Any]:
        """Return the parameters with resolved defaults; a learner with these is identical.

        Raises
        ------
        ValueError
            If one is not allowed, or does not go with the others. The message begins with its name.
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
        """Return the replacement of missing quantities, or the default of the scaling."""
        if self.missing is not None:
            return self.missing
        return "mean" if self._resolved_scaling() == "auto" else "zero"

    def _resolved_optimise(self) -> str:
        """Return the requested metric, or the default: micro-F1 if there are probabilities."""
        if self.optimise is not None:
            return self.optimise
        return "micro_f1" if self.calibrate else "none"

    def _in_use(self) -> Pipeline:
        """Return the pipeline, made at the first use."""
        if self._pipeline is None:
            self._begin(self._make_pipeline())
        return self._pipeline  # type: ignore[return-value]

    def _begin(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._fixed_values, self._checked = self._read_fixed(), ()

    def _read_parameters(self) -> None:
        """Read the parameters again, as they may have changed since the first use."""
        pipeline, given = self._in_use(), _values_of(type(self))(self)
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
        """Return an empty pipeline of the present parameters."""
        self._check()
        return Pipeline(
            make_scaling(self._resolved_scaling(), self._resolved_missing()),
            self._make_model(),
            make_calibration(self.calibrate, self._resolved_optimise(), fitted=not self._stacked),
            make_detectors(self.drift, self.on_drift),
            self.on_drift,
            self.dtype,
        )

    def _check(self) -> None:
        """Check the parameters, at no cost in memory."""
        check_parameters(self)
        self._check_parameters()
        make_scaling(self._resolved_scaling(), self._resolved_missing())
        make_calibration(self.calibrate, self._resolved_optimise())
        make_detectors(self.drift, self.on_drift)
        if self.on_drift == "raise" and not self._shrinks:
            raise ValueError("on_drift must be None or 'restart': the steps of this learner do not shrink")

    @property
    def _stacked(self) -> bool:
        """True if the model is a stack: its scores are log-odds, and need no curves."""
        return False

    @property
    def _shrinks(self) -> bool:
        """True if steps become smaller as more is learnt, so that `reset_step_sizes` has something to undo."""
        return False

    def _check_parameters(self) -> None:
        """Check that the parameters go together, each of which has an allowed value."""

    @abstractmethod
    def _make_model(self) -> Model:
        """Return an empty model of checked parameters."""

    def _adjust(self, model: Any) -> None:
        """Apply changes of parameters that are not fixed to the model."""


@cache
def _values_of(learner: type) -> Callable[[object], tuple[object, ...]]:
    """Return a function that reads all parameters, which each call of `partial_fit` does."""
    return operator.attrgetter(*(each.name for each in parameters(learner)))


def _check_width(name: str, columns: int, seen: int) -> None:
    if columns < seen:
        raise ValueError(f"{name} must have at least the {seen} columns seen before, not {columns}")
