"""Response types of the HTTP API, and its enumerations. Made by `make response-types`: do not edit."""
# fmt: off
# ruff: noqa: E501

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Alarms", "ApiKey", "BaselineColumns", "BaselineMeasures", "BySeen", "Calibration", "DatasetInfo", "Doubt", "DoubtCounts", "DoubtList", "DoubtedPlace", "Drift", "Explanation", "FeatureForDoubt", "FeaturePart", "FieldOfModel", "FieldOfTrained", "ForgetReceipt", "GroupMeasures", "JobError", "JobProgress", "JobResult", "LabelHealth", "LabelMeasures", "LabelPage", "LabelStatus", "Learning", "LogLine", "MeasureColumns", "Measures", "Metrics", "MetricsHistory", "ModelDetail", "ModelStatus", "ModelSummary", "NewApiKey", "NewWebhook", "PastAlarms", "Prediction", "Promoted", "RateLimits", "Reliability", "ReliabilityBin", "Replica", "Replicas", "RolledBack", "Snapshot", "SuggestedRequest", "Suggestion", "SuggestionEvidence", "TrainedStatus", "TrainedSummary", "Trainer", "Undone", "UnlabelledPage", "UnlabelledPrediction", "Updated", "Verification", "Version", "Webhook", "WebhookDelivery", "WindowColumns", "WindowMeasures"]

SCOPES = ["predict", "learn", "read", "train", "export", "admin"]
EVENTS = ["drift", "label", "parity", "job", "promoted", "review"]
ALGORITHMS = ["falt", "salt", "kernel_falt", "kernel_salt", "passive_aggressive", "kernel_passive_aggressive"]
TRAINERS = ["m3l", "mlrl", "ssmlrl", "prml", "prbr", "lsa_mml"]
FORMATS = ["libsvm", "arff", "npz", "ndjson", "csv", "tsv"]
EXTENSIONS = {".arff": "arff", ".csv": "csv", ".jsonl": "ndjson", ".libsvm": "libsvm", ".ndjson": "ndjson", ".npz": "npz", ".svm": "libsvm", ".svmlight": "libsvm", ".tsv": "tsv"}
TITLES = {"micro_f1": "micro-F1", "macro_f1": "macro-F1", "f1": "F1", "example_f1": "example F1", "precision": "precision", "recall": "recall", "subset_accuracy": "subset accuracy", "hamming_loss": "Hamming loss", "average_precision": "average precision", "ranking_loss": "ranking loss", "one_error": "one-error", "coverage": "coverage", "macro_auc": "macro-AUC", "precision_at_1": "P@1", "precision_at_5": "P@5", "precision_at_10": "P@10", "precision_at_100": "P@100", "f1_at_1": "F1@1", "f1_at_5": "F1@5", "f1_at_10": "F1@10", "f1_at_100": "F1@100", "ndcg_at_1": "NDCG@1", "ndcg_at_5": "NDCG@5", "ndcg_at_10": "NDCG@10", "ndcg_at_100": "NDCG@100"}

@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """Alarms of a drift detector."""
    alarms: int
    last: int | None = None  #: Number of examples learnt at the last alarm; None for never.

@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(Alarms):
    """Alarms of the detector over all labels, and of the detectors of single labels."""
    labels: dict[str, Alarms]  #: Alarms of single labels; only labels with an alarm.

