"""Metrics of the predictions that versions of a trained model served, from delayed labels; nothing is learnt.

Each version has separate metrics of its responses, regardless of the version that is served when the labels arrive. The
columns are the labels of the version in the order of its scores, then labels that occurred only as true labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_core import Prequential, Vocabulary
from manylabel_core.online.calibration.calibration import PlattParameters
from manylabel_core.online.drift.detectors import Alarms, Detectors
from manylabel_core.online.pipeline import Learnt
from manylabel_core.rows import NO_WEIGHTS, Rows, Targets
from manylabel_core.state import DamagedState, State
from manylabel_service.hosting.examples import Example
from manylabel_service.online.spec.trained import WINDOW
from manylabel_service.online.state.label_table import LabelFacts, drift_to_json, measured
from manylabel_service.online.state.partial_truths import PartialLabels

MAX_MEASURED = 100
"""Maximum number of versions with metrics, including deleted versions; above it, the least recently labelled version is
dropped.
"""


class ServedBy(NamedTuple):
    """Version of a trained model that served a prediction, with its labels in the order of the scores."""

    version: int
    labels: tuple[str, ...]


class NothingLearnt:
    """Learner that learns nothing, and is also its pipeline: it has columns for all names, and all scores are 0."""

    calibrate = False
    drift = None
    nbytes = 0
    takes_titles = False
    vectors: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.n_features_ = self.n_labels_ = 0

    @property
    def pipeline(self) -> Self:
        """Return the learner itself."""
        return self

    def pair(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Do nothing."""

    def grow_vectors(self, lengths: Sequence[int]) -> None:
        """Do nothing: vectors are not learnt."""

    def feature_counts(self) -> None:
        """Return None: features are not counted."""

    def grow(self, n_features: int, n_labels: int) -> None:
        """Count columns."""
        self.n_features_, self.n_labels_ = max(n_features, self.n_features_), max(n_labels, self.n_labels_)

    def reserve(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        """Do nothing: no memory is needed."""

    def nbytes_after(
        self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int | None = None
    ) -> int:
        """Return 0: no memory is needed."""
        return 0

    def nbytes_of_vectors(self, n_values: int, n_features: int, n_labels: int) -> int:
        """Return 0: no memory is needed."""
        return 0

    def learn(self, rows: Rows, targets: Targets, probabilities: bool = False) -> Learnt:
        """Learn nothing; return scores of 0."""
        scores = np.zeros((len(rows.indptr) - 1, 1 + int(targets.n_labels.max(initial=0))))
        return Learnt(scores, scores[:, 1:] if probabilities else None, [])

    def score(self, rows: Rows, new_words: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return scores of 0."""
        return np.zeros((len(rows.indptr) - 1, 1 + self.n_labels_))

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities of 0."""
        return np.zeros_like(scores[:, 1:])

    def curves(self) -> PlattParameters | None:
        """Return None: there are no probabilities."""
        return None

    def alarms(self) -> Alarms:
        """Return no alarms."""
        return Alarms(*np.zeros((2, 1 + self.n_labels_), dtype=np.int64))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers of columns."""
        return {"columns": np.array([self.n_features_, self.n_labels_], dtype=np.int64)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the output of `arrays`; raises ValueError."""
        columns = arrays["columns"]
        if columns.shape != (2,) or columns.dtype != np.int64 or (columns < 0).any():
            raise ValueError("columns must be two int64 numbers, at least 0")
        self.n_features_, self.n_labels_ = columns.tolist()


class VersionMeasures:
    """Metrics of the served predictions of one version, with drift detectors.

    Attributes
    ----------
    labelled_at : number of the latest labelled response of the version, from 1.
    """

    def __init__(self, labels: tuple[str, ...] = ()) -> None:
        self.labels = Vocabulary(labels)
        self.prequential = Prequential(window=WINDOW)
        self.detectors = Detectors()
        self.detectors.grow(n_labels=len(labels))
        self.labelled_at = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        drift = self.detectors.nbytes_after(0, len(self.labels), 0, 0)
        return self.labels.nbytes + self.prequential.nbytes + drift

    @property
    def updates(self) -> int:
        """Number of labelled responses; each part of partial labels counts."""
        return self.prequential.given

    @property
    def label_facts(self) -> LabelFacts:
        """Facts about the labels."""
        return LabelFacts(self.labels.names, self.prequential, (), None, self.detectors.alarms())

    def measures(self) -> dict[str, Any]:
        """Return the metrics, cumulative and over the window, and drift."""
        return {**measured(self.prequential), "drift": drift_to_json(*self.detectors.alarms(), self.labels.names)}

    def to_bytes(self) -> bytes:
        """Serialise the metrics for `from_bytes`."""
        parts = {"labels": self.labels.state(), "measures": self.prequential.state(), "drift": self.detectors.state()}
        arrays = {f"{part}/{name}": array for part, named in parts.items() for name, array in named.items()}
        return State(arrays, {"labelled_at": self.labelled_at}).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "VersionMeasures":
        """Return the object that `to_bytes` wrote; raise ValueError for other bytes."""
        try:
            arrays, header = State.from_bytes(data)
        except DamagedState as error:
            raise ValueError(f"answers: {error}") from error
        parts: dict[str, dict[str, NDArray[Any]]] = {"labels": {}, "measures": {}, "drift": {}}
        for name, array in arrays.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = array
        found = cls()
        found.labels = Vocabulary.from_state(parts["labels"])
        found.prequential.restore(parts["measures"])
        found.detectors.restore(parts["drift"], 0, len(found.labels))
        if len(parts["measures"]["seen"]) > len(found.labels):
            raise ValueError("answers: more labels are measured than exist")
        found.labelled_at = int(header["labelled_at"])
        return found


class ServedMetrics:
    """Metrics of a trained model by version."""

    def __init__(self) -> None:
        self._versions: dict[int, VersionMeasures] = {}
        self._given = 0

    def __iter__(self) -> Iterator[int]:
        return iter(self._versions)

    def __getitem__(self, version: int) -> VersionMeasures:
        """Return the metrics of a version; empty ones if none of its responses was labelled."""
        return self._versions.get(version) or VersionMeasures()

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(measures.nbytes for measures in self._versions.values())

    def measure(
        self, answered: ServedBy, served: NDArray[np.float64], example: Example, id: str, parts: PartialLabels
    ) -> list[str | None]:
        """Evaluate a response with all or some of its true labels; return the labels with a drift alarm.

        Parameters
        ----------
        answered : version that predicted.
        served : scores, one per label of the version.
        example : true labels and sample weight.
        id, parts : id of the prediction, and all predictions with partial labels.
        """
        self._given += 1
        version = self._of(answered, parts)
        version.labelled_at, y = self._given, example.y
        columns = version.labels.add(y.names)
        names = version.labels.names
        scores, n_known = np.zeros((1, 1 + len(names))), len(answered.labels)
        scores[0, 1 : 1 + n_known] = served
        targets = Targets(
            indptr=np.array([0, len(columns)], dtype=np.int64),
            indices=np.array(columns, dtype=np.int32),
            signs=y.signs.copy(),  # compiled functions expect writable arrays
            complete=np.array([y.complete]),
            n_labels=np.array([len(names)], dtype=np.int64),
            weights=NO_WEIGHTS if example.weight == 1.0 else np.array([example.weight]),
        )
        given = scores, targets, np.array([n_known], dtype=np.int64)
        if y.complete:
            version.prequential.update(*given)
        else:
            parts.measure(id, version.prequential, *given, version=answered.version)
        version.detectors.grow(n_labels=len(names))
        sounded = [column for _, column in version.detectors.watch(scores, targets)]
        for column in sounded:
            version.prequential.note_alarm(version.updates, column)
        return [names[column - 1] if column else None for column in sounded]

    def _of(self, answered: ServedBy, parts: PartialLabels) -> VersionMeasures:
        """Return the metrics of a version, created if necessary; above the limit, the oldest are removed."""
        number, labels = answered
        version = self._versions.get(number)
        if version is not None and version.labels.names[: len(labels)] == labels:
            return version
        parts.close_version(number)  # the store lost data, and the number was reused
        version = self._versions[number] = VersionMeasures(labels)
        if len(self._versions) > MAX_MEASURED:
            oldest = min((each for each in self._versions if each != number), key=self._labelled_at)
            del self._versions[oldest]
            parts.close_version(oldest)
        return version

    def _labelled_at(self, version: int) -> int:
        return self._versions[version].labelled_at

    def to_array(self) -> NDArray[np.uint8]:
        """Serialise the metrics of all versions."""
        rows = [[number, measures.to_bytes()] for number, measures in self._versions.items()]
        return np.frombuffer(msgpack.packb([self._given, rows]), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8]) -> "ServedMetrics":
        """Return the object that `to_array` wrote; raise ValueError for other bytes."""
        answers = cls()
        try:
            answers._given, rows = msgpack.unpackb(packed.tobytes())
            answers._versions = {int(number): VersionMeasures.from_bytes(data) for number, data in rows}
        except (TypeError, KeyError, AttributeError, msgpack.UnpackException) as error:
            raise ValueError(f"answers: {error!r}") from error
        return answers

    def check(self, updates: int, parts: PartialLabels) -> None:
        """Raise ValueError unless `updates` responses were labelled, and all partial labels belong to these
        versions."""
        if self._given != updates or any(each.labelled_at > updates for each in self._versions.values()):
            raise ValueError("answers: the count of labelled responses differs from the number of updates")
        for id, truth in parts.measured.items():
            if (version := self._versions.get(parts.versions.get(id, 0))) is None:
                raise ValueError("answers: partial labels belong to a version that is not measured")
            version.prequential.check_parts([truth])
