"""Responses about models, their snapshots, and the server."""

from typing import Any, Literal

from manylabel_service.api.schemas.base import At, ResponseModel, omitted_if_empty, omitted_if_none
from manylabel_service.api.schemas.metrics import BothMeasures, PromiseOfModel
from manylabel_service.online.spec.limits import ModelLimits
from manylabel_service.online.spec.text import Text


class Ignored(ResponseModel):
    """Number of times that features and labels were ignored because of limits."""

    features: int
    labels: int


class SourcesOfModel(ResponseModel):
    """Factors of the weights of examples, by the source of their labels."""

    machine: float
    """Factor for labels that a model has predicted and no person has checked; with 0, nothing is learnt from them."""
    rule: float
    """Factor for labels of a rule."""


class _Spec(ResponseModel):
    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    missing: str
    text: Text
    """Text options of records."""
    limits: ModelLimits | None
    """Limits as requested at creation."""
    sources: SourcesOfModel
    """Factors of the weights of examples, by the source of their labels."""


class GroupOfLabels(ResponseModel):
    """Group of mutually exclusive labels."""

    name: str
    labels: list[str]
    choose: Literal["one", "at_most_one"]
    """`one`: exactly one is true whenever the parent is, or always without a parent; `at_most_one`: at most one."""


class FollowOfModel(ResponseModel):
    """The log that a model learns from."""

    model: str | None
    """Name of the followed model; null if the caller's key may not see that model."""
    begin: str
    """Entries after this position are learnt."""
    until: str | None
    """Last position or time to learn; null: no end."""


class FieldOfModel(ResponseModel):
    """Field of the records that an online model has learnt, or a named feature."""

    name: str
    kind: Literal["number", "flag", "category", "text", "vector", "mixed"]
    """`flag`: a number whose values were 0 and 1, or false and true; `mixed`: values of several kinds; each kind is a
    separate feature."""
    share: float | None
    """Share of the examples that have the field; null if `count` is null."""
    count: int | None
    """Number of examples that have the field. Null for texts and vectors, and unless `scaling` is auto. For lists of
    strings the count may be too high, because each string counts."""
    examples: list[float | str]
    """Up to three values: the last number, and the first categories or words."""
    warnings: list[str]
    """Sentences about strange values, such as "473 values that are all numbers"."""


class ModelStatus(At, _Spec):
    """Status of an online model."""

    follow: FollowOfModel | None = omitted_if_none()
    """Followed model and range of its log; absent for a model that reads its own log."""

    updates: int
    """Number of examples that the model has learnt."""
    labels: int
    """Number of labels that the model knows."""
    groups: list[GroupOfLabels]
    """Groups of labels that exclude each other."""
    parents: dict[str, str]
    """Parent of each label that has one."""
    promise: PromiseOfModel | None
    """Promised precision and parity; null for none."""
    features: int
    """Number of features that the model knows."""
    bytes: int
    """Memory of the model in bytes."""
    ignored: Ignored
    """Counts of features and labels of learnt examples that were ignored because of limits."""
    unseen_words: float | None
    """Share of the words in examples 1,001 to 3,000 that did not occur before. Null before 1,000 words are counted, for
    a model with parts of words, and for `limits` that hash or ignore features."""
    fields: list[FieldOfModel] | None = omitted_if_none()
    """The 100 fields that most examples have, texts and vectors first. Empty for numbered features, and for limits that
    hash features; numbers are listed if the model has at most 256. Absent in a list of models."""
    n_fields: int | None = omitted_if_none()
    """Number of all fields. After a restart, each request reads 20,000 more feature names, so the first responses may
    have too low a number. Absent in a list of models."""
    alike_labels: list[list[str]]
    """Groups of labels that differ only in case, spaces or Unicode form; each begins with its most frequent label. At
    most 100 groups of 100 labels."""
    metrics: BothMeasures
    loaded: Literal[True]
    """Whether the model is in the memory of this server."""


class StoredModel(_Spec):
    """Online model that is not in the memory of this server; the next request loads it. A new follower is described in
    the same way while it catches up."""

    follow: FollowOfModel | None = omitted_if_none()
    """Followed model and range of its log; absent for a model that reads its own log."""
    loaded: Literal[False]


class FieldOfTrained(ResponseModel):
    """Field of records, or column of tables, of a trained model."""

    name: str
    kind: Literal["number", "category", "text", "vector", "mixed"]
    """`mixed`: the training rows had several kinds of values."""


class TrainedStatus(At):
    """Status of a trained model."""

    name: str
    algorithm: Literal["trained"]
    trainer: str | None
    """Trainer of the served version; null, like all fields about the version, if none is served."""
    params: dict[str, Any] | None
    measures: dict[str, float] | None
    """Metrics on the held-out rows, if there were any."""
    converged: bool | None
    """Whether the fit of the version converged before it used up its iterations."""
    baseline: dict[str, float] | None
    """Metrics of predicting the most frequent training labels for each of these rows."""
    version: int | None
    """Number of the served version."""
    versions: int
    """Number of versions of the model."""
    labels: int
    features: int
    """Number of features of all views together."""
    text: Text | None
    """Text options of records; null if the version was trained on numbers."""
    bytes: int
    """Memory of the model in bytes."""
    metrics: BothMeasures | None
    """Metrics of the predictions of the served version, by the delayed labels."""
    fields: list[FieldOfTrained] = omitted_if_empty()
    """Fields of records or columns that the served version knows, at most 1,000; absent for numbered features, and in a
    list of models."""
    loaded: Literal[True]


class StoredTrained(ResponseModel):
    """Trained model that is not in the memory of this server; the next request loads it."""

    name: str
    algorithm: Literal["trained"]
    loaded: Literal[False]


class ModelList(ResponseModel):
    """Page of a list of models."""

    models: list[ModelStatus | TrainedStatus | StoredModel | StoredTrained]
    damaged: list[str] = omitted_if_empty()
    """Names of models that cannot be read or restored; present only if there are any."""
    next: str | None = None
    """Value of `after` for the next page; absent after the last."""


class DeletedModels(ResponseModel):
    """Models that were deleted."""

    deleted: list[str]
    """Names of the models and of their followers."""


class Snapshot(ResponseModel):
    """Stored state of a model at a position."""

    position: str
    bytes: int
    created: str
    """Creation time (RFC 3339)."""
    pinned: bool
    """Whether a rollback in the log needs the snapshot, so that it is not removed."""


class SnapshotList(ResponseModel):
    """Snapshots of a model, newest state first."""

    snapshots: list[Snapshot]