@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineMeasures:
    """Metrics of a predictor that ignores the features: for each example it predicts the most frequent labels of earlier examples."""
    precision: float | None = None  #: Mean over examples of the share of predicted labels that are relevant.
    recall: float | None = None  #: Mean over examples of the share of relevant labels that are predicted.
    f1: float | None = None  #: Harmonic mean of ``precision`` and ``recall``.
    micro_f1: float | None = None  #: Micro-averaged F1, over all decisions.
    macro_f1: float | None = None  #: Macro-averaged F1, the mean over labels.
    hamming_loss: float | None = None  #: Share of decisions that are wrong (Hamming loss).
    one_error: float | None = None  #: Share of examples whose highest scored label is wrong.
    ranking_loss: float | None = None  #: Share of pairs of a relevant and an irrelevant label in the wrong order; ties are wrong.
    subset_accuracy: float | None = None  #: Share of examples with every decision right.
    precision_at_1: float | None = None  #: P@1 is the mean share of the best label that is relevant, over the examples.
    precision_at_5: float | None = None  #: P@5 is the mean share of the 5 best labels that is relevant, over the examples.
    precision_at_10: float | None = None  #: P@10 is the mean share of the 10 best labels that is relevant, over the examples.
    precision_at_100: float | None = None  #: P@100 is the mean share of the 100 best labels that is relevant, over the examples.
    f1_at_1: float | None = None  #: F1@1 is the mean F1 of predicting the best label, over the examples.
    f1_at_5: float | None = None  #: F1@5 is the mean F1 of predicting the 5 best labels, over the examples.
    f1_at_10: float | None = None  #: F1@10 is the mean F1 of predicting the 10 best labels, over the examples.
    f1_at_100: float | None = None  #: F1@100 is the mean F1 of predicting the 100 best labels, over the examples.
    ndcg_at_1: float | None = None  #: NDCG@1 is the mean normalised discounted cumulative gain of the best label, over the examples with a relevant one.
    ndcg_at_5: float | None = None  #: NDCG@5 is the mean normalised discounted cumulative gain of the 5 best labels, over the examples with a relevant one.
    ndcg_at_10: float | None = None  #: NDCG@10 is the mean normalised discounted cumulative gain of the 10 best labels, over the examples with a relevant one.
    ndcg_at_100: float | None = None  #: NDCG@100 is the mean normalised discounted cumulative gain of the 100 best labels, over the examples with a relevant one.

@dataclass(frozen=True, slots=True, kw_only=True)
class Measures(BaselineMeasures):
    """Prequential metrics: each example is predicted before it is learnt; delayed labels count for the prediction that was served."""
    examples: int  #: Number of examples covered.
    baseline: BaselineMeasures  #: Metrics of predicting the most frequent labels so far for the same examples.

@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMeasures(Measures):
    """Prequential metrics over the latest examples."""
    size: int  #: Maximum number of examples in the window.

@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeasures:
    """Metrics of all decisions on labels that had about the same number of earlier examples; 0 if undefined."""
    true: float  #: Weighted number of cases in which labels of the group were relevant.
    precision: float
    recall: float
    f1: float

@dataclass(frozen=True, slots=True, kw_only=True)
class BySeen:
    """Metrics since the model was created, by the number of earlier examples of a label."""
    never: GroupMeasures
    below_5: GroupMeasures
    below_20: GroupMeasures  #: Labels with 5 to 19 earlier examples.
    more: GroupMeasures

@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Prequential metrics of a model at one position."""
    cumulative: Measures
    window: WindowMeasures
    by_seen: BySeen
    drift: Drift | None = None  #: Drift alarms; present only if the model watches for drift.
    version: int | None = None  #: Version of a trained model whose predictions are measured; absent for other models.
    corrections: int | None = None  #: Number of corrections of learnt examples. The metrics count a corrected example once, with its first labels; omitted if there are no corrections.
    by_source: Mapping[str, dict[str, float | None]] = field(default_factory=dict)  #: Agreement with labels that are not from people, by source; present if there are such labels. All other metrics count labels of people only.
    promise: dict[str, Any] | None = None  #: Accounts of the promises of precision and parity; present if the model has one.

@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineColumns:
    """Past metrics of the baseline, one column each; None without examples."""
    precision: list[float | None]
    recall: list[float | None]
    f1: list[float | None]
    micro_f1: list[float | None]
    macro_f1: list[float | None]
    hamming_loss: list[float | None]
    one_error: list[float | None]
    ranking_loss: list[float | None]
    subset_accuracy: list[float | None]

@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureColumns(BaselineColumns):
    """Past metrics, one column each; None without examples."""
    examples: list[int]  #: Number of examples covered at each point.
    baseline: BaselineColumns  #: Metrics of predicting the most frequent labels so far for the same examples.

@dataclass(frozen=True, slots=True, kw_only=True)
class WindowColumns(MeasureColumns):
    """Metrics over the latest examples before each point."""
    size: int  #: Maximum number of examples in the window.

@dataclass(frozen=True, slots=True, kw_only=True)
class PastAlarms:
    """Latest drift alarms, oldest first."""
    examples: list[int]  #: Number of examples learnt at each alarm, including the one at which the detector fired.
    labels: list[str | None]  #: Label of the detector; None for the detector over all labels.

@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsHistory:
    """History of the prequential metrics of a model, in columns."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    updates: int  #: Number of examples that the model has learnt in total; for a trained model, of labelled predictions.
    version: int | None = None  #: Version of a trained model whose predictions are measured; absent for other models.
    stride: int  #: Number of examples between two points, fewer before the last point. It doubles as the stream grows.
    examples: list[int]  #: Number of examples learnt at each point; the last point is the present.
    cumulative: MeasureColumns
    window: WindowColumns
    drift: PastAlarms | None = None  #: Drift alarms; present only if the model watches for drift.

