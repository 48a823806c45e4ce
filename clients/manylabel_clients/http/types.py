"""What goes into a call and what comes back: plain frozen values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Protocol, TypeAlias, TypeVar

from manylabel_clients.http.errors import ApiError

TRAINED = "trained"
"""What stands in the place of an algorithm for a model that jobs train."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """An example by column: `values[k]` stands in column `indices[k]`, all others are 0."""

    indices: Sequence[int]
    values: Sequence[float]


class Array(Protocol):
    """Anything with `tolist`, as a NumPy array of shape (n_features,)."""

    def tolist(self, /) -> Any: ...


class SparseRow(Protocol):
    """One row of a SciPy sparse matrix: shape (1, n_features) or (n_features,)."""

    def tocsr(self) -> Any: ...


Features: TypeAlias = Mapping[Any, Any] | Sequence[float] | Sparse | Array | SparseRow
"""One example: numbers by name, all numbers in order, or numbers by column; or several views of one, each in one of
these forms: ``{"views": {"text": ..., "image": ...}}``."""

Labels: TypeAlias = Collection[str] | Mapping[str, bool]
"""The truth: names are complete (all others are false), a mapping is partial (all others are unknown)."""

Example: TypeAlias = tuple[Features, Labels]
"""An example and its truth."""

Truth: TypeAlias = tuple[str, Labels]
"""The id of a kept prediction, and its truth."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says about one example."""

    labels: list[str]
    """The labels predicted: those whose score is above 0."""
    scores: dict[str, float]
    """Score minus threshold of every label the model knows; with `optimise`, half its log-odds above its cut."""
    threshold: float
    """The raw threshold that was taken off the scores."""
    position: str
    """Where the model stood in its log when it answered. Opaque."""
    id: str | None = None
    """For `label`, if the prediction is kept."""
    expires: str | None = None
    """Until when it is kept: RFC 3339, UTC."""
    stale_seconds: float | None = None
    """For how long the server has been without its storage, if it is: others may have learnt since."""
    probabilities: dict[str, float] | None = None
    """How likely each label of `scores` is, if it was asked for."""


@dataclass(frozen=True, slots=True)
class Updated:
    """Receipt of an update."""

    position: str
    """Where the model stands in its log now. Opaque."""
    updates: int
    """Examples the model has learnt in all, these included."""
    durability: str
    """What the update has already survived: ``log`` or ``fsync``."""
    replayed: bool = False
    """True if the server had learnt it in an earlier attempt and has only repeated its answer."""


@dataclass(frozen=True, slots=True)
class RolledBack(Updated):
    """Receipt of a rollback: `updates` is what the model has learnt now."""

    rolled_back_to: str = ""
    """Position of the snapshot."""


@dataclass(frozen=True, slots=True)
class LineAnswer:
    """What a stream answered to one of its examples."""

    line: int
    """Number of the example in the stream, from 1."""
    prediction: Prediction | None
    """What was predicted just before it was learnt; None for one that was refused, or learnt in an earlier attempt."""
    updates: int | None
    """Examples the model had learnt with this one; None as above."""
    replayed: bool
    """True if it was learnt in an earlier attempt."""
    error: ApiError | None
    """Why it was refused; the others were learnt."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model's state as it was, kept on the server."""

    position: str
    """Where the model stood in its log. Opaque."""
    bytes: int
    """Its size."""
    created: str
    """When: RFC 3339, UTC."""
    pinned: bool
    """A rollback needs it, so it stays although newer ones come."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a model."""

    kind: str
    """``update``, ``drift``, ``rollback``, ``promoted``, ``metrics`` or ``dropped`` (some are missing here)."""
    position: str
    """Up to where in its log all has been seen with it: `events` goes on after it. Opaque."""
    data: dict[str, Any]
    """As the server's documentation has it."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Prequential measures: each example was predicted before it was learnt. 0 while there were none."""

    examples: int
    precision: float
    recall: float
    f1: float
    micro_f1: float
    macro_f1: float
    hamming_loss: float
    one_error: float
    ranking_loss: float
    subset_accuracy: float


@dataclass(frozen=True, slots=True)
class WindowMeasures(Measures):
    """The same over the latest examples."""

    size: int
    """Most examples in the window."""


@dataclass(frozen=True, slots=True)
class Alarms:
    """How often a detector of drift has sounded."""

    alarms: int
    last: int | None
    """Examples the model had learnt when it last did; None for never."""


