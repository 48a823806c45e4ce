"""Answers to predictions and updates, and events."""

from typing import Any, Literal

from pydantic import Field

from manylabel_service.api.schemas.base import At, ResponseModel
from manylabel_service.api.web.problems import ProblemDocument
from manylabel_service.storage import Durability


class FeaturePart(ResponseModel):
    """A part of a score is what one feature contributes to it."""

    feature: str | int
    """The name of the feature, or its number."""
    value: float
    """Its value as it came in."""
    contribution: float
    """Amount that the feature adds to the score."""


class Explanation(ResponseModel):
    """The score of a label is the sum of these contributions, of the title and of the rest, to rounding."""

    for_: list[FeaturePart] = Field(alias="for")
    """These features speak most for the label, the one that does so most first; all are above 0."""
    against: list[FeaturePart]
    """These features speak most against it, the one that does so most first; all are below 0."""
    title: float | None = None
    """Contribution of the words of the label's title and description; left out where they add nothing."""
    rest: float
    """All else: the constant, thresholds, and the other features."""


class Learning(ResponseModel):
    """A label was true in too few examples to be known well."""

    seen: int | float
    """Number of examples in which it was true, each counted by its weight."""
    needed: int
    """Number of examples from which it is no longer listed as being learnt."""


class Prediction(ResponseModel):
    """A prediction has the labels and scores of one example."""

    labels: list[str]
    """These labels have a score above 0."""
    scores: dict[str, float]
    """For each label: its score minus the threshold; with `optimise`, half its log-odds above its cut. At most as many
    labels as `top`, or the server, allows: those with the highest scores, the best first."""
    scores_of: int | None = None
    """Number of labels of which `scores` names the best; present only if some are left out."""
    learning: dict[str, Learning] | None = None
    """Those of `scores` that are still being learnt; there with `top`, for a model that learns online."""
    threshold: float
    """A label is predicted when its raw score exceeds this number. A trained model whose labels have thresholds of
    their own has taken those away already, and says 0 here."""
    probabilities: dict[str, float] | None = None
    """If probabilities were asked for, they say how likely each label is, as far as the model knows."""
    auto: list[str] | None = None
    """Labels that may be applied unseen; there if the model promises a precision."""
    review: bool | None = None
    """Whether the example needs review; there if the model promises a precision."""
    explanations: dict[str, Explanation] | None = None
    """If `explain` was asked for, these say for each label predicted which features speak for it, and against it."""
    id: str | None = None
    """The id is what the call `labels` takes; it is there when the prediction is kept."""


class _Predicting(At):
    expires: str | None = None
    """Kept predictions expire at this time (RFC 3339)."""
    stale_seconds: float | None = None
    """Seconds for which the store has been unreachable; updates of other servers since then are missing."""


class PredictResponse(Prediction, _Predicting):
    """This is the answer to an example to predict."""


class PredictBatchResponse(_Predicting):
    """This is the answer to a batch to predict."""

    predictions: list[Prediction]


class UnlabelledPrediction(ResponseModel):
    """A kept prediction waits for its labels; labels and probabilities are by what the model knows now."""

    id: str
    """The id is what the call `labels` takes."""
    uncertainty: float
    """From 0 to 1: 1 where the model may as well say the opposite of one of its labels."""
    labels: list[str]
    """These labels are predicted."""
    probabilities: dict[str, float] | None
    """They say how likely each label is; null of a model without probabilities."""
    auto: list[str] | None = None
    """Labels that could be applied unseen when the example was predicted; only there if precision was promised."""
    review: bool | None = None
    """Whether the example needed review then; only there if precision was promised."""
    record: Any = None
    """The example as it was posted, if it was predicted with `keep=record`."""


class UnlabelledList(At):
    """Kept predictions wait for their labels."""

    predictions: list[UnlabelledPrediction]
    candidates: int
    """Number of examples compared."""
    updates: int
    """Number of examples that the model has learnt in total."""


class UpdateResponse(At):
    """The update is learnt."""

    updates: int
    """Number of examples that the model has learnt in total."""
    durability: Durability
    """The update has survived this: `log` is a kill of the server, `fsync` a loss of power too."""


class PredictUpdateResponse(Prediction, UpdateResponse):
    """This is the answer to an example that was predicted, then learnt."""


class PredictUpdateBatchResponse(UpdateResponse):
    """This is the answer to a batch of examples that were each predicted, then learnt."""

    predictions: list[Prediction]


class LineLearnt(Prediction, At):
    """This line answers a line whose example was predicted, then learnt."""

    line: int
    """The number of the line."""
    updates: int
    """Number of examples that the model had learnt, including this one."""


class LineReplayed(At):
    """This line answers a line that had been learnt before."""

    line: int
    """Its number."""
    replayed: Literal[True]


class RolledBack(UpdateResponse):
    """The model is what it was."""

    rolled_back_to: str
    """The snapshot has this position."""


class UpdateEvent(At):
    """Examples were learnt."""

    updates: int
    """Number of examples that the model has learnt in total."""
    examples: int
    """Number of examples learnt by this call."""


class DriftEvent(At):
    """A drift detector sounded. The event precedes the update of its example, and has the id of the event before
    that."""

    updates: int
    """Number of examples that the model had learnt, including the one at which the detector sounded."""
    label: str | None
    """The label whose detector sounded; null means the one of all labels together."""


class RollbackEvent(At):
    """The model went back to a snapshot."""

    to: str
    """The snapshot has this position."""
    updates: int
    """Number of examples that the model has learnt now."""


class PromotedEvent(At):
    """Another version of a trained model predicts from here on."""

    version: int
    """Its number."""
    previous: int | None
    """The version before had this number; null means that there was none."""


class NotPromotedEvent(At):
    """A new version of a trained model is not served, because its job asked for `if_better`."""

    version: int
    """The number of the new version."""
    reason: str
    """The reasons, as `not_promoted_because` of the version has them; at most 500 characters."""


class LabelEvent(At):
    """A label is new, or was renamed, merged, retired, paused or resumed."""

    updates: int
    """Number of examples learnt so far."""
    label: str | None
    """The name of the label from here on; null if it was retired."""
    change: Literal["new", "renamed", "merged", "retired", "paused", "resumed"]
    """The change of the label."""
    before: str | None = None
    """The name before; a new label has none."""


class DroppedEvent(ResponseModel):
    """Events are missing here."""

    count: int | None
    """Number of missing events; null if unknown."""


class LineRefused(ResponseModel):
    """This line answers a line of which nothing was learnt. If it is the last answer, nothing was learnt of later
    lines."""

    line: int
    """Its number."""
    error: ProblemDocument
    """The problem document says why."""
    retry_after: int | None = None
    """Seconds after which the stream can continue with this line; only there if the stream ended."""


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
    """Position of the last line that was learnt; null if there is none."""
    updates: int | None
    """Number of examples that the model had learnt then."""