@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """Bin of the reliability diagram."""
    from_: float  #: Lower bound of the probabilities, included.
    to: float  #: Upper bound of the probabilities, excluded except in the last bin.
    count: float  #: Weighted number of decisions with known truth in the bin.
    mean_probability: float | None = None  #: Mean probability; None for an empty bin.
    share_true: float | None = None  #: Share of true labels; None for an empty bin.

@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Reliability diagram since the model was created."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    updates: int  #: Number of examples that the model has learnt in total.
    bins: list[ReliabilityBin]  #: Twenty bins of equal width.
    expected_calibration_error: float | None = None  #: Weighted mean distance between ``share_true`` and ``mean_probability``; 0 is best, None without examples.
    brier_score: float | None = None  #: Mean squared distance between probability and truth (0 or 1); 0 is best, None without examples.

@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """Online model that is not in the memory of this server; the next request loads it."""
    name: str
    algorithm: str
    params: dict[str, Any]
    scaling: str
    missing: str
    text: dict[str, Any]  #: Text options of records.
    limits: dict[str, Any] | None = None  #: Limits as requested at creation.
    sources: dict[str, Any]  #: Factors of the weights of examples, by the source of their labels.
    follow: dict[str, Any] | None = None  #: Followed model and range of its log; absent for a model that reads its own log.

@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOfModel:
    """Field of the records that an online model has learnt, or a named feature."""
    name: str
    kind: Literal["number", "flag", "category", "text", "vector", "mixed"]  #: ``flag``: a number whose values were 0 and 1, or false and true; ``mixed``: values of several kinds; each kind is a separate feature.
    share: float | None = None  #: Share of the examples that have the field; None if ``count`` is None.
    count: int | None = None  #: Number of examples that have the field. None for texts and vectors, and unless ``scaling`` is auto. For lists of strings the count may be too high, because each string counts.
    examples: list[float | str]  #: Up to three values: the last number, and the first categories or words.
    warnings: list[str]  #: Sentences about strange values, such as "473 values that are all numbers".

@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus(ModelSummary):
    """Status of an online model."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    updates: int  #: Number of examples that the model has learnt.
    labels: int  #: Number of labels that the model knows.
    groups: list[dict[str, Any]]  #: Groups of labels that exclude each other.
    parents: dict[str, str]  #: Parent of each label that has one.
    promise: dict[str, Any] | None = None  #: Promised precision and parity; None for none.
    features: int  #: Number of features that the model knows.
    bytes: int  #: Memory of the model in bytes.
    ignored: dict[str, Any]  #: Counts of features and labels of learnt examples that were ignored because of limits.
    unseen_words: float | None = None  #: Share of the words in examples 1,001 to 3,000 that did not occur before. None before 1,000 words are counted, for a model with parts of words, and for ``limits`` that hash or ignore features.
    fields: list[FieldOfModel] = field(default_factory=list)  #: The 100 fields that most examples have, texts and vectors first. Empty for numbered features, and for limits that hash features; numbers are listed if the model has at most 256. Absent in a list of models.
    n_fields: int = 0  #: Number of all fields. After a restart, each request reads 20,000 more feature names, so the first responses may have too low a number. Absent in a list of models.
    alike_labels: list[list[str]]  #: Groups of labels that differ only in case, spaces or Unicode form; each begins with its most frequent label. At most 100 groups of 100 labels.
    metrics: Metrics

@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedSummary:
    """Trained model that is not in the memory of this server; the next request loads it."""
    name: str
    algorithm: str

@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOfTrained:
    """Field of records, or column of tables, of a trained model."""
    name: str
    kind: Literal["number", "category", "text", "vector", "mixed"]  #: ``mixed``: the training rows had several kinds of values.

@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedStatus(TrainedSummary):
    """Status of a trained model."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    trainer: str | None = None  #: Trainer of the served version; None, like all fields about the version, if none is served.
    params: dict[str, Any] | None = None
    measures: dict[str, float] | None = None  #: Metrics on the held-out rows, if there were any.
    converged: bool | None = None  #: Whether the fit of the version converged before it used up its iterations.
    baseline: dict[str, float] | None = None  #: Metrics of predicting the most frequent training labels for each of these rows.
    version: int | None = None  #: Number of the served version.
    versions: int  #: Number of versions of the model.
    labels: int
    features: int  #: Number of features of all views together.
    text: dict[str, Any] | None = None  #: Text options of records; None if the version was trained on numbers.
    bytes: int  #: Memory of the model in bytes.
    metrics: Metrics | None = None  #: Metrics of the predictions of the served version, by the delayed labels.
    fields: list[FieldOfTrained] = field(default_factory=list)  #: Fields of records or columns that the served version knows, at most 1,000; absent for numbered features, and in a list of models.

