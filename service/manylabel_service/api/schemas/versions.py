"""Responses about the versions of trained models."""

from typing import Any

from manylabel_service.api.schemas.base import At, ResponseModel, omitted_if_empty
from manylabel_service.jobs.spec.schemas import DataOfSet, DataOfStream, StreamSample


class Version(At):
    """Immutable version of a trained model."""

    version: int
    """Number of the version, from 1; numbers are not reused."""
    served: bool
    """Whether this version predicts."""
    created: str
    """Creation time (RFC 3339)."""
    job: str
    """Id of the job that created the version."""
    data: DataOfSet | DataOfStream | None
    """Dataset or stream of the training data, as in the job; null if unknown."""
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    """Metrics on the held-out rows, if there were any."""
    converged: bool
    """Whether the fit converged before it used up its iterations."""
    gap: float | None
    """Upper bound of the relative distance from the optimum; null if unknown."""
    scaling: str
    """Scaling of the features in training and in predictions."""
    not_promoted_because: str | None
    """Reasons why the version was not served when it was created; null if it was, or if the job requested it."""
    worse: str | None
    """Amount by which the version scored lower than the one it replaced, on the same rows; null if it did not."""
    baseline: dict[str, float] | None
    """Metrics of predicting the most frequent training labels for each of these rows."""
    rows: int
    """Number of examples that the version was fitted to."""
    sampled: StreamSample | None
    """Sample of the stream that the version was trained on; null for other data."""
    bytes: int


class VersionList(ResponseModel):
    """Versions of a trained model, newest first."""

    versions: list[Version]
    damaged: list[int] = omitted_if_empty()
    """Numbers of versions that cannot be read; present only if there are any."""


class Promoted(At):
    """Result of a promotion."""

    model: str
    version: int
    previous: int | None
    """Version served before; null for none. Promoting it switches back."""


class PromotedFollower(At):
    """Result of the promotion of a follower."""

    model: str
    """Name of the leader, which has the algorithm and state of the follower from this position on."""
    follower: str
    """Name of the follower, which has the algorithm and state that the leader had, and follows it."""
    algorithm: str
    """Algorithm of the model now."""
    updates: int
    """Number of examples that the model has learnt."""
    since: str
    """Position at which the history of the model begins now."""


class LabelCorrelation(ResponseModel):
    """Correlations of the weights of labels, and so of their scores."""

    labels: list[str]
    values: list[list[float]]
    """Values from -1 to 1, a row and a column per label."""


class Convergence(ResponseModel):
    """Course of the training, in lists of equal length."""

    iteration: list[int]
    objective: list[float | None]
    gap: list[float | None]
    """Upper bound of the relative distance from the optimum; null while unknown."""
    seconds: list[float]


class Calibration(ResponseModel):
    """Platt scaling: the probability of a label is logistic(slope * score + intercept)."""

    slope: float
    intercept: float
    """Intercept; the score is the raw one, before the threshold is subtracted."""


class LabelDecision(ResponseModel):
    """Decision of a label: it is predicted if its score is above the threshold."""

    threshold: float
    """Threshold subtracted from the raw score of the label."""
    calibration: Calibration | None
    """Calibration; null for a version without probabilities."""


class ModelDetail(ResponseModel):
    """Details of a version."""

    version: int
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    baseline: dict[str, float] | None
    """Metrics of predicting the most frequent training labels for each of these rows."""
    label_scores: dict[str, dict[str, float]] | None
    """`f1`, `precision`, `recall` and `support` (number of rows) of each label on the held-out rows."""
    label_decisions: dict[str, LabelDecision]
    """Threshold and calibration of each label."""
    label_correlation: LabelCorrelation | None
    """Correlations of labels, learnt by mlrl and ssmlrl."""
    view_weights: dict[str, float] | None
    """Weights of the views, learnt by lsa_mml."""
    convergence: Convergence
