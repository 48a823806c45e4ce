"""Answers about models, their snapshots, and the server."""

from typing import Any, Literal

from pydantic import Field

from manylabel_service.api.schemas.base import At, ResponseModel
from manylabel_service.api.schemas.learning import Learning
from manylabel_service.online.spec.limits import ModelLimits
from manylabel_service.online.spec.text import Text
from manylabel_service.storage import Durability


class BaselineMeasures(ResponseModel):
    """Measures of predicting, for each example, the labels frequent in those before it, whatever its features.
    All are null while there are no examples."""

    precision: float | None
    """Precision is the mean over examples of the share of predicted labels that were relevant."""
    recall: float | None
    """Recall is the mean over examples of the share of relevant labels that were predicted."""
    f1: float | None
    """F1 is the harmonic mean of `precision` and `recall`."""
    micro_f1: float | None
    """Micro F1 is the F1 of all decisions pooled."""
    macro_f1: float | None
    """Macro F1 is the mean over labels of their F1."""
    hamming_loss: float | None
    """The Hamming loss is the share of decisions that were wrong."""
    one_error: float | None
    """The one-error is the share of examples whose highest scored label was wrong."""
    ranking_loss: float | None
    """The ranking loss is the share of pairs of a relevant and an irrelevant label in the wrong order; ties are
    wrong."""
    subset_accuracy: float | None
    """The subset accuracy is the share of examples with every decision right."""
    precision_at_1: float | None
    """P@1 is the mean over examples of the share of the best label that were relevant."""
    precision_at_5: float | None
    """P@5 is the mean over examples of the share of the 5 best labels that were relevant."""
    precision_at_10: float | None
    """P@10 is the mean over examples of the share of the 10 best labels that were relevant."""
    precision_at_100: float | None
    """P@100 is the mean over examples of the share of the 100 best labels that were relevant."""
    f1_at_1: float | None
    """F1@1 is the mean over examples of the F1 of predicting the best label."""
    f1_at_5: float | None
    """F1@5 is the mean over examples of the F1 of predicting the 5 best labels."""
    f1_at_10: float | None
    """F1@10 is the mean over examples of the F1 of predicting the 10 best labels."""
    f1_at_100: float | None
    """F1@100 is the mean over examples of the F1 of predicting the 100 best labels."""
    ndcg_at_1: float | None
    """NDCG@1 is the mean normalised discounted cumulative gain of the best label, over the
    examples with a relevant one."""
    ndcg_at_5: float | None
    """NDCG@5 is the mean normalised discounted cumulative gain of the 5 best labels, over the
    examples with a relevant one."""
    ndcg_at_10: float | None
    """NDCG@10 is the mean normalised discounted cumulative gain of the 10 best labels, over the
    examples with a relevant one."""
    ndcg_at_100: float | None
    """NDCG@100 is the mean normalised discounted cumulative gain of the 100 best labels, over the
    examples with a relevant one."""


class Measures(BaselineMeasures):
    """Prequential measures: each example was predicted before it was learnt; one that is labelled late counts by the
    answer that was served. All are null while there are no examples."""

    examples: int
    """Number of examples that the measures cover."""
    baseline: BaselineMeasures
    """The labels frequent so far, predicted for the same examples, would have reached this."""


class WindowMeasures(Measures):
    """Prequential measures over the latest examples."""

    size: int
    """Maximum number of examples in the window."""


class GroupMeasures(ResponseModel):
    """Measures of all decisions on labels that had been seen about as often; 0 where there is nothing to divide by."""

    true: float
    """Number of cases in which labels of the group were relevant, each counted by the weight of its example."""
    precision: float
    recall: float
    f1: float


class BySeen(ResponseModel):
    """Measures since the model was created, by the number of examples in which a label was relevant before."""

    never: GroupMeasures
    below_5: GroupMeasures
    below_20: GroupMeasures
    """These labels were relevant in 5 examples or more, and in fewer than 20."""
    more: GroupMeasures


class Alarms(ResponseModel):
    """Alarms count how often a detector of drift has sounded."""

    alarms: int
    last: int | None
    """Number of examples learnt when it last sounded; null means never."""


class Drift(Alarms):
    """Alarms of the detector of all labels together, and of those of single labels."""

    labels: dict[str, Alarms]
    """These detectors of single labels have sounded."""


class BothMeasures(ResponseModel):
    """Measures since the model was created, and over its window."""

    cumulative: Measures
    window: WindowMeasures
    by_seen: BySeen
    drift: Drift | None = None
    """Alarms are there only for a model that watches for drift."""


class PromiseOfModel(ResponseModel):
    """A promise of precision."""

    precision: float
    """Share of right labels among those applied unseen."""
    settled: float | None
    """Share of entirely right examples among those that need no review; null: every example needs review."""
    missed: float
    """Share of all true labels that may be missed in examples without review."""
    audit_rate: float
    """Share of settled examples that need review all the same."""