@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturePart:
    """Contribution of one feature to a score."""
    feature: Hashable  #: Name of the feature, or its number.
    value: float | None = None  #: Value of the feature in the request; None for a vector, which counts as one feature.
    contribution: float  #: Contribution of the feature to the score.

@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Contributions to the score of a label, which sum to the score up to rounding."""
    for_: list[FeaturePart]  #: Features with the largest positive contributions, largest first.
    against: list[FeaturePart]  #: Features with the largest negative contributions, largest first.
    title: float = 0.0  #: Contribution of the words of the label's title and description; omitted if it is zero.
    rest: float  #: Sum of everything else: the constant, thresholds, and the other features.

@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """Progress of a label that was true in few examples."""
    seen: float  #: Weighted number of examples in which the label was true.
    needed: int  #: Number of examples at which the label counts as learnt.

@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Prediction of an example."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    expires: str | None = None  #: Time at which stored predictions expire (RFC 3339).
    stale_seconds: float | None = None  #: Seconds for which the store has been unreachable; updates of other servers since then are missing.
    labels: list[str]  #: Predicted labels: those with a score above 0.
    scores: dict[str, float]  #: Score minus threshold of each label; with ``optimise``, half of the log-odds above the decision threshold. At most as many labels as ``top`` or the server allows, best first.
    scores_of: int | None = None  #: Total number of labels, of which ``scores`` lists the best; present only if labels are omitted.
    learning: dict[str, Learning] | None = None  #: Labels of ``scores`` that have few examples; present with ``top``, for an online model.
    threshold: float  #: Threshold subtracted from the raw score. It is 0 for a trained model whose labels have separate thresholds, which are already subtracted.
    probabilities: dict[str, float] | None = None  #: Probability of each label, if requested.
    auto: list[str] | None = None  #: Labels that may be applied unseen; present if the model promises a precision.
    review: bool | None = None  #: Whether the example needs review; present if the model promises a precision.
    ask: bool | None = None  #: Whether to ask the teacher. If false, serve ``labels``, and submit no labels of the teacher. Present if the model promises parity, with ``keep``.
    why: Literal["unsure", "audit", "sure"] | None = None  #: Reason to ask or not; ``audit``: the model is sure, but the teacher is asked to verify the promise.
    check: bool | None = None  #: Present if a person should check the answer: a random 5 % of the answers served without the teacher.
    explanations: dict[str, Explanation] | None = None  #: Explanation of each predicted label, if ``explain`` is set.
    id: str | None = None  #: Id for the call ``labels``; present if the prediction is stored.

@dataclass(frozen=True, slots=True, kw_only=True)
class UnlabelledPrediction:
    """Stored prediction without labels, as the model predicts it now."""
    id: str  #: Id for the call ``labels``.
    uncertainty: float  #: Uncertainty, 0 to 1; 1 means that a label is at its decision threshold.
    labels: list[str]  #: Predicted labels.
    probabilities: dict[str, float] | None = None  #: Probability of each label; None for a model without probabilities.
    auto: list[str] | None = None  #: Labels that could be applied unseen when the example was predicted; present if precision was promised.
    review: bool | None = None  #: Whether the example needed review when it was predicted; present if precision was promised.
    record: Any | None = None  #: The example as posted, if it was stored with ``keep=record``.

@dataclass(frozen=True, slots=True, kw_only=True)
class UnlabelledPage:
    """Stored predictions without labels."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    predictions: list[UnlabelledPrediction]
    candidates: int  #: Number of examples compared.
    updates: int  #: Number of examples that the model has learnt in total.

@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """Result of an update."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    updates: int  #: Number of examples that the model has learnt in total.
    replayed: bool = False  #: True if the server learnt the examples in an earlier attempt.

@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack(Updated):
    """Result of a rollback."""
    rolled_back_to: str  #: Position of the snapshot.

@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMeasures:
    """Metrics of one label; None if undefined."""
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None

@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Platt scaling of a label's score: the probability is logistic(slope * score + intercept)."""
    slope: float
    intercept: float

