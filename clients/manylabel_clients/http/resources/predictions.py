"""Results of predictions and updates."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from manylabel_clients.http.transport.json_body import from_json

Keep = bool | Literal["record"]
"""Whether the server stores the prediction for delayed labels; with "record", also the example as posted."""


@dataclass(frozen=True, slots=True)
class FeaturePart:
    """Contribution of one feature to a score."""

    feature: Hashable
    """Name or number of the feature."""
    value: float | None
    """Value of the feature in the request; 1 + log(count) for a word of a text, None for a vector."""
    contribution: float
    """Contribution to the score."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a predicted label: the score is the sum of contributions, of title and of rest."""

    for_: list[FeaturePart]
    """Features with the largest positive contributions."""
    against: list[FeaturePart]
    """Features with the largest negative contributions."""
    rest: float
    """Rest of the score: the constant, thresholds, and the other features."""
    title: float = 0.0
    """Contribution of the words of the label's title and description."""


@dataclass(frozen=True, slots=True)
class Learning:
    """Progress of a label that was true in few examples."""

    seen: float
    """Number of examples in which it was true, weighted by their sample weights."""
    needed: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of one example."""

    labels: list[str]
    """Predicted labels: those whose score is above 0."""
    scores: dict[str, float]
    """Score minus threshold of every label, or of the best; with `optimise`, half the difference of the log-odds from
    those of the decision threshold.
    """
    threshold: float
    """Threshold subtracted from the raw scores."""
    position: str
    """Log position of the model at the response. Opaque."""
    id: str | None = None
    """Id for `label`, if the prediction is stored."""
    expires: str | None = None
    """Expiry of the stored prediction (RFC 3339, UTC)."""
    stale_seconds: float | None = None
    """Seconds for which the server has been without its store; None if it is reachable. Other servers may have learnt
    since."""
    probabilities: dict[str, float] | None = None
    """Probability of each label in `scores`, if requested."""
    explanations: dict[str, Explanation] | None = None
    """Explanation of each of `labels`, if requested."""
    scores_of: int | None = None
    """Number of labels from which `scores` has the best; None if it has all."""
    auto: list[str] | None = None
    """Labels that may be applied unseen; None if the model promises no precision."""
    review: bool | None = None
    """Whether the example needs review; None if the model promises no precision."""
    learning: dict[str, Learning] | None = None
    """Labels of `scores` that are still being learnt; None without `top`, and for a trained model."""


@dataclass(frozen=True, slots=True)
class UnlabelledPrediction:
    """Stored prediction without labels, as the model predicts it now."""

    id: str
    """Id for `label`."""
    uncertainty: float
    """Uncertainty, 0 to 1; 1 means that a label is at its decision threshold."""
    labels: list[str]
    """Predicted labels."""
    probabilities: dict[str, float] | None
    """Probability of each label; None for a model without probabilities."""
    auto: list[str] | None = None
    """Labels that could be applied unseen when it was predicted; None without a promise of precision."""
    review: bool | None = None
    """Whether it needed review then; None without a promise of precision."""
    record: Any = None
    """Example as posted, if stored with ``keep="record"``."""


@dataclass(frozen=True, slots=True)
class UnlabelledPage:
    """Page of stored predictions without labels."""

    predictions: list[UnlabelledPrediction]
    candidates: int
    """Number of stored predictions that were compared."""
    position: str
    updates: int


@dataclass(frozen=True, slots=True)
class Updated:
    """Result of an update, with the position of the model."""

    position: str
    """Current log position of the model. Opaque."""
    updates: int
    """Total number of learnt examples, including these."""
    replayed: bool = False
    """True if the server learnt the examples in an earlier attempt and repeated the response."""


def predictions(answer: Mapping[str, Any]) -> list[Prediction]:
    """Return the predictions in the JSON of a batch, or of one example."""
    whole = {part: answer.get(part) for part in ("expires", "stale_seconds")}
    whole["position"] = answer["position"]
    return [from_json(Prediction, {**one, **whole}) for one in answer.get("predictions", [answer])]
