"""What goes into a call and what comes back: plain frozen values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeAlias, TypeVar


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
"""One example: numbers by name, all numbers in order, or numbers by column."""

Labels: TypeAlias = Collection[str] | Mapping[str, bool]
"""The truth: names are complete (all others are false), a mapping is partial (all others are unknown)."""

Example: TypeAlias = tuple[Features, Labels]
"""An example and its truth."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says about one example."""

    labels: list[str]
    """The labels predicted: those whose score is above 0."""
    scores: dict[str, float]
    """Score minus threshold of every label the model knows."""
    threshold: float
    """The raw threshold that was taken off the scores."""
    position: str
    """Where the model stood in its log when it answered. Opaque."""


@dataclass(frozen=True, slots=True)
class Updated:
    """Receipt of an update."""

    position: str
    """Where the model stands in its log now. Opaque."""
    updates: int
    """Examples the model has learnt in all, these included."""
    durability: str
    """What the update has already survived: ``memory``, ``log`` or ``fsync``."""
    replayed: bool = False
    """True if the server had learnt it in an earlier attempt and has only repeated its answer."""


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
class Metrics:
    """Measures of a model over all its updates, and over the latest ones."""

    cumulative: Measures
    window: WindowMeasures


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """A model as the server describes it."""

    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    durability: str
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


T = TypeVar("T")


def predictions(answer: Mapping[str, Any]) -> list[Prediction]:
    """Predictions from the JSON of a batch, or of one example."""
    position = answer["position"]
    found = answer.get("predictions", [answer])
    return [Prediction(one["labels"], one["scores"], one["threshold"], position) for one in found]


def updated(answer: Mapping[str, Any], replayed: bool) -> Updated:
    """A receipt from its JSON."""
    return Updated(answer["position"], answer["updates"], answer["durability"], replayed)


def metrics(answer: Mapping[str, Any]) -> Metrics:
    """Measures from their JSON."""
    return Metrics(_picked(Measures, answer["cumulative"]), _picked(WindowMeasures, answer["window"]))


def model_status(answer: Mapping[str, Any]) -> ModelStatus:
    """A model's status from its JSON."""
    return _picked(ModelStatus, {**answer, "metrics": metrics(answer["metrics"])})


def _picked(kind: type[T], answer: Mapping[str, Any]) -> T:
    """A dataclass from the keys it knows: a newer server may say more."""
    return kind(**{field.name: answer[field.name] for field in fields(kind)})  # type: ignore[arg-type]