@dataclass(frozen=True, slots=True, kw_only=True)
class LabelStatus:
    """Label of a model."""
    label: str
    old_names: list[str]  #: Earlier names of the label, and names of the labels merged into it, sorted.
    retired: bool  #: Whether the label is retired: no longer learnt or predicted.
    paused: bool  #: Whether the label is paused: not learnt or predicted until it is resumed.
    learning: Learning | None = None  #: Examples seen and needed; None if the label has enough examples, is retired or has a title.
    examples: float  #: Weighted number of examples learnt with the label.
    frequency: float | None = None  #: Weighted share of examples with the label, among those whose truth about it is known.
    first_seen: int | None = None  #: Number of the first learnt example with the label.
    last_seen: int | None = None  #: Number of the last learnt example with the label.
    cumulative: LabelMeasures
    window: LabelMeasures
    threshold: float | None = None  #: Probability from which the label is predicted; None without calibration.
    calibration: Calibration | None = None  #: Calibration of the label; None without calibration.
    drift: Alarms | None = None  #: Drift alarms of the label; None without drift detection.
    title: str | None = None  #: Name of the label for people; None for none.
    description: str | None = None  #: Meaning of the label in words; None for none.
    uri: str | None = None  #: Address of the label; None for none.

@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPage:
    """Labels of a model."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    updates: int  #: Number of examples that the model has learnt in total; for a trained model, of labelled predictions.
    version: int | None = None  #: Version of a trained model whose predictions are measured; absent for other models.
    labels: list[LabelStatus]
    total: int  #: Number of labels of the model.

@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Stored state of a model at a position."""
    position: str
    bytes: int
    created: str  #: Creation time (RFC 3339).
    pinned: bool  #: Whether a rollback in the log needs the snapshot, so that it is not removed.

@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """Receipt of a request to forget examples."""
    id: str  #: Id of the receipt.
    model: str  #: Name of the model.
    status: Literal["running", "done", "failed"]  #: Whether the request is in progress, done, or failed; a failed request changed nothing.
    created: str  #: Time of the request (RFC 3339, UTC).
    ended: str | None = None  #: Time of the end; None while it is running.
    key_id: str | None = None  #: Id of the API key that requested it; None without a key.
    entries: int  #: Number of entries of the log that contained these examples.
    examples: int  #: Number of examples that were forgotten; 0 if the history has none of them.
    predictions: int  #: Number of stored predictions that were deleted, because these examples labelled them.
    since: str | None = None  #: Position at which the history of the model begins. Earlier examples are not in the history and cannot be forgotten: they stay in the weights.
    first: str | None = None  #: Position of the first entry that contained one of these examples.
    position: str | None = None  #: Position of the log at which the new state replaced the old one.
    checksum_before: str | None = None  #: Checksum of the old state at this position, recomputed from the history and equal to that of the model.
    checksum_after: str | None = None  #: Checksum of the new state at this position.
    metrics_before: dict[str, float | None] | None = None  #: Cumulative metrics of the old state at this position, as in ``GET /v1/models/{name}/metrics``.
    metrics_after: dict[str, float | None] | None = None  #: Cumulative metrics of the new state at this position.
    build: str | None = None  #: Build of the server that computed both states.
    kept: list[str]  #: Copies that are not deleted and need a check: forks, datasets, versions, downloads.
    beyond_reach: list[str]  #: Copies that the server cannot delete.
    archive: Literal["pending", "purged"] | None = None  #: ``pending`` until the next pass of the archive has deleted the old model, then ``purged``; None without an archive.
    error: str | None = None  #: Reason why the request failed.

