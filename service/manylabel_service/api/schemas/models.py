"""Responses about models, their snapshots, and the server."""

from typing import Any, Literal

from pydantic import Field, create_model

from manylabel_core.metrics.measures import MEASURES, STREAMED, WITH_HISTORY
from manylabel_service.api.schemas.base import At, ResponseModel, omitted_if_empty, omitted_if_none
from manylabel_service.api.schemas.learning import Learning
from manylabel_service.api.web.problems import Compiling
from manylabel_service.online.spec.limits import ModelLimits
from manylabel_service.online.spec.text import Text
from manylabel_service.storage import Durability

_Measured = create_model(
    "BaselineMeasures",
    __base__=ResponseModel,
    __module__=__name__,
    __doc__="""Metrics of a predictor that ignores the features: for each example it predicts the most frequent labels
    of earlier examples. All are null without examples.""",
    **{name: (float | None, Field(description=MEASURES[name].text)) for name in STREAMED},  # type: ignore[call-overload]
)


class Measures(_Measured):  # type: ignore[misc, valid-type]
    """Prequential metrics: each example is predicted before it is learnt; delayed labels count for the prediction that
    was served. All are null without examples."""

    examples: int
    """Number of examples covered."""
    baseline: _Measured  # type: ignore[valid-type]
    """Metrics of predicting the most frequent labels so far for the same examples."""


class WindowMeasures(Measures):
    """Prequential metrics over the latest examples."""

    size: int
    """Maximum number of examples in the window."""


class GroupMeasures(ResponseModel):
    """Metrics of all decisions on labels with about the same number of earlier examples; 0 if undefined."""

    true: float
    """Weighted number of cases in which labels of the group were relevant."""
    precision: float
    recall: float
    f1: float


class BySeen(ResponseModel):
    """Metrics since the model was created, by the number of earlier examples of a label."""

    never: GroupMeasures
    below_5: GroupMeasures
    below_20: GroupMeasures
    """Labels with 5 to 19 earlier examples."""
    more: GroupMeasures


class Alarms(ResponseModel):
    """Alarms of a drift detector."""

    alarms: int
    last: int | None
    """Number of examples learnt at the last alarm; null for never."""


class Drift(Alarms):
    """Alarms of the detector over all labels, and of the detectors of single labels."""

    labels: dict[str, Alarms]
    """Alarms of single labels; only labels with an alarm."""


class BothMeasures(ResponseModel):
    """Metrics since the model was created, and over its window."""

    cumulative: Measures
    window: WindowMeasures
    by_seen: BySeen
    drift: Drift | None = omitted_if_none()
    """Drift alarms; present only if the model watches for drift."""


class PromiseOfModel(ResponseModel):
    """Promise of precision."""

    precision: float
    """Share of right labels among those applied unseen."""
    settled: float | None
    """Share of entirely right examples among those that need no review; null: every example needs review."""
    missed: float
    """Share of all true labels that may be missed in examples without review."""
    audit_rate: float
    """Share of settled examples that are sent to review for audits."""


class GateOfPromise(ResponseModel):
    """State of a gate: whether labels are applied, or examples settled."""

    state: Literal["learning", "open", "closed"]
    """`learning`: the gate has never been open. `closed`: it closed because there were too many errors."""
    why: str
    """Reason for the state, such as "11 of 15 right in the shadow"."""
    room: int
    """Number of errors that the gate tolerates before it closes."""
    openings: int
    """Number of times that the gate opened."""


class NumbersOfPromise(ResponseModel):
    """Counts of applied labels and settled examples, by true labels; shares are null if undefined."""

    applied: int
    """Number of labels applied unseen, with known truth."""
    wrong: int
    """Number of those that were wrong."""
    precision: float | None
    """Share of right labels among those applied."""
    true: int
    """Number of true labels."""
    recall: float | None
    """Share of the true labels that were applied unseen."""
    examples: int
    """Number of examples whose true labels are all known; among the last 1,000, also those with partial labels."""
    settled: int
    """Number of examples that needed no review."""
    settled_share: float | None
    """Share of these examples."""
    settled_right: float | None
    """Share of settled examples that were entirely right."""
    missed: int
    """Number of true labels missed in settled examples."""
    missed_share: float | None
    """Share of all true labels missed in settled examples."""


class LabelOfPromise(ResponseModel):
    """Label that was applied without review."""

    label: str
    applied: int
    wrong: int
    precision: float


class RecallAtPrecision(ResponseModel):
    """Recall at a precision."""

    precision: float
    recall: float


