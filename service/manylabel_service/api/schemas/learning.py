"""Answers to predictions and updates, and events."""

from typing import Literal

from manylabel_service.api.schemas.base import Answer, At
from manylabel_service.api.web.problems import ProblemDocument
from manylabel_service.storage import Durability


class Prediction(Answer):
    """Labels and scores of one example."""

    labels: list[str]
    """Labels whose score is above 0."""
    scores: dict[str, float]
    """For each label known: its score minus the threshold; with `optimise`, half its log-odds above its cut."""
    threshold: float
    """The raw score that a label has to exceed."""
    probabilities: dict[str, float] | None = None
    """For each label known, if they were asked for: how likely it is, as far as the model knows."""
    id: str | None = None
    """For `labels`, when the prediction is kept."""


class _Predicting(At):
    expires: str | None = None
    """Until when the predictions are kept (RFC 3339), when they are."""
    stale_seconds: float | None = None
    """For how long the store has been out of reach; the updates of other servers since then are not seen."""


class Predicted(Prediction, _Predicting):
    """Answer to an example to predict."""


class PredictedBatch(_Predicting):
    """Answer to a batch to predict."""

    predictions: list[Prediction]


class Updated(At):
    """The update is learnt."""

    updates: int
    """Examples that the model has learnt in all."""
    durability: Durability
    """What it has survived: memory (nothing yet), log (a kill of the server), fsync (loss of power)."""


class PredictedUpdated(Prediction, Updated):
    """Answer to an example that was predicted, then learnt."""


class PredictedUpdatedBatch(Updated):
    """Answer to a batch of examples that were each predicted, then learnt."""

    predictions: list[Prediction]


class LineLearnt(Prediction, At):
    """Answer to a line: what was predicted for its example, which was then learnt."""

    line: int
    """Its number."""
    updates: int
    """Examples that the model had learnt with this one."""


class LineReplayed(At):
    """Answer to a line that had been learnt before."""

    line: int
    """Its number."""
    replayed: Literal[True]


class RolledBack(Updated):
    """The model is what it was."""

    rolled_back_to: str
    """Position of the snapshot."""


class UpdateEvent(At):
    """Examples were learnt."""

    updates: int
    """Examples that the model has learnt in all."""
    examples: int
    """How many of them now."""


class DriftEvent(At):
    """A detector of drift sounded. It comes before the update of its example, and has the id of the one before that."""

    updates: int
    """Examples that the model had learnt with the one at which it did."""
    label: str | None
    """Whose detector it is; null for the one of all labels together."""


class RollbackEvent(At):
    """The model went back to a snapshot."""

    to: str
    """Its position."""
    updates: int
    """Examples that the model has learnt now."""


class PromotedEvent(At):
    """Another version of a trained model predicts from here on."""

    version: int
    """Its number."""
    previous: int | None
    """Number of the one before; null for the first."""


class DroppedEvent(Answer):
    """Events are missing here."""

    count: int | None
    """How many; null when nobody knows."""


class LineRefused(Answer):
    """Answer to a line of which nothing was learnt. When it is the last answer, nothing was learnt of later lines."""

    line: int
    """Its number."""
    error: ProblemDocument
    """Why."""
    retry_after: int | None = None
    """Seconds after which the stream can go on with this line; only where it ended."""