@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Comparison of stored states with the replayed history."""
    equal: bool  #: Whether all states are equal, bit for bit.
    since: str  #: Position at which the history of the model begins.
    position: str  #: Position of the latest state that was compared.
    states: int  #: Number of states that were compared.
    differs_at: str | None = None  #: Position of the first state that differs; None if all are equal.

@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Immutable version of a trained model."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    version: int  #: Number of the version, from 1; numbers are not reused.
    served: bool  #: Whether this version predicts.
    created: str  #: Creation time (RFC 3339).
    job: str  #: Id of the job that created the version.
    data: dict[str, Any] | None = None  #: Dataset or stream of the training data, as in the job; None if unknown.
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None = None  #: Metrics on the held-out rows, if there were any.
    converged: bool  #: Whether the fit converged before it used up its iterations.
    gap: float | None = None  #: Upper bound of the relative distance from the optimum; None if unknown.
    scaling: str  #: Scaling of the features in training and in predictions.
    not_promoted_because: str | None = None  #: Reasons why the version was not served when it was created; None if it was, or if the job requested it.
    worse: str | None = None  #: Amount by which the version scored lower than the one it replaced, on the same rows; None if it did not.
    baseline: dict[str, float] | None = None  #: Metrics of predicting the most frequent training labels for each of these rows.
    rows: int  #: Number of examples that the version was fitted to.
    sampled: dict[str, Any] | None = None  #: Sample of the stream that the version was trained on; None for other data.
    bytes: int

@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """Result of a promotion."""
    position: str  #: Log position of the last update included. Opaque: store it, do not compare it.
    model: str
    follower: str | None = None  #: Name of the follower, which now has the former algorithm and state of the leader, and follows it.
    algorithm: str | None = None  #: Current algorithm of the model.
    updates: int | None = None  #: Number of examples that the model has learnt.
    since: str | None = None  #: Position at which the history of the model now begins.
    version: int | None = None
    previous: int | None = None  #: Version served before; None for none. Promoting it switches back.

@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDetail:
    """Details of a version."""
    version: int
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None = None
    baseline: dict[str, float] | None = None  #: Metrics of predicting the most frequent training labels for each of these rows.
    label_scores: dict[str, dict[str, float]] | None = None  #: ``f1``, ``precision``, ``recall`` and ``support`` (number of rows) of each label on the held-out rows.
    label_decisions: dict[str, dict[str, Any]]  #: Threshold and calibration of each label.
    label_correlation: dict[str, Any] | None = None  #: Correlations of labels, learnt by mlrl and ssmlrl.
    view_weights: dict[str, float] | None = None  #: Weights of the views, learnt by lsa_mml.
    convergence: dict[str, Any]

@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """Progress of a job."""
    iteration: int  #: Number of iterations of the current fit.
    objective: float | None = None  #: Value that the fit minimises or maximises; None before the first one.
    gap: float | None = None  #: Upper bound of the relative distance from the optimum; None if unknown.
    seconds: float  #: Seconds spent on this fit.
    fold: int | None = None  #: Fold that the current fit omits, from 1; None for the fit of all rows.
    folds: int | None = None  #: Number of folds, of a trial or for thresholds and probabilities; None for none.
    checkpoint: int | None = None  #: Iteration of the last checkpoint, from which the fit would resume; None for the beginning.
    trials: dict[str, Any] | None = None  #: Trials of a search; None without one.
    best: dict[str, Any] | None = None  #: Best parameters of a search so far; None without one.

@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """Reason why a job failed."""
    code: str
    detail: str

@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The result of a job: a version of a model."""
    model: str
    version: int
    rows: int  #: Number of rows learnt.
    converged: bool  #: Whether the fit converged before it used up its iterations.
    gap: float | None = None  #: Upper bound of the relative distance from the optimum at the end; None if unknown.
    promoted: bool  #: Whether the version was served at once.
    not_promoted_because: str | None = None  #: Reasons why ``if_better`` did not serve the version; else None.
    worse: str | None = None  #: Amount by which the version scored lower than the one it replaced, on the same rows; else None.
    held_out: dict[str, Any] | None = None
    params: dict[str, Any]  #: Parameters of the model; the best ones of a search.
    trials: list[dict[str, Any]]
    seconds: float  #: Seconds spent on the fit of the model, its thresholds and its probabilities.

@dataclass(frozen=True, slots=True, kw_only=True)
class _JobStatus:
    """Status of a job."""
    id: str
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    trainer: str
    params: dict[str, Any]
    data: dict[str, Any]
    holdout: float | dict[str, Any] | None = None
    search: dict[str, Any] | None = None
    seed: int
    model: str
    promote: Literal["if_better", "always", "never"]
    created: str  #: Creation time (RFC 3339, UTC, like all times).
    started: str | None = None
    ended: str | None = None
    attempt: int  #: Number of the attempt, from 1; one more after each crash of a worker.
    sampled: dict[str, Any] | None = None  #: Examples sampled from a stream; None before sampling, and for datasets.
    progress: JobProgress | None = None
    result: JobResult | dict[str, Any] | None = None
    error: JobError | None = None

@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """Line of a job's log."""
    n: int  #: Number of the line, from 1.
    time: str  #: RFC 3339, UTC.
    text: str