class GateOfPromise(ResponseModel):
    """State of a gate: whether labels are applied, or examples settled."""

    state: Literal["learning", "open", "closed"]
    """`learning`: it has never been open. `closed`: it was, and there were too many errors."""
    why: str
    """Reason for the state, such as "11 of 15 right in the shadow"."""
    room: int
    """Number of errors that it can take before it closes."""
    openings: int
    """Number of times that it opened."""


class NumbersOfPromise(ResponseModel):
    """Numbers of what was applied and settled, by true labels; shares are null where there is nothing to divide by."""

    applied: int
    """Number of labels applied unseen of which the truth is known."""
    wrong: int
    """Number of those that were wrong."""
    precision: float | None
    """Share of right labels among those applied."""
    true: int
    """Number of true labels."""
    recall: float | None
    """Share of the true labels that were applied unseen."""
    examples: int
    """Number of examples of which all true labels are known; of the last 1,000, with those known in part."""
    settled: int
    """Number of examples that needed no review."""
    settled_share: float | None
    """Share of these examples."""
    settled_right: float | None
    """Share of settled examples that were entirely right."""
    missed: int
    """Number of true labels that settled examples lacked."""
    missed_share: float | None
    """Share of all true labels that settled examples lacked."""


class LabelOfPromise(ResponseModel):
    """A label that was applied unseen."""

    label: str
    applied: int
    wrong: int
    precision: float


class RecallAtPrecision(ResponseModel):
    """The recall that could be had at a precision."""

    precision: float
    recall: float


class AccountOfPromise(PromiseOfModel):
    """The account of a promise of precision. Only true labels told by people count."""

    gate: GateOfPromise
    """State of labels that may be applied unseen."""
    settled_gate: GateOfPromise | None
    """State of examples that need no review; null: every example needs review."""
    total: NumbersOfPromise
    """Numbers since the promise was made."""
    last_1000: NumbersOfPromise
    """Numbers of the last 1,000 labels applied, and of the last 1,000 examples."""
    audited: int
    """Number of settled examples that needed review all the same, of which the truth is known."""
    labels: list[LabelOfPromise]
    """Labels that were applied, those with the lowest precision first; at most 100."""
    curve: list[RecallAtPrecision]
    """Estimates of the recall at other precisions, by the latest examples."""


class MetricsOfSource(ResponseModel):
    """Agreement of predictions with the labels of a source other than people; null where nothing can be divided."""

    examples: int
    """Number of examples with labels of this source."""
    learnt: int
    """Number of those that were learnt."""
    precision: float | None
    """Share of predicted labels that the source says are true, of all decisions pooled."""
    recall: float | None
    """Share of the source's true labels that were predicted."""
    micro_f1: float | None
    """F1 of both."""


class Metrics(BothMeasures, At):
    """Prequential measures of a model at one position."""

    updates: int
    """Number of examples that the model has learnt in total; for a trained model, of predictions whose labels are
    known."""
    version: int | None = None
    """The version of a trained model whose answers are measured; only there for one."""
    by_source: dict[Literal["machine", "rule"], MetricsOfSource] | None = None
    """Agreement with labels that are not from people, by their source; only there if there were some. All other
    measures count labels of people only."""
    promise: AccountOfPromise | None = None
    """The account of the promise of precision; only there if the model has one."""


_Column = list[float | None]
"""A number at each point; null while there were no examples, or nothing to divide by."""


class BaselineColumns(ResponseModel):
    """Measures of the baseline in the past, a column each; null while there were no examples."""

    precision: _Column
    recall: _Column
    f1: _Column
    micro_f1: _Column
    macro_f1: _Column
    hamming_loss: _Column
    one_error: _Column
    ranking_loss: _Column
    subset_accuracy: _Column


class MeasureColumns(BaselineColumns):
    """Measures in the past, a column each; null while there were no examples."""

    examples: list[int]
    """Number of examples that the measures covered at each point."""
    baseline: BaselineColumns
    """The labels frequent so far, predicted for the same examples, would have reached this."""


class WindowColumns(MeasureColumns):
    """Measures over the latest examples of each point."""

    size: int
    """Maximum number of examples in the window."""


class LabelColumns(ResponseModel):
    """Measures of one label in the past; null where there is nothing to divide by."""

    precision: _Column
    recall: _Column
    f1: _Column


class HistoryOfLabel(ResponseModel):
    """The past of one label, at points of its own."""

    stride: int
    """Number of examples between two points; there may be fewer before the last one."""
    examples: list[int]
    """Number of examples learnt at each point."""
    cumulative: LabelColumns
    window: LabelColumns


