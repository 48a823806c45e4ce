"""Answers to predictions and updates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from manylabel_clients.http.resources.records import from_json

Keep = bool | Literal["record"]
"""Whether the server keeps what it predicts, for its labels later; with "record" the example as it was posted too."""


@dataclass(frozen=True, slots=True)
class FeaturePart:
    """A part of a score is what one feature contributes to it."""

    feature: Hashable
    """The name of the feature, or its number."""
    value: float | None
    """Its value as it came in; of a word in a text 1 + log of how often it is there, None of a vector."""
    contribution: float
    """Contribution to the score."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation says why a label was predicted: the score is the sum of contributions, of title and of rest."""

    for_: list[FeaturePart]
    """The features that speak most for the label, the one that does so most first."""
    against: list[FeaturePart]
    """Those that speak most against it."""
    rest: float
    """All else: the constant, thresholds, and the other features."""
    title: float = 0.0
    """Contribution of the words of the label's title and description."""


@dataclass(frozen=True, slots=True)
class Learning:
    """Learning says that a label was true in too few examples to be known well."""

    seen: float
    """Number of examples in which it was true, each counted by its weight."""
    needed: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """A prediction says which labels one example has, by a model."""

    labels: list[str]
    """The labels predicted: those whose score is above 0."""
    scores: dict[str, float]
    """Score minus threshold of every label, or of the best; with `optimise`, half its log-odds above its cut."""
    threshold: float
    """The raw threshold that was taken off the scores."""
    position: str
    """Where the model stood in its log when it answered. Opaque."""
    id: str | None = None
    """For `label`, if the prediction is kept."""
    expires: str | None = None
    """Until when it is kept: RFC 3339, UTC."""
    stale_seconds: float | None = None
    """For how long the server has been without its storage, if it is: others may have learnt since."""
    probabilities: dict[str, float] | None = None
    """How likely each label of `scores` is, if it was asked for."""
    explanations: dict[str, Explanation] | None = None
    """Why each of `labels` was predicted, if it was asked for."""
    scores_of: int | None = None
    """Number of labels of which `scores` has the best; None if it has all."""
    auto: list[str] | None = None
    """Labels that may be applied unseen; None if the model promises no precision."""
    review: bool | None = None
    """Whether the example needs review; None if the model promises no precision."""
    learning: dict[str, Learning] | None = None
    """Labels of `scores` that are still being learnt; None without `top`, and for a trained model."""


@dataclass(frozen=True, slots=True)
class UnlabelledPrediction:
    """An unlabelled prediction was kept, and waits for its labels; it is as the model predicts it now."""

    id: str
    """For `label`."""
    uncertainty: float
    """From 0 to 1: 1 where the model may as well say the opposite of one of its labels."""
    labels: list[str]
    """The labels predicted."""
    probabilities: dict[str, float] | None
    """How likely each label is; None of a model without probabilities."""
    auto: list[str] | None = None
    """Labels that could be applied unseen when it was predicted; None without a promise of precision."""
    review: bool | None = None
    """Whether it needed review then; None without a promise of precision."""
    record: Any = None
    """The example as it was posted, if it was predicted with ``keep="record"``."""


@dataclass(frozen=True, slots=True)
class UnlabelledPage:
    """An unlabelled page has some of the kept predictions that wait for their labels."""

    predictions: list[UnlabelledPrediction]
    candidates: int
    """Number of stored predictions that were compared."""
    position: str
    updates: int


@dataclass(frozen=True, slots=True)
class Updated:
    """A receipt of an update says where the model stands with it."""

    position: str
    """Where the model stands in its log now. Opaque."""
    updates: int
    """Examples the model has learnt in all, these included."""
    durability: str
    """Durability reached: ``log`` or ``fsync``."""
    replayed: bool = False
    """True if the server had learnt it in an earlier attempt and has only repeated its answer."""


def predictions(answer: Mapping[str, Any]) -> list[Prediction]:
    """Return the predictions in the JSON of a batch, or of one example."""
    whole = {part: answer.get(part) for part in ("expires", "stale_seconds")}
    found = answer.get("predictions", [answer])
    return [
        Prediction(
            one["labels"],
            one["scores"],
            one["threshold"],
            answer["position"],
            one.get("id"),
            probabilities=one.get("probabilities"),
            explanations=_explanations(one.get("explanations")),
            scores_of=one.get("scores_of"),
            auto=one.get("auto"),
            review=one.get("review"),
            learning=_learning(one.get("learning")),
            **whole,
        )
        for one in found
    ]


def _learning(answer: Mapping[str, Any] | None) -> dict[str, Learning] | None:
    return None if answer is None else {label: from_json(Learning, one) for label, one in answer.items()}


def _explanations(answer: Mapping[str, Any] | None) -> dict[str, Explanation] | None:
    if answer is None:
        return None
    return {
        label: Explanation(
            [FeaturePart(**part) for part in one["for"]],
            [FeaturePart(**part) for part in one["against"]],
            one["rest"],
            one.get("title", 0.0),
        )
        for label, one in answer.items()
    }


def unlabelled(answer: Mapping[str, Any]) -> UnlabelledPage:
    """Return a page of unlabelled predictions from its JSON."""
    found = [from_json(UnlabelledPrediction, one) for one in answer["predictions"]]
    return from_json(UnlabelledPage, {**answer, "predictions": found})


def updated(answer: Mapping[str, Any], replayed: bool) -> Updated:
    """Return a receipt from its JSON."""
    return Updated(answer["position"], answer["updates"], answer["durability"], replayed)
