"""Prequential metrics of a model, their history, and drift alarms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class BaselineMeasures:
    """Metrics of a predictor of the most frequent labels so far; None without examples."""

    precision: float | None
    recall: float | None
    f1: float | None
    micro_f1: float | None
    macro_f1: float | None
    hamming_loss: float | None
    one_error: float | None
    ranking_loss: float | None
    subset_accuracy: float | None
    precision_at_1: float | None
    precision_at_5: float | None
    precision_at_10: float | None
    precision_at_100: float | None
    f1_at_1: float | None
    f1_at_5: float | None
    f1_at_10: float | None
    f1_at_100: float | None
    ndcg_at_1: float | None
    ndcg_at_5: float | None
    ndcg_at_10: float | None
    ndcg_at_100: float | None


@dataclass(frozen=True, slots=True)
class Measures(BaselineMeasures):
    """Prequential metrics; None without examples.

    An example with delayed labels counts for the prediction that was served.
    """

    examples: int
    baseline: BaselineMeasures
    """Metrics of the baseline on the same examples."""


@dataclass(frozen=True, slots=True)
class WindowMeasures(Measures):
    """Prequential metrics of the latest examples."""

    size: int
    """Maximum number of examples in the window."""


@dataclass(frozen=True, slots=True)
class Alarms:
    """Number of drift alarms of a detector."""

    alarms: int
    last: int | None
    """Number of examples learnt at the last alarm; None without an alarm."""


@dataclass(frozen=True, slots=True)
class Drift(Alarms):
    """Drift alarms of the detector of all labels, and of single labels."""

    labels: dict[str, Alarms]
    """Alarms of single labels; only labels with an alarm."""


@dataclass(frozen=True, slots=True)
class GroupMeasures:
    """Metrics of all decisions on labels with about the same number of earlier examples."""

    true: float
    """Number of true labels, weighted by the sample weights."""
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class BySeen:
    """Metrics by the number of earlier examples of a label."""

    never: GroupMeasures
    below_5: GroupMeasures
    below_20: GroupMeasures
    """Labels with 5 to 19 earlier examples."""
    more: GroupMeasures


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a model over all its updates, and over the latest ones; of a trained model, those of one version."""

    cumulative: Measures
    window: WindowMeasures
    by_seen: BySeen
    """Metrics since the start, by the number of earlier examples of a label."""
    drift: Drift | None = None
    """Drift alarms; None without drift detection."""
    version: int | None = None
    """Version of a trained model whose predictions are measured; None for an online model."""
    by_source: Mapping[str, dict[str, float | None]] = field(default_factory=dict)
    """Agreement with labels that do not come from people, by source: "machine", "rule"."""
    promise: dict[str, Any] | None = None
    """Account of the promise of precision, as in `GET metrics`; None without a promise."""


Column: TypeAlias = "list[float | None]"
"""A number for each point."""


@dataclass(frozen=True, slots=True)
class BaselineColumns:
    """Past metrics of the baseline, a number for each point; None without examples."""

    precision: Column
    recall: Column
    f1: Column
    micro_f1: Column
    macro_f1: Column
    hamming_loss: Column
    one_error: Column
    ranking_loss: Column
    subset_accuracy: Column


@dataclass(frozen=True, slots=True)
class MeasureColumns(BaselineColumns):
    """Past metrics, a number for each point; None without examples."""

    examples: list[int]
    """Number of examples covered."""
    baseline: BaselineColumns


@dataclass(frozen=True, slots=True)
class WindowColumns(MeasureColumns):
    """Past metrics of the latest examples at each point."""

    size: int
    """Maximum number of examples in the window."""


@dataclass(frozen=True, slots=True)
class PastAlarms:
    """Latest drift alarms, oldest first."""

    examples: list[int]
    """Number of examples learnt at each alarm, including the one at which the detector fired."""
    labels: list[str | None]
    """Label of each alarm; None for the detector over all labels."""


@dataclass(frozen=True, slots=True)
class MetricsHistory:
    """History of metrics, in columns with one number per point. The last point has the current values."""

    stride: int
    """Examples from one point to the next; to the last there may be fewer."""
    examples: list[int]
    """Number of examples learnt at each point."""
    cumulative: MeasureColumns
    window: WindowColumns
    position: str
    updates: int
    drift: PastAlarms | None = None
    """Drift alarms; None without drift detection."""
    version: int | None = None
    """Version of a trained model whose predictions are measured; None for an online model."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Bin of the reliability diagram."""

    from_: float
    to: float
    count: float
    """Weighted number of decisions with known truth."""
    mean_probability: float | None
    """Mean probability; None for an empty bin, like the share."""
    share_true: float | None
    """Share of true labels."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Reliability diagram: prequential probabilities compared with the frequency of true labels."""

    bins: list[ReliabilityBin]
    """Twenty bins of equal width."""
    expected_calibration_error: float | None
    """Mean distance of `share_true` from `mean_probability`; None without examples."""
    brier_score: float | None
    """Mean squared distance between probability and truth (0 or 1); None without examples."""
    position: str
    updates: int