class PastAlarms(ResponseModel):
    """The latest alarms of drift, the oldest first."""

    examples: list[int]
    """Number of examples learnt at each alarm, including the one at which the detector sounded."""
    labels: list[str | None]
    """The detector was that of this label; null means the one of all labels."""


class MetricsHistory(At):
    """Prequential measures of a model in the past, a column each: a number for every point."""

    updates: int
    """Number of examples that the model has learnt in total; for a trained model, of predictions whose labels are
    known."""
    version: int | None = None
    """The version of a trained model whose answers are measured; only there for one."""
    stride: int
    """Number of examples between two points; there may be fewer before the last one. It doubles as the stream grows."""
    examples: list[int]
    """Number of examples learnt at each point; the last point is now."""
    cumulative: MeasureColumns
    window: WindowColumns
    labels: dict[str, HistoryOfLabel]
    """The labels that were asked for."""
    drift: PastAlarms | None = None
    """Alarms are there only for a model that watches for drift."""


class ReliabilityBin(ResponseModel):
    """Decisions by the probability that they had been given, and how many of the labels were true."""

    from_: float = Field(alias="from")
    """The probabilities lie from here on."""
    to: float
    """They lie below this; in the last bin, 1 is too."""
    count: int | float
    """Number of known true labels in the bin, each counted by the weight of its example."""
    mean_probability: float | None
    """The mean of the probabilities; null where there are none."""
    share_true: float | None
    """The share of the labels that turned out true; null where there are none."""


class Reliability(At):
    """Probabilities compared with how often they came true, since the model was created. Each example was predicted
    before it was learnt."""

    updates: int
    """Number of examples that the model has learnt in total."""
    bins: list[ReliabilityBin]
    """Twenty of equal width."""
    expected_calibration_error: float | None
    """It is the distance of `share_true` from `mean_probability`, in the mean over all that was counted; 0 is best,
    null while nothing was."""
    brier_score: float | None
    """The Brier score is the mean of the squared distance of probabilities from what was true, 0 or 1; 0 is best, null
    while nothing was counted."""


class MeasuresOfLabel(ResponseModel):
    """Measures of one label; null where there is nothing to divide by."""

    precision: float | None
    recall: float | None
    f1: float | None


class Curve(ResponseModel):
    """A curve makes a probability of a label's score: the logistic function of slope times score plus intercept."""

    slope: float
    intercept: float


class ListedLabel(ResponseModel):
    """A label as the model knows it."""

    label: str
    old_names: list[str]
    """The names that the label had before it was renamed, and those of the labels merged into it; sorted."""
    retired: bool
    """It is learnt and predicted no more."""
    paused: bool
    """The label is not learnt and not predicted until it is resumed."""
    learning: Learning | None
    """Examples seen and needed; null once there are enough, and for a label that is retired or has a title."""
    examples: int | float
    """Number of examples learnt that had it, each counted by its weight."""
    frequency: float | None
    """The share of those with it among the examples whose truth about it was told."""
    first_seen: int | None
    """The first example with it was the one with this number, among those learnt."""
    last_seen: int | None
    """Likewise the last."""
    cumulative: MeasuresOfLabel
    window: MeasuresOfLabel
    threshold: float | None
    """It is predicted from this probability on; null for a model that does not calibrate."""
    calibration: Curve | None
    """Likewise."""
    drift: Alarms | None
    """Alarms of its detector; null for a model that does not watch for drift."""
    title: str | None
    """Name of the label for people; null for a label without a title."""
    description: str | None
    """Meaning of the label in words; null for a label without a description."""
    uri: str | None
    """Address of the label; null for a label without a URI."""


class LabelList(At):
    """Some labels of a model."""

    labels: list[ListedLabel]
    total: int
    """Number of labels of the model."""
    updates: int
    """Number of examples that the model has learnt; for a trained model, of predictions whose labels are known."""
    version: int | None = None
    """The version of a trained model whose answers are measured; only there for one."""


class Ignored(ResponseModel):
    """Features and labels that were left out are counted, each time that one was."""

    features: int
    labels: int


class SourcesOfModel(ResponseModel):
    """Factors of the weights of examples, by the source of their labels."""

    machine: float
    """Factor for labels that a model has given and nobody has checked; 0: nothing is learnt from them."""
    rule: float
    """Factor for labels that a rule has given."""


class _Spec(ResponseModel):
    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    missing: str
    text: Text
    """Texts in records are read so."""
    limits: ModelLimits | None
    """The limits are as they were given."""
    sources: SourcesOfModel
    """Factors of the weights of examples, by the source of their labels."""
    durability: Durability


class GroupOfLabels(ResponseModel):
    """A group of labels that exclude each other."""

    name: str
    labels: list[str]
    choose: Literal["one", "at_most_one"]
    """`one`: exactly one of them is true wherever their parent is, or always if they have none."""


