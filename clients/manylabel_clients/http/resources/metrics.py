"""Measures of how well a model predicts its stream, now and in the past, and alarms of drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from manylabel_clients.http.resources.records import from_json

P = TypeVar("P", bound="Measures | MeasureColumns")


@dataclass(frozen=True, slots=True)
class BaselineMeasures:
    """Baseline measures are of predicting, each time, the labels frequent so far; None without examples."""

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
    """Prequential measures count each example as it was predicted before it was learnt; None while there were none.

    An example labelled late counts by the answer that was served.
    """

    examples: int
    baseline: BaselineMeasures
    """Measures of the baseline, over the same examples."""


@dataclass(frozen=True, slots=True)
class WindowMeasures(Measures):
    """Window measures count the latest examples only."""

    size: int
    """Maximum number of examples in the window."""


@dataclass(frozen=True, slots=True)
class Alarms:
    """Alarms count how often a detector of drift has detected one."""

    alarms: int
    last: int | None
    """Examples the model had learnt when it last did; None for never."""


@dataclass(frozen=True, slots=True)
class Drift(Alarms):
    """Drift has the alarms of the detector of all labels together, and of those of single labels."""

    labels: dict[str, Alarms]
    """Alarms of single labels; only labels with an alarm."""


@dataclass(frozen=True, slots=True)
class GroupMeasures:
    """Group measures are of all decisions on labels that had been seen about as often."""

    true: float
    """Number of cases in which such a label was true, each counted by the weight of its example."""
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class BySeen:
    """Measures by the number of examples in which a label was true before."""

    never: GroupMeasures
    below_5: GroupMeasures
    below_20: GroupMeasures
    """Labels with 5 to 19 earlier examples."""
    more: GroupMeasures


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics measure a model over all its updates, and over the latest ones; of one that jobs train, a version."""

    cumulative: Measures
    window: WindowMeasures
    by_seen: BySeen
    """Metrics since the start, by the number of earlier examples of a label."""
    drift: Drift | None = None
    """None of a model that does not watch for it."""
    version: int | None = None
    """Version of a trained model whose predictions are measured; None for an online model."""


Column: TypeAlias = "list[float | None]"
"""A number for each point."""


@dataclass(frozen=True, slots=True)
class BaselineColumns:
    """Columns of baseline measures have a number for each point in the past; None while there were no examples."""

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
    """Columns of measures have a number for each point in the past; None while there were no examples."""

    examples: list[int]
    """Number of examples covered."""
    baseline: BaselineColumns


@dataclass(frozen=True, slots=True)
class WindowColumns(MeasureColumns):
    """Columns of window measures count, at each point, the latest examples only."""

    size: int
    """Maximum number of examples in the window."""


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """Columns of label measures say how well one label was predicted; None where there is nothing to divide by."""

    precision: Column
    recall: Column
    f1: Column


@dataclass(frozen=True, slots=True)
class LabelHistory:
    """A label's history has points of its own, fewer than those of the model."""

    stride: int
    """Examples from one point to the next; to the last there may be fewer."""
    examples: list[int]
    """Number of examples learnt at each point."""
    cumulative: LabelColumns
    window: LabelColumns


@dataclass(frozen=True, slots=True)
class PastAlarms:
    """Past alarms are the latest ones of drift, oldest first."""

    examples: list[int]
    """Number of examples learnt at each alarm, including the one at which the detector fired."""
    labels: list[str | None]
    """Whose detector it was; None for the one of all labels."""


@dataclass(frozen=True, slots=True)
class MetricsHistory:
    """A history of metrics has what they were, in columns: one number for each point, the last for now."""

    stride: int
    """Examples from one point to the next; to the last there may be fewer."""
    examples: list[int]
    """Number of examples learnt at each point."""
    cumulative: MeasureColumns
    window: WindowColumns
    labels: dict[str, LabelHistory]
    """Requested labels."""
    position: str
    updates: int
    drift: PastAlarms | None = None
    """None of a model that does not watch for it."""
    version: int | None = None
    """Version of a trained model whose predictions are measured; None for an online model."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """A bin counts the labels that were given a probability from one bound to below the other."""

    from_: float
    to: float
    count: float
    """Truths of labels, each as often as its example weighs."""
    mean_probability: float | None
    """None, as the share, where none was counted."""
    share_true: float | None
    """Share of true labels."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Reliability compares the probabilities given before each example was learnt with how often they came true."""

    bins: list[ReliabilityBin]
    """Twenty of equal width."""
    expected_calibration_error: float | None
    """The mean distance of `share_true` from `mean_probability`; None while nothing was counted."""
    brier_score: float | None
    """The mean squared distance of probabilities from the truth, 0 or 1; None while nothing was counted."""
    position: str
    updates: int


def reliability(answer: Mapping[str, Any]) -> Reliability:
    """Return how often probabilities came true from its JSON."""
    bins = [from_json(ReliabilityBin, {**each, "from_": each["from"]}) for each in answer["bins"]]
    return from_json(Reliability, {**answer, "bins": bins})


def metrics_history(answer: Mapping[str, Any]) -> MetricsHistory:
    """Return the past of measures from its JSON."""
    drift = answer.get("drift")
    parts = {
        "cumulative": _part(MeasureColumns, BaselineColumns, answer["cumulative"]),
        "window": _part(WindowColumns, BaselineColumns, answer["window"]),
        "labels": {name: _label_history(past) for name, past in answer["labels"].items()},
        "drift": None if drift is None else from_json(PastAlarms, drift),
    }
    return from_json(MetricsHistory, {**answer, **parts})


def _label_history(answer: Mapping[str, Any]) -> LabelHistory:
    parts = {part: from_json(LabelColumns, answer[part]) for part in ("cumulative", "window")}
    return from_json(LabelHistory, {**answer, **parts})


_GROUPS = ("never", "below_5", "below_20", "more")


def metrics(answer: Mapping[str, Any]) -> Metrics:
    """Return measures from their JSON."""
    drift = answer.get("drift")
    return Metrics(
        _part(Measures, BaselineMeasures, answer["cumulative"]),
        _part(WindowMeasures, BaselineMeasures, answer["window"]),
        BySeen(**{group: from_json(GroupMeasures, answer["by_seen"][group]) for group in _GROUPS}),
        None if drift is None else _drift(drift),
        answer.get("version"),
    )


def _part(kind: type[P], baseline: type[Any], answer: Mapping[str, Any]) -> P:
    """Return measures with those of their baseline: numbers, or columns of them."""
    return from_json(kind, {**answer, "baseline": from_json(baseline, answer["baseline"])})


def _drift(answer: Mapping[str, Any]) -> Drift:
    labels = {label: from_json(Alarms, alarms) for label, alarms in answer["labels"].items()}
    return from_json(Drift, {**answer, "labels": labels})