class AccountOfPromise(PromiseOfModel):
    """Account of a promise of precision. Only true labels from people count."""

    gate: GateOfPromise
    """State of labels that may be applied unseen."""
    settled_gate: GateOfPromise | None
    """State of examples that need no review; null: every example needs review."""
    total: NumbersOfPromise
    """Numbers since the promise was made."""
    last_1000: NumbersOfPromise
    """Numbers of the last 1,000 labels applied, and of the last 1,000 examples."""
    audited: int
    """Number of settled examples that were audited, with known true labels."""
    labels: list[LabelOfPromise]
    """Labels that were applied, those with the lowest precision first; at most 100."""
    curve: list[RecallAtPrecision]
    """Estimates of the recall at other precisions, by the latest examples."""


class MetricsOfSource(ResponseModel):
    """Agreement of predictions with the labels of a source other than people; null if undefined."""

    examples: int
    """Number of examples with labels of this source."""
    learnt: int
    """Number of those that were learnt."""
    precision: float | None
    """Share of predicted labels that are true according to the source, over all decisions."""
    recall: float | None
    """Share of the source's true labels that were predicted."""
    micro_f1: float | None
    """F1 of both."""


class _Counted(At):
    updates: int
    """Number of examples that the model has learnt in total; for a trained model, of labelled predictions."""
    version: int | None = omitted_if_none()
    """Version of a trained model whose predictions are measured; absent for other models."""


class Metrics(BothMeasures, _Counted):
    """Prequential metrics of a model at one position."""

    by_source: dict[Literal["machine", "rule"], MetricsOfSource] | None = omitted_if_none()
    """Agreement with labels that are not from people, by their source; present if there were any. All other metrics
    count labels of people only."""
    promise: AccountOfPromise | None = omitted_if_none()
    """Account of the promise of precision; present if the model has one."""


_Column = list[float | None]
"""Value at each point; null if undefined."""


_PastMeasured = create_model(
    "BaselineColumns",
    __base__=ResponseModel,
    __module__=__name__,
    __doc__="Past metrics of the baseline, one column each; null without examples.",
    **dict.fromkeys(WITH_HISTORY, (_Column, ...)),  # type: ignore[call-overload]
)


class MeasureColumns(_PastMeasured):  # type: ignore[misc, valid-type]
    """Past metrics, one column each; null without examples."""

    examples: list[int]
    """Number of examples covered at each point."""
    baseline: _PastMeasured  # type: ignore[valid-type]
    """Metrics of predicting the most frequent labels so far for the same examples."""


class WindowColumns(MeasureColumns):
    """Metrics over the latest examples before each point."""

    size: int
    """Maximum number of examples in the window."""


class PastAlarms(ResponseModel):
    """Latest drift alarms, oldest first."""

    examples: list[int]
    """Number of examples learnt at each alarm, including the one at which the detector fired."""
    labels: list[str | None]
    """Label of the detector; null for the detector over all labels."""


class MetricsHistory(_Counted):
    """History of the prequential metrics of a model, in columns."""

    stride: int
    """Number of examples between two points; there can be fewer before the last one. It doubles as the stream grows."""
    examples: list[int]
    """Number of examples learnt at each point; the last point is the present."""
    cumulative: MeasureColumns
    window: WindowColumns
    drift: PastAlarms | None = omitted_if_none()
    """Drift alarms; present only if the model watches for drift."""


class ReliabilityBin(ResponseModel):
    """Bin of the reliability diagram."""

    from_: float = Field(alias="from")
    """Lower bound of the probabilities, included."""
    to: float
    """Upper bound of the probabilities, excluded except in the last bin."""
    count: int | float
    """Weighted number of decisions with known truth in the bin."""
    mean_probability: float | None
    """Mean probability; null for an empty bin."""
    share_true: float | None
    """Share of true labels; null for an empty bin."""


class Reliability(At):
    """Reliability diagram since the model was created. Each example is predicted before it is learnt."""

    updates: int
    """Number of examples that the model has learnt in total."""
    bins: list[ReliabilityBin]
    """Twenty bins of equal width."""
    expected_calibration_error: float | None
    """Weighted mean distance between `share_true` and `mean_probability`; 0 is best, null without examples."""
    brier_score: float | None
    """Mean squared distance between probability and truth (0 or 1); 0 is best, null without examples."""


class MeasuresOfLabel(ResponseModel):
    """Metrics of one label; null if undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


class Curve(ResponseModel):
    """Platt scaling of a label's score: the probability is logistic(slope * score + intercept)."""

    slope: float
    intercept: float