@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """Trainer and its parameters."""
    name: str  #: Name, as in ``trainer`` of a job.
    title: str  #: Title for people.
    needs: str  #: Kind of data that the trainer learns from.
    weights: bool  #: Whether the trainer accepts row weights; if not, the data must have none.
    params: dict[str, Any]  #: JSON schema of the parameters: types, bounds, defaults.
    search: dict[str, list[float]]  #: Values that a search tries by default.
    rbf_search: dict[str, list[float | str]]  #: Additional values that a search tries if the kernel is ``rbf``, for parameters that have their defaults.

@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """Dataset."""
    name: str
    format: str  #: Format of the uploaded file.
    rows: int
    features: int  #: Number of features of all views together.
    labels: int
    cardinality: float  #: Mean number of relevant labels per labelled row.
    density: float  #: Cardinality divided by the number of labels.
    views: dict[str, int]  #: Number of features of each view; a single view is called x.
    splits: dict[str, int]  #: Number of rows of each split.
    text: dict[str, Any] | None = None  #: Text options of records with all defaults; None if there are only numbers.
    weighted: bool = False  #: Whether rows have weights; without them each counts once.
    checksum: str  #: SHA-256 of the uploaded file, as ``sha256:`` and hexadecimal digits.
    bytes: int  #: Size in the store in bytes.
    created: str  #: Creation time (RFC 3339).
    details: dict[str, Any] | None = None  #: Label names, the number of rows of each, and the report.

@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Rate limits of a key; None for no limit."""
    requests_per_second: float | None = None  #: Maximum average rate of requests, with a burst of one second.
    examples_per_second: float | None = None  #: Maximum average rate of predicted or learnt examples, with a burst of one second.
    max_concurrent_requests: int | None = None  #: Maximum number of concurrent requests.

@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """Key without its secret."""
    id: str  #: Part of the key between the two underscores.
    name: str
    note: str | None = None
    scopes: list[str]
    models: list[str]  #: Models, datasets and job targets that the key includes: names, or prefixes of names that end in ``*``.
    created_at: str  #: Creation time (RFC 3339, UTC, like all times).
    expires_at: str | None = None  #: Expiry; None for never.
    revoked_at: str | None = None  #: Time of the revocation; None if the key is not revoked.
    rates: RateLimits
    state: Literal["active", "expired", "revoked"]  #: State of the key; expired and revoked keys are rejected.

@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """New key with its text."""
    key: str = field(repr=False)  #: The whole key, ``ml_<id>_<secret>``, which is shown only once.

@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """Attempt to deliver an event."""
    event: str  #: Id of the event, as in the header ``webhook-id``.
    type: str  #: Type of the event.
    time: str
    attempt: int  #: Number of the attempt, from 1.
    milliseconds: int
    status: int | None = None  #: Status of the response; None without a response.
    error: str | None = None  #: Code of the error; None if the event was delivered.

@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Webhook with its latest deliveries."""
    id: str
    url: str = field(repr=False)
    events: list[str]
    models: list[str]
    created_at: str  #: Creation time (RFC 3339, UTC, like all times).
    state: Literal["active", "disabled"]  #: State of the webhook; a disabled one gets no events until it is enabled.
    reason: str | None = None  #: Error code because of which the webhook was disabled; None while it is active.
    waiting: int  #: Number of queued events.
    dropped: int  #: Number of events that were dropped because the queue was full, and that the receiver does not know of yet.
    delivered: int  #: Number of delivered events.
    failures: int  #: Number of failed attempts to deliver the first queued event.
    deliveries: list[WebhookDelivery] = field(default_factory=list)  #: Latest attempts, newest first.

@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook(Webhook):
    """New webhook with its secret."""
    secret: str = field(repr=False)  #: Secret that signs the events; it is not shown again.

@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Description of a process that shares the store."""
    id: str
    this: bool  #: Whether this process sent the response.
    role: str  #: Role: ``server`` or ``worker``.
    host: str  #: Name of the machine or container.
    pid: int
    release: str
    build: str  #: Build: processes of one build use the same code, the same libraries and the same kind of processor.
    supports: int  #: Highest format number of a store that the process supports.
    started_at: str
    ready: bool
    models: dict[str, str]  #: Positions of the most recently used models in memory; at most 100.
    withheld: dict[str, str]  #: Models that the process must not serve, each with the error code; another release must serve them.

@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Processes that share the store."""
    format: int  #: Format number of the store; ``manylabel upgrade-store`` raises it.
    replicas: list[Replica]  #: Processes in the order of their start.

