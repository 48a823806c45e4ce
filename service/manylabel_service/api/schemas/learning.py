"""Responses to predictions and updates, and events."""

from typing import Any, Literal

from pydantic import Field

from manylabel_service.api.schemas.base import At, ResponseModel


class FeaturePart(ResponseModel):
    """Contribution of one feature to a score."""

    feature: str | int
    """Name of the feature, or its number."""
    value: float | None
    """Value of the feature in the request; null for a vector, which counts as one feature."""
    contribution: float
    """Contribution of the feature to the score."""


class Explanation(ResponseModel):
    """Contributions to the score of a label, which sum to the score up to rounding."""

    for_: list[FeaturePart] = Field(alias="for")
    """Features with the largest positive contributions, largest first."""
    against: list[FeaturePart]
    """Features with the largest negative contributions, largest first."""
    title: float | None = None
    """Contribution of the words of the label's title and description; omitted if it is zero."""
    rest: float
    """Sum of everything else: the constant, thresholds, and the other features."""


class Learning(ResponseModel):
    """Progress of a label that was true in few examples."""

    seen: int | float
    """Weighted number of examples in which the label was true."""
    needed: int
    """Number of examples at which the label counts as learnt."""


class Prediction(ResponseModel):
    """Labels and scores of one example."""

    labels: list[str]
    """Predicted labels: those with a score above 0."""
    scores: dict[str, float]
    """Score minus threshold of each label; with `optimise`, half of the log-odds above the decision threshold. At most
    as many labels as `top` or the server allows, best first."""
    scores_of: int | None = None
    """Total number of labels, of which `scores` lists the best; present only if labels are omitted."""
    learning: dict[str, Learning] | None = None
    """Labels of `scores` that have few examples; present with `top`, for an online model."""
    threshold: float
    """Threshold subtracted from the raw score. It is 0 for a trained model whose labels have separate thresholds, which
    are already subtracted."""
    probabilities: dict[str, float] | None = None
    """Probability of each label, if requested."""
    auto: list[str] | None = None
    """Labels that may be applied unseen; present if the model promises a precision."""
    review: bool | None = None
    """Whether the example needs review; present if the model promises a precision."""
    ask: bool | None = None
    """Whether to ask the teacher. If false, serve `labels`, and submit no labels of the teacher. Present if the model
    promises parity, with `keep`."""
    why: Literal["unsure", "audit", "sure"] | None = None
    """Reason to ask or not; `audit`: the model is sure, but the teacher is asked to verify the promise."""
    check: Literal[True] | None = None
    """Present if a person should check the answer: a random 5 % of the answers served without the teacher."""
    explanations: dict[str, Explanation] | None = None
    """Explanation of each predicted label, if `explain` is set."""
    id: str | None = None
    """Id for the call `labels`; present if the prediction is stored."""


class _Predicting(At):
    expires: str | None = None
    """Time at which stored predictions expire (RFC 3339)."""
    stale_seconds: float | None = None
    """Seconds for which the store has been unreachable; updates of other servers since then are missing."""


class PredictResponse(Prediction, _Predicting):
    """Prediction of an example."""


class PredictBatchResponse(_Predicting):
    """Predictions of a batch."""

    predictions: list[Prediction]


class UnlabelledPrediction(ResponseModel):
    """Stored prediction without labels, as the model predicts it now."""

    id: str
    """Id for the call `labels`."""
    uncertainty: float
    """Uncertainty, 0 to 1; 1 means that a label is at its decision threshold."""
    labels: list[str]
    """Predicted labels."""
    probabilities: dict[str, float] | None
    """Probability of each label; null for a model without probabilities."""
    auto: list[str] | None = None
    """Labels that could be applied unseen when the example was predicted; present if precision was promised."""
    review: bool | None = None
    """Whether the example needed review when it was predicted; present if precision was promised."""
    record: Any = None
    """The example as posted, if it was stored with `keep=record`."""


class UnlabelledList(At):
    """Stored predictions without labels."""

    predictions: list[UnlabelledPrediction]
    candidates: int
    """Number of examples compared."""
    updates: int
    """Number of examples that the model has learnt in total."""


class UpdateResponse(At):
    """Result of an update."""

    updates: int
    """Number of examples that the model has learnt in total."""


class PredictUpdateResponse(Prediction, UpdateResponse):
    """Prediction of an example that was then learnt."""


class PredictUpdateBatchResponse(UpdateResponse):
    """Predictions of a batch of examples, each made just before the example was learnt."""

    predictions: list[Prediction]


class RolledBack(UpdateResponse):
    """Result of a rollback."""

    rolled_back_to: str
    """Position of the snapshot."""