class ListedLabel(ResponseModel):
    """Label of a model."""

    label: str
    old_names: list[str]
    """Earlier names of the label, and names of the labels merged into it, sorted."""
    retired: bool
    """Whether the label is retired: no longer learnt or predicted."""
    paused: bool
    """Whether the label is paused: not learnt or predicted until it is resumed."""
    learning: Learning | None
    """Examples seen and needed; null if the label has enough examples, is retired or has a title."""
    examples: int | float
    """Weighted number of examples learnt with the label."""
    frequency: float | None
    """Weighted share of examples with the label, among those whose truth about it is known."""
    first_seen: int | None
    """Number of the first learnt example with the label."""
    last_seen: int | None
    """Number of the last learnt example with the label."""
    cumulative: MeasuresOfLabel
    window: MeasuresOfLabel
    threshold: float | None
    """Probability from which the label is predicted; null without calibration."""
    calibration: Curve | None
    """Calibration of the label; null without calibration."""
    drift: Alarms | None
    """Drift alarms of the label; null without drift detection."""
    title: str | None
    """Name of the label for people; null for none."""
    description: str | None
    """Meaning of the label in words; null for none."""
    uri: str | None
    """Address of the label; null for none."""


class LabelList(_Counted):
    """Labels of a model."""

    labels: list[ListedLabel]
    total: int
    """Number of labels of the model."""


class Ignored(ResponseModel):
    """Number of times that features and labels were ignored because of limits."""

    features: int
    labels: int


class SourcesOfModel(ResponseModel):
    """Factors of the weights of examples, by the source of their labels."""

    machine: float
    """Factor for labels that a model has predicted and no person has checked; 0: nothing is learnt from them."""
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
    durability: Durability


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
    """`flag`: a number whose values were 0 and 1, or false and true; `mixed`: values of several kinds, each of which is
    another feature."""
    share: float | None
    """Share of the examples that have the field; null if `count` is."""
    count: int | None
    """Number of examples that have the field. Null for texts and vectors, and unless `scaling` is auto. Each string of
    a list of strings counts, so it may be too high there."""
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
    """Promised precision; null for none."""
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
    """Number of all fields. After a restart, each request reads 20,000 feature names, so the first ones may know only
    some of them. Absent in a list of models."""
    alike_labels: list[list[str]]
    """Groups of labels that differ only in case, spaces or Unicode form, of each the most frequent label first; at most
    100 groups of 100 labels."""
    metrics: BothMeasures
    loaded: Literal[True]
    """Whether the model is in the memory of this server."""


class StoredModel(_Spec):
    """Online model that is not in the memory of this server; the next request loads it. A new follower has this form
    while it catches up."""

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
    """All models, by name."""

    models: list[ModelStatus | TrainedStatus | StoredModel | StoredTrained]
    damaged: list[str] = omitted_if_empty()
    """Names of models that cannot be read or restored; present only if there are any."""


class Snapshot(ResponseModel):
    """Stored state of a model at a position."""

    position: str
    bytes: int
    created: str
    """Creation time (RFC 3339)."""
    pinned: bool
    """Whether a rollback in the log needs the snapshot, so that it is not removed."""
    manual: bool
    """Whether the snapshot is manual: it stays until it is deleted."""
    name: str | None
    """Name of the snapshot; null for none."""
    note: str | None


class SnapshotList(ResponseModel):
    """Snapshots of a model, newest state first."""

    snapshots: list[Snapshot]


class Alive(ResponseModel):
    """Response that the process serves requests."""

    live: Literal[True]


class Ready(ResponseModel):
    """Response that every model is restored and caught up, except those that failed."""

    ready: Literal[True]
    failed: list[str] = Field(default_factory=list)
    """Models that could not be restored, as far as the caller may see them; present with the scope `read`. The server
    log has the reasons."""
    storage_gone_seconds: float | None = None
    """Seconds for which the store has been unreachable; absent while it is reachable."""
    archive_lag_seconds: float | None = None
    """Seconds since the last complete pass of archiving began; present on the server that archives."""
    archive_error: str | None = None
    """Reason why the last pass of archiving is not complete; absent if the pass is complete."""
    compiling: Compiling | None = None
    """Progress of the compilation of functions that some models need; these models respond with 503 until it ends.
    Absent if nothing is compiled."""


class KnownVersions(ResponseModel):
    """Versions that a release supports, from the oldest to the newest."""

    first: int
    last: int


class ReplicaDescription(ResponseModel):
    """Description of a process that shares the store."""

    id: str
    this: bool
    """Whether this process sent the response."""
    role: str
    """Role: `server` or `worker`."""
    host: str
    """Name of the machine or container."""
    pid: int
    release: str
    build: str
    """Build: processes of one build use the same code, the same libraries and the same kind of processor."""
    formats: KnownVersions
    """Supported format versions of log entries and snapshots."""
    replay_versions: KnownVersions
    """Supported replay versions."""
    started_at: str
    ready: bool
    models: dict[str, str]
    """Positions of the models in memory; at most 1,000."""
    withheld: dict[str, str]
    """Models that the process must not serve, each with the error code; another release must serve them."""


class Replicas(ResponseModel):
    """Processes that share the store, and the versions in use."""

    format: int
    """Format version of new log entries and snapshots."""
    replay_version: int
    """Replay version of new models."""
    replicas: list[ReplicaDescription]
    """Processes in the order of their start."""
