"""Measures of how well a model predicts its stream, and alarms of drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from manylabel_clients.http.resources.records import from_json

M = TypeVar("M", bound="Measures")


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
    """Most examples in the window."""


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
    """Those with alarms."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics measure a model over all its updates, and over the latest ones; of one that jobs train, a version."""

    cumulative: Measures
    window: WindowMeasures
    drift: Drift | None = None
    """None of a model that does not watch for it."""
    version: int | None = None
    """Of a model that jobs train: the version whose answers are measured."""


def metrics(answer: Mapping[str, Any]) -> Metrics:
    """Return measures from their JSON."""
    drift = answer.get("drift")
    return Metrics(
        _measures(Measures, answer["cumulative"]),
        _measures(WindowMeasures, answer["window"]),
        None if drift is None else _drift(drift),
        answer.get("version"),
    )


def _measures(kind: type[M], answer: Mapping[str, Any]) -> M:
    return from_json(kind, {**answer, "baseline": from_json(BaselineMeasures, answer["baseline"])})


def _drift(answer: Mapping[str, Any]) -> Drift:
    labels = {label: from_json(Alarms, alarms) for label, alarms in answer["labels"].items()}
    return from_json(Drift, {**answer, "labels": labels})
