"""Descriptions of online models and of trained models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from manylabel_clients.http.resources.metrics import Metrics
from manylabel_clients.http.transport.json_body import from_json

TRAINED = "trained"
"""Value of `algorithm` for a trained model."""


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Summary of a model that is not in the server's memory."""

    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    limits: dict[str, Any] | None = field(default=None, kw_only=True)
    """Limits on features and labels."""
    missing: str | None = field(default=None, kw_only=True)
    """Replacement of a missing quantity: ``mean`` or ``zero``."""
    text: dict[str, Any] | None = field(default=None, kw_only=True)
    """Text options of records with all defaults."""
    follow: dict[str, Any] | None = field(default=None, kw_only=True)
    """The "model" whose log it learns from (None if the key may not see it), and where that part begins and ends
    ("begin", "until"); None: its own.
    """


@dataclass(frozen=True, slots=True)
class FieldOfModel:
    """Field of the records that an online model has learnt."""

    name: str
    kind: str
    """number, flag, category, text, vector or mixed."""
    share: float | None
    """Share of the examples that have the field; None if unknown."""
    count: int | None
    """Number of examples that have the field; None if unknown."""
    examples: Sequence[float | str]
    """Up to three values."""
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class ModelStatus(ModelSummary):
    """Status of an online model."""

    position: str
    updates: int
    """Number of learnt examples."""
    labels: int
    """Number of labels that the model knows."""
    features: int
    """Number of features that the model knows."""
    bytes: int
    """Size of its state in memory."""
    metrics: Metrics
    groups: Sequence[dict[str, Any]] = field(default=(), kw_only=True)
    """Groups of labels that exclude each other, each with "name", "labels" and "choose"."""
    parents: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """The parent of each label that has one."""
    sources: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    """Factors of the weights of examples, by the source of their labels: "machine" and "rule"."""
    promise: dict[str, float | None] | None = field(default=None, kw_only=True)
    """The precision promised: "precision", "settled", "missed" and "audit_rate"; None if there is no promise."""
    ignored: dict[str, int] = field(default_factory=dict, kw_only=True)
    """Number of times that features and labels were ignored because of limits."""
    unseen_words: float | None = field(default=None, kw_only=True)
    """Share of the words in examples 1,001 to 3,000 that no earlier example had; None if unknown."""
    fields: list[FieldOfModel] = field(default_factory=list, kw_only=True)
    """The 100 fields of records that most examples have; empty in a list of models."""
    n_fields: int = field(default=0, kw_only=True)
    """Number of all fields."""
    alike_labels: Sequence[Sequence[str]] = field(default=(), kw_only=True)
    """Groups of labels that differ only in case, spaces or Unicode form, of each the most frequent label first."""


@dataclass(frozen=True, slots=True)
class FieldOfTrained:
    """Field of records, or column of tables, of a trained model."""

    name: str
    kind: str
    """number, category, text, vector or mixed."""


@dataclass(frozen=True, slots=True)
class TrainedSummary:
    """Summary of a trained model that is not in the server's memory."""

    name: str
    algorithm: str
    """``trained``."""


@dataclass(frozen=True, slots=True)
class TrainedStatus(TrainedSummary):
    """Status of a trained model, with the served version."""

    position: str
    version: int | None
    """Served version; None, like all its details, if no version is served."""
    versions: int
    """Number of versions."""
    trainer: str | None
    params: dict[str, Any] | None
    measures: dict[str, float] | None
    """Metrics on held-out rows, if any."""
    converged: bool | None
    """Whether the fit converged within its iterations."""
    labels: int
    """Number of labels that the model knows."""
    features: int
    """Number of features of all views that the model knows."""
    bytes: int
    """Size of its state in memory."""
    baseline: dict[str, float] | None = None
    """Metrics on the same rows of predicting the most frequent training labels."""
    metrics: Metrics | None = None
    """Metrics of the served predictions of the version, from delayed labels."""
    text: dict[str, Any] | None = None
    """Text options of records; None if the model was trained on numbers."""
    fields: Sequence[FieldOfTrained] = ()
    """Fields of records or columns that the version knows, at most 1,000; empty in a list of models."""


AnySummary: TypeAlias = ModelSummary | TrainedSummary
"""Summary of an online or a trained model."""
AnyStatus: TypeAlias = ModelStatus | TrainedStatus
"""Status of an online or a trained model."""


def model_status(answer: Mapping[str, Any]) -> AnyStatus:
    """Return the status of a model from its JSON."""
    return from_json(TrainedStatus, answer) if answer["algorithm"] == TRAINED else from_json(ModelStatus, answer)


def model_summary(answer: Mapping[str, Any]) -> AnySummary:
    """Return the summary or status of a listed model from its JSON."""
    if answer.get("loaded", True):
        return model_status(answer)
    return from_json(TrainedSummary, answer) if answer["algorithm"] == TRAINED else from_json(ModelSummary, answer)
