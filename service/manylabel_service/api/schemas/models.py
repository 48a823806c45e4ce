"""Answers about models, their snapshots, and the server."""

from typing import Any, Literal

from manylabel_service.api.schemas.base import Answer, At
from manylabel_service.online.spec.limits import Limits
from manylabel_service.storage import Durability


class Measures(Answer):
    """Prequential measures: each example was predicted before it was learnt. 0 while there were none."""

    examples: int
    """Examples covered."""
    precision: float
    """Mean over examples."""
    recall: float
    """Mean over examples."""
    f1: float
    """Harmonic mean of that precision and that recall."""
    micro_f1: float
    """F1 of all decisions pooled."""
    macro_f1: float
    """Mean over labels of their F1."""
    hamming_loss: float
    """Share of decisions that were wrong."""
    one_error: float
    """Share of examples whose highest scored label was wrong."""
    ranking_loss: float
    """Share of pairs of a relevant and an irrelevant label in the wrong order; ties are wrong."""
    subset_accuracy: float
    """Share of examples with every decision right."""


class WindowMeasures(Measures):
    """The same over the latest examples."""

    size: int
    """Examples that the window holds at most."""


class Alarms(Answer):
    """How often a detector of drift has sounded."""

    alarms: int
    last: int | None
    """Examples learnt when it last did; null for never."""


class Drift(Alarms):
    """Alarms of the detector of all labels together, and of those of single labels."""

    labels: dict[str, Alarms]
    """Those that have sounded."""


class BothMeasures(Answer):
    """Measures since the model was created, and over its window."""

    cumulative: Measures
    window: WindowMeasures
    drift: Drift | None = None
    """Only of a model that watches for drift."""


class Metrics(BothMeasures, At):
    """Prequential measures of a model at one position."""

    updates: int
    """Examples that the model has learnt in all."""


class Ignored(Answer):
    """How many features and labels were left out, each time that one was."""

    features: int
    labels: int


class ModelStatus(At):
    """A model as it is now."""

    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    limits: Limits | None
    """As given."""
    durability: Durability
    updates: int
    """Examples learnt."""
    labels: int
    """Labels known."""
    features: int
    """Features known."""
    bytes: int
    """Memory held."""
    bytes_at_most: int | None
    """The most that `bytes` can come to; null where nothing bounds it but the server."""
    ignored: Ignored
    """What its limits have left out of examples learnt."""
    metrics: BothMeasures
    loaded: Literal[True]
    """It is in the memory of this server."""


class StoredModel(Answer):
    """A model that is not in the memory of this server; it is loaded when it is asked for."""

    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    limits: Limits | None
    """As given."""
    durability: Durability
    bytes_at_most: int | None
    """The most memory that it can take; null where nothing bounds it but the server."""
    loaded: Literal[False]


class TrainedStatus(At):
    """A trained model as it is now."""

    name: str
    algorithm: Literal["trained"]
    trainer: str | None
    """Of the version served; null, as all about it, while none is."""
    params: dict[str, Any] | None
    measures: dict[str, float] | None
    """On rows held out from training, if there were some."""
    version: int | None
    """The one served."""
    versions: int
    """How many there are."""
    labels: int
    features: int
    """Of all views."""
    bytes: int
    """Memory held."""
    loaded: Literal[True]


class StoredTrained(Answer):
    """A trained model that is not in the memory of this server; it is loaded when it is asked for."""

    name: str
    algorithm: Literal["trained"]
    loaded: Literal[False]


class ModelList(Answer):
    """All models, by name."""

    models: list[ModelStatus | TrainedStatus | StoredModel | StoredTrained]


class Snapshot(Answer):
    """A model's state after the update at a position."""

    position: str
    bytes: int
    created: str
    """When (RFC 3339)."""
    pinned: bool
    """A rollback in the log needs it: it is not removed when others take its place."""


class SnapshotList(Answer):
    """The snapshots of a model, the newest state first."""

    snapshots: list[Snapshot]


class Alive(Answer):
    """The process serves."""

    live: Literal[True]


class Ready(Answer):
    """Every model is restored and caught up, but those that failed."""

    ready: Literal[True]
    failed: list[str]
    """Models that could not be restored; the log says why."""
    storage_gone_seconds: float | None = None
    """For how long the store has been out of reach, if it is."""
