"""Version in memory, which predicts like its estimator, bit for bit."""

import json
import re
import sys
from collections.abc import Callable, Container, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np

from manylabel_core import batch
from manylabel_core.datasets.dataset import SINGLE
from manylabel_core.datasets.vectors import view_of
from manylabel_core.explanation import NOT_LINEAR
from manylabel_core.records import RecordEncoder, RecordError, RecordLimits
from manylabel_core.records.number_fields import given_name
from manylabel_core.scaling.fitted import as_taken
from manylabel_core.state import DamagedState, NewerState, State
from manylabel_service.errors import InvalidExample, InvalidField, NoProbabilities, ReleaseTooOld
from manylabel_service.hosting.examples import Features
from manylabel_service.hosting.explanations import Explainer, Explanations
from manylabel_service.hosting.predictions import Prediction, Predictions
from manylabel_service.hosting.signature import EXAMPLE, Signature
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.inputs import Columns, Inputs, Record, Views
from manylabel_service.trained.version import Version

MAX_FIELDS = 1_000
"""Maximum number of fields in the description of a model."""


class Predictor:
    """Immutable predictor of one version; any number of threads may use it.

    Attributes
    ----------
    version : metadata of the version.
    labels, views : names of the labels and views of the version.
    label_details : title, description and URI of labels, by label and field.
    estimator : estimator of `manylabel_core.batch`.
    text : text options of the training records; None for numbers only.
    records : encoder of records with these options, or the defaults.
    nbytes : memory in bytes.
    """

    def __init__(self, version: Version, data: bytes, limits: RecordLimits | None = None) -> None:
        """Read the artifact of a version; raise DamagedState if it is incomplete, or cannot predict."""
        artifact = ModelArtifact.from_bytes(data)
        self.version = version
        self.estimator = read_estimator(artifact.estimator)
        self.labels = artifact.labels
        self.label_details = artifact.label_details
        self.text = artifact.text
        self.records = RecordEncoder(self.text, limits)
        self.views = {view: Columns.of(features) for view, features in artifact.features.items()}
        try:
            self._look_at_estimator()
        except (AttributeError, IndexError, InvalidExample, KeyError, StopIteration, TypeError, ValueError) as error:
            raise DamagedState(f"the estimator does not fit its names: {error}") from error

    def _look_at_estimator(self) -> None:
        self._takes_views = takes_views(self.estimator)
        self._columns = {label: column for column, label in enumerate(self.labels)}
        arrays = self.estimator.state().values()
        names = sum(columns.nbytes for columns in self.views.values()) + sum(map(len, self.labels))
        texts = (text for fields in self.label_details.values() for text in fields.values())
        self.nbytes = sum(array.nbytes for array in arrays) + names + sum(map(sys.getsizeof, texts))
        self._is_linear = hasattr(self.estimator, "coef_") and not self._takes_views
        self._shared, self._own = self._thresholds()
        self._most_work = int(sum(array.size for array in arrays))
        self._try()

    @property
    def n_features(self) -> int:
        """Number of columns of all views."""
        return sum(columns.size for columns in self.views.values())

    def signature(self, versions: Sequence[int]) -> Signature:
        """Return the inputs and outputs of the model of this version."""
        sizes = {view: columns.size for view, columns in self.views.items() if columns.names is None}
        inputs: dict[str, int | None] = {EXAMPLE: None}
        if len(sizes) == len(self.views):
            inputs = {**sizes} if self._takes_views else {EXAMPLE: self.n_features}
        records = None if self.text is None else self.records
        meta, likely = self.version.meta, self.estimator.curves_ is not None
        views = tuple(self.views) if self._takes_views else ()
        return Signature(meta.trainer, inputs, self.labels, likely, records, self.version.number, versions, views)

    @property
    def features_digest(self) -> str:
        """Digest, by view, of the names of the features, regardless of their order, or of their number.

        It omits words and categories (``country=FR``) of records, and includes text options and all other names.
        """
        named: dict[str, Any] = {view: self._lasting(columns) for view, columns in self.views.items()}
        if self.text is not None:
            named = {"views": named, "text": self.text.to_json()}
        return blake2b(json.dumps(named, sort_keys=True).encode(), digest_size=16).hexdigest()

    def _lasting(self, columns: Columns) -> int | list[str]:
        if columns.names is None:
            return columns.size
        return sorted(name for name in columns.names.names if self.text is None or "=" not in name)

    @cached_property
    def fields(self) -> Sequence[dict[str, str]]:
        """Names and kinds of the fields of records or tables, derived from the names of the features; at most
        `MAX_FIELDS`."""
        kinds: dict[str, set[str]] = {}
        names = dict.fromkeys(name for one in self.views.values() if one.names for name in one.names.names)
        for name in names:
            field, kind = (name, "number") if self.text is None else _field_of(name, self.text.fields or ())
            if name != given_name(field) or field not in names:
                kinds.setdefault(field, set()).add(kind)
        listed = islice(kinds.items(), MAX_FIELDS)
        return [{"name": name, "kind": found.pop() if len(found) == 1 else "mixed"} for name, found in listed]

    def work(self, inputs: Sequence[Inputs]) -> int:
        """Return the approximate number of multiplications of a prediction."""
        if not self._is_linear:
            return len(inputs) * self._most_work
        features = (x.features if isinstance(x, Record) else x for x in inputs)
        return sum(len(x.values) for x in features if isinstance(x, Features)) * len(self.labels)

    def predict(
        self, inputs: Sequence[Inputs], *, probabilities: bool = False, explainer: Explainer | None = None
    ) -> Sequence[Prediction]:
        """Return labels, scores and requested probabilities of examples, from one call of the estimator.

        Raises InvalidExample, NoProbabilities or InvalidField.
        """
        if probabilities and self.estimator.curves_ is None:
            raise NoProbabilities()
        examples = [self._read(index, each) for index, each in enumerate(inputs)]
        for index, each in enumerate(examples):
            self._check(index, each)
        raw = self._scores(examples)
        scores = np.empty((len(inputs), 1 + len(self.labels)))
        scores[:, 0] = self._shared  # the common threshold of all labels comes first
        scores[:, 1:] = raw - self._own
        likely = list(self.estimator.probabilities(raw)) if probabilities else None
        predictions = Predictions(list(scores), self.labels, likely)
        if explainer is None:
            return predictions
        pairs = zip(examples, predictions, strict=True)
        return [one._replace(explanations=self._explain(each, one.labels, explainer)) for each, one in pairs]

    def _read(self, index: int, inputs: Inputs) -> Features | Views:
        """Return the features of an example or a record, including the features of its optional numbers."""
        x = self._features_of(index, inputs)
        if isinstance(x, Features):
            return self.views[self._first].with_given(x)
        known = {view: own for view, own in x.features.items() if view in self.views}
        return x._replace(
            features={**x.features, **{view: self.views[view].with_given(own) for view, own in known.items()}}
        )

    def _features_of(self, index: int, inputs: Inputs) -> Features | Views:
        if not isinstance(inputs, Record):
            return inputs
        try:
            x = inputs.read_by(self.records)
        except RecordError as error:
            raise InvalidExample(index, ("x", *error.path), error.detail) from error
        if self._takes_views:
            return self._views_of(x)
        return x.with_numbers_of_vectors() if x.vectors else x

    def _views_of(self, x: Features) -> Features | Views:
        """Return a record as views: one view for all fields that are not vectors, and one for each known vector."""
        views = {SINGLE: x._replace(vectors=None)} if SINGLE in self.views else {}
        for field, vector in (x.vectors or {}).items():
            view = view_of(field, {SINGLE})
            if view in self.views and len(vector):
                views[view] = Features(None, None, vector)
        return Views(views, ("x",))

    def _explain(self, inputs: Features | Views, labels: Sequence[str], explainer: Explainer) -> Explanations:
        """Return explanations of the labels predicted for an example."""
        if not self._is_linear:
            raise InvalidField(("explain",), f"must be 0 or omitted: {NOT_LINEAR}")
        x = inputs if isinstance(inputs, Features) else inputs.features[self._first]
        columns = self.views[self._first]
        matrix = as_taken(columns.matrix([x]), self.estimator.scaling)
        asked = [self._columns[label] for label in labels]
        names = None if columns.names is None else columns.names.names
        name_of: Callable[[int], str | int] = int if names is None else names.__getitem__
        return explainer.explain(x, labels, lambda k: self.estimator.explain(matrix, asked, k), name_of)

    def _thresholds(self) -> tuple[float, Any]:
        """Return the common threshold of all labels (0 if labels have separate thresholds), and for each label the
        difference of its threshold from it."""
        threshold: Any = getattr(self.estimator, "threshold_", None)
        curves: Any = getattr(self.estimator, "curves_", None)
        n_labels = len(self.labels)
        if np.shape(threshold) != (n_labels,) or (curves is not None and np.shape(curves) != (2, n_labels)):
            raise DamagedState("the estimator has no thresholds or probabilities that fit its labels")
        shared = float(threshold[0]) if np.ptp(threshold) == 0 else 0.0
        return shared, threshold - shared

    def _try(self) -> None:
        """Predict an example of zeros, so that incompatible parts are found before the first request."""
        blank = Features(None, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32))
        self.predict([Views(dict.fromkeys(self.views, blank)) if self._takes_views else blank])

    def _check(self, index: int, inputs: Features | Views) -> None:
        if isinstance(inputs, Features):
            self._check_single(index, inputs)
        elif not self._takes_views:
            raise InvalidExample(index, inputs.path, "is not accepted, because this model has no views: send x")
        else:
            self._check_views(index, inputs)

    def _check_single(self, index: int, x: Features) -> None:
        if len(self.views) > 1:
            raise InvalidExample(index, ("x",), f"is not accepted: this model has the views {self._known}")
        if (problem := self.views[self._first].problem(x)) is not None:
            raise InvalidExample(index, ("x",), problem)

    def _check_views(self, index: int, views: Views) -> None:
        if not views.features:
            raise InvalidExample(index, views.path, f"must have at least one of the views {self._known}")
        for view, x in views.features.items():
            if view not in self.views:
                raise InvalidExample(
                    index, (*views.path, view), f"is not a view of this model, which has {self._known}"
                )
            if (problem := self.views[view].problem(x)) is not None:
                raise InvalidExample(index, (*views.path, view), problem)

    @property
    def _known(self) -> str:
        return ", ".join(map(repr, self.views))

    @property
    def _first(self) -> str:
        return next(iter(self.views))

    def _scores(self, inputs: Sequence[Features | Views]) -> Any:
        """Return scores before thresholds, of shape (n_samples, n_labels), float64."""
        rows = [{self._first: each} if isinstance(each, Features) else each.features for each in inputs]
        if not self._takes_views:
            matrix = self.views[self._first].matrix([row[self._first] for row in rows])
            return self.estimator.label_scores(as_taken(matrix, self.estimator.scaling))
        X, missing = {}, {}
        for view, columns in self.views.items():
            xs = [row.get(view) for row in rows]
            lacking = np.array([x is None for x in xs])
            if not lacking.all():
                X[view], missing[view] = as_taken(columns.matrix(xs), self.estimator.scaling), lacking
        return self.estimator.label_scores(X, missing=missing)


def takes_views(estimator: Any) -> bool:
    """Return whether an estimator accepts several matrices by name, with rows that may be missing."""
    return hasattr(estimator, "view_names_")


def _field_of(name: str, texts: Container[str]) -> tuple[str, str]:
    """Return the field of a feature of a record, and its kind."""
    field, mark, _ = name.partition("=")
    if mark:
        return field, "text" if field in texts else "category"
    place = re.fullmatch(r"(.+)\[[0-9]+\]", name)
    return (name, "number") if place is None else (place[1], "vector")


def read_estimator(data: bytes) -> Any:
    """Return the estimator that wrote these bytes with `to_bytes`; raises DamagedState or ReleaseTooOld."""
    name = State.from_bytes(data).header.get("estimator")
    if name not in batch.__all__:
        raise DamagedState(f"there is no estimator {name!r} here")
    try:
        return getattr(batch, name).from_bytes(data)
    except NewerState as error:
        raise ReleaseTooOld(f"the estimator of a version is {error}") from error
    except (ValueError, TypeError) as error:
        raise DamagedState(f"not an estimator: {error}") from error
