"""Responses to predictions and updates, and events."""

from typing import Any, Literal

from pydantic import Field

from manylabel_service.api.schemas.base import At, ResponseModel
from manylabel_service.api.web.problems import ProblemDocument


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
    """Number of examples from which the label counts as learnt."""


class Prediction(ResponseModel):
    """Labels and scores of one example."""

    labels: list[str]
    """Predicted labels: those with a score above 0."""
    scores: dict[str, float]
    """Score minus threshold of each label; with `optimise`, half of the log-odds above the decision threshold. At most
    as many labels as `top` or the server allows, best first."""
    scores_of: int | None = None
    """Number of labels of which `scores` lists the best; present only if some are omitted."""
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
    """Whether the example needed review then; present if precision was promised."""
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


class LineLearnt(Prediction, At):
    """Response to a line whose example was predicted, then learnt."""

    line: int
    """Number of the line."""
    updates: int
    """Number of examples that the model had learnt, including this one."""


class LineReplayed(At):
    """Response to a line that was learnt earlier."""

    line: int
    """Number of the line."""
    replayed: Literal[True]


class RolledBack(UpdateResponse):
    """Result of a rollback."""

    rolled_back_to: str
    """Position of the snapshot."""


class UpdateEvent(At):
    """Event: examples were learnt."""

    updates: int
    """Number of examples that the model has learnt in total."""
    examples: int
    """Number of examples learnt by this call."""


class DriftEvent(At):
    """Event: a drift detector fired. It precedes the update of its example, and has the id of the event before that."""

    updates: int
    """Number of examples learnt, including the one at which the detector fired."""
    label: str | None
    """Label of the detector; null for the detector over all labels."""


class RollbackEvent(At):
    """Event: the model returned to a snapshot."""

    to: str
    """Position of the snapshot."""
    updates: int
    """Number of examples that the model has learnt now."""


class PromotedEvent(At):
    """Event: a trained model serves another version."""

    version: int
    """Number of the version served now."""
    previous: int | None
    """Number of the version served before; null for none."""


class NotPromotedEvent(At):
    """Event: a new version of a trained model is not served, because its job requested `if_better`."""

    version: int
    """Number of the new version."""
    reason: str
    """Reasons, as in `not_promoted_because` of the version; at most 500 characters."""


class LabelEvent(At):
    """Event: a label is new, or was described, renamed, merged, retired, paused or resumed."""

    updates: int
    """Number of examples learnt so far."""
    label: str | None
    """Name of the label from now on; null if it was retired."""
    change: Literal["new", "described", "renamed", "merged", "retired", "paused", "resumed"]
    """The change of the label."""
    before: str | None = None
    """Earlier name; null for a new label."""
    alike: str | None = None
    """Earlier label that a new label differs from only in case, spaces or Unicode form; null without one."""


class DroppedEvent(ResponseModel):
    """Event: events were lost."""

    count: int | None
    """Number of lost events; null if unknown."""


class LineRefused(ResponseModel):
    """Response to a line that was not learnt. If it is the last line of the response, later lines were not learnt
    either."""

    line: int
    """Number of the line."""
    error: ProblemDocument
    """Problem document with the reason."""
    retry_after: int | None = None
    """Seconds after which the stream can continue with this line; present only if the stream ended."""


class StreamSummary(ResponseModel):
    """The last line of `answers=errors`: the result of the stream."""

    learnt: int
    """Number of lines that this request learnt."""
    replayed: int
    """Number of lines learnt earlier under the key of the stream."""
    refused: int
    """Number of refused lines, including those that were not listed."""
    next: int
    """Number of the first line that was not read. The stream can continue there."""
    position: str | None
    """Position of the last learnt line; null for none."""
    updates: int | None
    """Number of examples that the model had learnt then."""