@dataclass(frozen=True, slots=True)
class Drift(Alarms):
    """The alarms of the detector of all labels together, and of those of single labels."""

    labels: dict[str, Alarms]
    """Those that have sounded."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Measures of a model over all its updates, and over the latest ones."""

    cumulative: Measures
    window: WindowMeasures
    drift: Drift | None = None
    """None of a model that does not watch for it."""


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """What a model is. A list of models has nothing more about those that the server has not in its memory."""

    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    durability: str
    limits: dict[str, Any] | None = field(default=None, kw_only=True)
    """Of features and labels, as given."""
    bytes_at_most: int | None = field(default=None, kw_only=True)
    """The most memory that it can take; None where nothing bounds it but the server."""


@dataclass(frozen=True, slots=True)
class ModelStatus(ModelSummary):
    """A model as the server describes it."""

    position: str
    updates: int
    """Examples learnt in all."""
    labels: int
    """How many labels it knows."""
    features: int
    """How many features it knows."""
    bytes: int
    """Size of its state in memory."""
    metrics: Metrics
    ignored: dict[str, int] = field(default_factory=dict, kw_only=True)
    """How many features and labels its limits have left out of examples, each time that one was."""


@dataclass(frozen=True, slots=True)
class TrainedSummary:
    """A model that jobs train. A list of models has nothing more about those that the server has not in its memory."""

    name: str
    algorithm: str
    """``trained``."""


@dataclass(frozen=True, slots=True)
class TrainedStatus(TrainedSummary):
    """A model that jobs train, as the server describes it; what is about a version is about the one served."""

    position: str
    version: int | None
    """The one served; None, as all about it, while none is."""
    versions: int
    """How many there are."""
    trainer: str | None
    params: dict[str, Any] | None
    measures: dict[str, float] | None
    """On rows held out from training, if there were some."""
    labels: int
    """How many labels it knows."""
    features: int
    """How many features it knows, of all views."""
    bytes: int
    """Size of its state in memory."""


AnySummary: TypeAlias = ModelSummary | TrainedSummary
"""What a model is: one that learns online, or one that jobs train."""
AnyStatus: TypeAlias = ModelStatus | TrainedStatus
"""The same in full."""

T = TypeVar("T")


def predictions(answer: Mapping[str, Any]) -> list[Prediction]:
    """Predictions from the JSON of a batch, or of one example."""
    whole = {part: answer.get(part) for part in ("expires", "stale_seconds")}
    found = answer.get("predictions", [answer])
    return [
        Prediction(
            one["labels"],
            one["scores"],
            one["threshold"],
            answer["position"],
            one.get("id"),
            probabilities=one.get("probabilities"),
            **whole,
        )
        for one in found
    ]


def updated(answer: Mapping[str, Any], replayed: bool) -> Updated:
    """A receipt from its JSON."""
    return Updated(answer["position"], answer["updates"], answer["durability"], replayed)


def rolled_back(answer: Mapping[str, Any], replayed: bool) -> RolledBack:
    """The receipt of a rollback from its JSON."""
    receipt = updated(answer, replayed)
    return RolledBack(receipt.position, receipt.updates, receipt.durability, replayed, answer["rolled_back_to"])


def snapshot(answer: Mapping[str, Any]) -> Snapshot:
    """A snapshot from its JSON."""
    return picked(Snapshot, answer)


def metrics(answer: Mapping[str, Any]) -> Metrics:
    """Measures from their JSON."""
    watched = answer.get("drift")
    found = None if watched is None else drift(watched)
    return Metrics(picked(Measures, answer["cumulative"]), picked(WindowMeasures, answer["window"]), found)


def drift(answer: Mapping[str, Any]) -> Drift:
    """Alarms from their JSON."""
    labels = {label: picked(Alarms, alarms) for label, alarms in answer["labels"].items()}
    return picked(Drift, {**answer, "labels": labels})


def model_status(answer: Mapping[str, Any]) -> AnyStatus:
    """A model's status from its JSON."""
    if answer["algorithm"] == TRAINED:
        return picked(TrainedStatus, answer)
    return picked(ModelStatus, {**answer, "metrics": metrics(answer["metrics"])})


def model_summary(answer: Mapping[str, Any]) -> AnySummary:
    """One of a list of models from its JSON."""
    if answer.get("loaded", True):
        return model_status(answer)
    return picked(TrainedSummary, answer) if answer["algorithm"] == TRAINED else picked(ModelSummary, answer)


def picked(kind: type[T], answer: Mapping[str, Any]) -> T:
    """A dataclass from the keys it knows: a newer server may say more, an older one less where there is a default."""
    known: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]
    return kind(**{one.name: answer[one.name] for one in known if one.name in answer or not _has_default(one)})


def _has_default(of: Field[Any]) -> bool:
    return of.default is not MISSING or of.default_factory is not MISSING
