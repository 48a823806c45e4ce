"""Base of all estimators: a learner of core with river's interface of dicts."""

import inspect
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import numpy as np
from numpy.typing import NDArray
from river import base

from manylabel_clients.http.responses import Explanation, FeaturePart
from manylabel_clients.river.batches import frame_of, pairs_of, rows_of
from manylabel_clients.river.columns import Encoder
from manylabel_clients.river.encoding import PredictedLabels, PredictedProbabilities, both
from manylabel_core.checks import check_count
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.records import RecordEncoder, TextSettings
from manylabel_core.rows import MAX_COLUMNS, as_weights

P = ParamSpec("P")


def of_core(learner: Callable[P, OnlineLearner]) -> Callable[Concatenate[Any, P], None]:
    """Return the constructor of a classifier with the parameters of a learner.

    The parameters keep their names, order, types and defaults, and become attributes, as river expects. The classifier
    has one more parameter, `text`.
    """
    text = inspect.Parameter("text", inspect.Parameter.KEYWORD_ONLY, default=None)
    signature = inspect.signature(learner)
    signature = signature.replace(parameters=[*signature.parameters.values(), text])

    @wraps(OnlineClassifier.__init__)
    def construct(self: OnlineClassifier, /, *args: P.args, **kwargs: P.kwargs) -> None:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        self.__dict__.update(given.arguments)
        kwargs.pop("text", None)
        OnlineClassifier.__init__(self, learner(*args, **kwargs))

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own_signature = signature.replace(parameters=[own, *signature.parameters.values()])
    construct.__signature__ = own_signature  # type: ignore[attr-defined]  # what `inspect`, and so river, reads
    return construct