@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtedPlace:
    """Learnt example."""
    position: str  #: Position of the entry of the example.
    index: int  #: Index of the example in the entry.
    ref: str | None = None  #: Reference that was sent with the example.
    time: str  #: Time of the append of the entry, by the clock of the store (RFC 3339, UTC).

@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureForDoubt:
    """Feature that contradicts a label."""
    feature: Hashable  #: Name or number of the feature.
    contribution: float  #: Contribution to the score of the label by the model that has not learnt the example.

@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt(DoubtedPlace):
    """Doubtful label of a learnt example."""
    label: str
    given: bool  #: Whether the example has the label.
    kind: Literal["missing", "wrong"]
    probability: float  #: Probability of the label by a model that has not learnt the example.
    share: float  #: Share of the examples with the label.
    seen: int  #: Number of examples with the label that this model has learnt.
    neighbours: float  #: Share of the ten most similar examples that have the label, weighted by their similarity.
    similar: list[DoubtedPlace]  #: Similar examples that contradict the example, at most 3: they have the missing label, or lack the wrong one.
    for_: list[FeatureForDoubt]  #: Features that contradict the example, at most 5: they speak for the missing label, or against the wrong one.
    score: float  #: Value by which the list is sorted, in log-odds; higher is more doubtful.
    existed: bool  #: Whether the model had the label when it learnt the example.

@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtCounts:
    """Numbers of omitted examples and labels."""
    not_human: int  #: Number of examples whose labels are not from people.
    before_since: int  #: Number of examples before ``since``, which are no longer in the history or exceed ``last``.
    too_rare: int  #: Number of labels with too few examples to be judged.
    checked: int  #: Number of doubts that were corrected or confirmed, or whose label was retired or paused, since the search.

@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtList:
    """Doubtful labels of one kind, the most doubtful first."""
    job: str  #: Id of the job that made the list.
    position: str  #: Position of the log up to which the examples were examined.
    since: str | None = None  #: Position of the first examined example.
    examined: int  #: Number of examined examples.
    left_out: DoubtCounts
    doubts: list[Doubt]

@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionEvidence:
    """Evidence for a suggestion; numbers of examples are weighted."""
    examples: list[float]  #: Number of examples with the label, and with the other label.
    together: float  #: Number of examples with both labels.
    changes: float  #: Number of learnt examples whose labels would change.
    alike: float | None = None  #: Similarity of the two labels for a model that has not learnt the examples: 1 if it cannot tell them apart; None if not computed.
    means: list[float] | None = None  #: For a vague label, its mean probability on examples with and without the label; None for other kinds.
    last_seen: list[int | None]  #: Number of the last learnt example with the label, and with the other label.

@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedRequest:
    """Request that applies a suggestion."""
    method: Literal["POST", "PUT"]
    path: str
    body: dict[str, Any]

@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Suggested change of a label."""
    kind: Literal["name", "merge", "parent", "pause", "vague"]  #: ``name`` and ``merge``: merge the label into the other one. ``parent``: the label implies the other one. ``pause``: the label is no longer used. ``vague``: the model cannot recognise the label; define it better, or stop using it.
    why: Literal["spelling", "plural", "slip", "together", "alike", "implied", "unused", "rare", "unlearnable"]  #: Reason: the names differ in ``spelling``, in number (``plural``) or in one letter (``slip``); the labels occur ``together``, or are ``alike``; the parent is ``implied``; the label is ``unused`` or ``rare``; the model cannot learn it (``unlearnable``).
    label: str  #: Label to change.
    into: str | None = None  #: Label to merge into, for ``name`` and ``merge``.
    parent: str | None = None  #: Suggested parent, for ``parent``.
    evidence: SuggestionEvidence
    request: SuggestedRequest | None = None  #: Request that applies the suggestion. It is None for a vague label, for a merge of a label that groups or parents name, and for a parent if groups and parents name too many labels.

@dataclass(frozen=True, slots=True, kw_only=True)
class LabelHealth:
    """Suggestions for the labels of a model."""
    job: str | None = None  #: Id of the search for suggestions that need the examples; None without a search.
    position: str | None = None  #: Position of the log up to which the search examined the examples.
    examined: int | None = None  #: Number of examples that the search examined.
    suggestions: list[Suggestion]  #: Suggestions by kind, the strongest of each kind first.

@dataclass(frozen=True, slots=True, kw_only=True)
class Undone(Updated):
    """Result of undoing a change of labels."""
    how: Literal["rollback", "inverse"]  #: ``rollback``: no later entry had changed the model, so it has the state from before the change. ``inverse``: later entries stay, and only the change was undone.