class ModelStatus(At, _Spec):
    """A model as it is now."""

    updates: int
    """Number of examples that the model has learnt."""
    labels: int
    """Number of labels that the model knows."""
    groups: list[GroupOfLabels]
    """Groups of labels of which one is true, or at most one."""
    parents: dict[str, str]
    """The parent of each label that has one."""
    promise: PromiseOfModel | None
    """The precision promised; null: none."""
    features: int
    """Number of features that the model knows."""
    bytes: int
    """Memory of the model in bytes."""
    ignored: Ignored
    """Counts of features and labels of learnt examples that were ignored because of limits."""
    unseen_words: float | None
    """Share of the words in examples 1,001 to 3,000 that no example before had. Null before 1,000 words are counted,
    and for a model that reads parts of words, or whose `limits` hash or ignore features."""
    metrics: BothMeasures
    loaded: Literal[True]
    """The model is in the memory of this server."""


class StoredModel(_Spec):
    """A model that is not in the memory of this server; it is loaded when it is asked for."""

    loaded: Literal[False]


class TrainedStatus(At):
    """A trained model as it is now."""

    name: str
    algorithm: Literal["trained"]
    trainer: str | None
    """The version served was made by this trainer; this and all about the version is null while none is served."""
    params: dict[str, Any] | None
    measures: dict[str, float] | None
    """The measures are on rows held out from training, if there were some."""
    converged: bool | None
    """This says whether the fit of the version came to its end before it had used up its iterations."""
    baseline: dict[str, float] | None
    """The labels frequent in training, predicted for each of these rows, would have reached this."""
    version: int | None
    """The version with this number is served."""
    versions: int
    """Number of versions of the model."""
    labels: int
    features: int
    """Number of features of all views together."""
    text: Text | None
    """Texts in records are read so; null if it was trained on numbers."""
    bytes: int
    """Memory of the model in bytes."""
    metrics: BothMeasures | None
    """Metrics of the predictions of the served version, by the delayed labels."""
    loaded: Literal[True]


class StoredTrained(ResponseModel):
    """A trained model that is not in the memory of this server; it is loaded when it is asked for."""

    name: str
    algorithm: Literal["trained"]
    loaded: Literal[False]


class ModelList(ResponseModel):
    """All models, by name."""

    models: list[ModelStatus | TrainedStatus | StoredModel | StoredTrained]
    damaged: list[str] = Field(default_factory=list)
    """Names of models that cannot be read or restored; only there if there are any."""


class Snapshot(ResponseModel):
    """A model's state after the update at a position."""

    position: str
    bytes: int
    created: str
    """The snapshot was taken at this time (RFC 3339)."""
    pinned: bool
    """A rollback in the log needs it: it is not removed when others take its place."""
    manual: bool
    """Whether it is a manual snapshot: it stays until it is deleted."""
    name: str | None
    """The snapshot has this name beside its position."""
    note: str | None


class SnapshotList(ResponseModel):
    """The snapshots of a model, the newest state first."""

    snapshots: list[Snapshot]


class Alive(ResponseModel):
    """The process serves."""

    live: Literal[True]


class Ready(ResponseModel):
    """Every model is restored and caught up, but those that failed."""

    ready: Literal[True]
    failed: list[str] = Field(default_factory=list)
    """These models could not be restored; the server's log says why. Those that the caller may see are here, if the
    caller has the scope `read`."""
    storage_gone_seconds: float | None = None
    """Seconds for which the store has been unreachable; only there while it is."""


class KnownVersions(ResponseModel):
    """The versions that a release knows, from the first to the last."""

    first: int
    last: int


class ReplicaDescription(ResponseModel):
    """A process that shares the store, as it describes itself."""

    id: str
    this: bool
    """True of the process that answers."""
    role: str
    """The role is `server` or `worker`."""
    host: str
    """The name of its machine, or of its container."""
    pid: int
    release: str
    build: str
    """Processes of one build compute with the same code, the same libraries and the same kind of processor."""
    formats: KnownVersions
    """Format versions of log entries and snapshots that it reads."""
    replay_versions: KnownVersions
    """Replay versions that it computes."""
    started_at: str
    ready: bool
    models: dict[str, str]
    """The models in its memory, and the positions that they are at; 1,000 at most."""
    withheld: dict[str, str]
    """The models that it must not serve, and the code that says why: another release has to serve them."""


class Replicas(ResponseModel):
    """The processes that share the store, and the versions that are in use."""

    format: int
    """Format version of log entries and snapshots that are written."""
    replay_version: int
    """Replay version of new models."""
    replicas: list[ReplicaDescription]
    """They stand in the order in which they started."""