class OnlineClassifier(base.MultiLabelClassifier):
    """Learner of core as a multi-label classifier of river."""

    def __init__(self, learner: OnlineLearner) -> None:
        learner.pipeline.grow(0, 0)  # an invalid parameter raises here, not at the first example
        self._learner = learner
        text = self.__dict__.get("text")
        self._encoder = Encoder(learner.dtype, RecordEncoder(text and TextSettings.from_json(text)))
        self._drift_detected = False

    def learn_one(self, x: dict[Hashable, Any], y: dict[Hashable, bool], w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x : dict or str
            Numbers or bools by feature, or a record or a text. A feature that is None or absent is missing (parameter
            `missing`).
        y : dict
            True or False by label. A label that is absent is unknown.
        w : float
            Sample weight, above 0 and at most 1,000.

        Raises
        ------
        TypeError, ValueError
            A feature, label or weight is not allowed. Nothing is learnt then.
        """
        encoder = self._encoder
        rows, targets = encoder.arrays(encoder.read([(x, y)]), as_weights([w], 1, "w"))
        self._grow()
        self._drift_detected = bool(self._learner.pipeline.learn(rows, targets).alarms)

    def _grow(self) -> None:
        """Grow the learner to the columns of the encoder."""
        encoder = self._encoder
        self._learner.pipeline.grow(len(encoder.features), len(encoder.labels))
        if encoder.vectors:
            self._learner.pipeline.grow_vectors(tuple(encoder.vectors.values()))
        self._learner.pipeline.pair(encoder.pairs)

    def predict_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[Hashable, bool]:
        """Return True or False for each known label: whether it is predicted.

        Features that were never learnt are ignored. The result has the value False for unknown labels.
        """
        scores = self._learner.pipeline.score(self._encoder.rows([x]))[0]
        return PredictedLabels(zip(self._encoder.labels, (scores[1:] > scores[0]).tolist(), strict=True))

    def predict_proba_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[Hashable, dict[bool, float]]:
        """Return the calibrated probabilities of all labels: ``{label: {False: 1 - p, True: p}}``. An unknown label has
        probability 0.

        `predict_one` applies the decision threshold tuned for `optimise`, or the learnt threshold, not 0.5. Raises
        NotImplementedError if the estimator has calibrate=False.
        """
        probabilities = self._probabilities([x])[0].tolist()
        return PredictedProbabilities(zip(self._encoder.labels, map(both, probabilities), strict=True))

    def _probabilities(self, xs: list[Any]) -> NDArray[np.float64]:
        """Return the probabilities of rows; raises NotImplementedError with calibrate=False."""
        if not self._learner.calibrate:
            raise NotImplementedError("there are no probabilities with calibrate=False")
        pipeline = self._learner.pipeline
        return pipeline.probabilities(pipeline.score(self._encoder.rows(xs)))

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a data frame in order; the state is the same as after `learn_one`, bit for bit.

        Parameters
        ----------
        X : data frame
            A column for each feature. None, NaN and NA are missing.
        y : data frame of as many rows
            A column of bools, or of 0 and 1, for each label; None, NaN and NA mean unknown.
        w : sequence of numbers, optional
            Sample weights; 1 if omitted.

        Raises
        ------
        TypeError, ValueError
            Like `learn_one`, and if the numbers of rows or weights differ. Nothing is learnt then.
        """
        pairs = pairs_of(X, y)
        encoder, weights = self._encoder, as_weights(w, len(pairs), "w")
        if not pairs:
            return
        read = encoder.read(pairs)
        for first, last in encoder.parts(read):
            rows, targets = encoder.arrays(read[first:last], weights[first:last])
            self._grow()
            alarms = self._learner.pipeline.learn(rows, targets).alarms
            self._drift_detected = any(first + row == len(pairs) - 1 for row, _ in alarms)

    def predict_many(self, X: Any) -> Any:
        """Return the predictions of `predict_one` for a data frame, with a column of booleans for each label."""
        scores = self._learner.pipeline.score(self._encoder.rows(rows_of(X, "X")))
        predicted = scores[:, 1:] > scores[:, :1]
        return frame_of({label: predicted[:, column] for label, column in self._encoder.labels.items()}, X)

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probability of each label in each row of a data frame, as a data frame with a column for each
        label."""
        likely = self._probabilities(rows_of(X, "X"))
        return frame_of({label: likely[:, column] for label, column in self._encoder.labels.items()}, X)

    def explain_one(self, x: dict[Hashable, Any], k: int = 5) -> dict[Hashable, Explanation]:
        """Return for each predicted label an `Explanation`: the `k` features with the largest contributions for and
        against it.

        The contributions and the `rest` add up to the label's score minus the threshold. With `optimise`, this is half
        the difference between the log-odds of the label and the log-odds of its threshold. Raises ValueError if `k` is
        below 1, or the estimator has a kernel.
        """
        check_count("k", k, MAX_COLUMNS)
        row, values = self._encoder.rows([x]), self._encoder.values(x)
        scores = self._learner.pipeline.score(row)[0] if self._encoder.labels else np.zeros(1)
        labels = np.flatnonzero(scores[1:] > scores[0]).tolist()
        found = self._learner.pipeline.explain(row, labels, k)
        names, name_of = list(self._encoder.labels), self._encoder.name_of
        explanations: dict[Hashable, Explanation] = {}
        for label, each in zip(labels, found, strict=True):
            parts = [
                FeaturePart(feature=(feature := name_of(column)), value=values[feature], contribution=float(part))
                for column, part in zip(each.features, each.contributions, strict=True)
            ]
            above = [part for part in parts if part.contribution > 0]
            against = parts[len(above) :][::-1]
            explanations[names[label]] = Explanation(for_=above, against=against, rest=each.rest)
        return explanations

    @property
    def drift_detected(self) -> bool:
        """True if a detector raised an alarm at the last learnt example; only with `drift`."""
        return self._drift_detected

    @property
    def n_drifts_detected(self) -> int:
        """Number of alarms of all detectors so far."""
        return int(self._learner.alarms().counts.sum())
