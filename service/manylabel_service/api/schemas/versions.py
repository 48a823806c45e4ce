"""Answers about the versions of trained models."""

from typing import Any

from pydantic import Field

from manylabel_service.api.schemas.base import At, ResponseModel
from manylabel_service.jobs.spec.schemas import DataOfSet, DataOfStream, StreamSample


class Version(At):
    """A version of a trained model; it never changes."""

    version: int
    """Versions are numbered from 1; no number is given twice."""
    served: bool
    """This says whether predictions come from this version."""
    created: str
    """The version was made at this time (RFC 3339)."""
    job: str
    """The job with this id made the version."""
    data: DataOfSet | DataOfStream | None
    """The version was trained on this data set or stream, as its job says; null where that is not known."""
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    """The measures are on the rows held out from training, if there were some."""
    converged: bool
    """This says whether the fit came to its end before it had used up its iterations."""
    gap: float | None
    """The fit ended at most so far from the optimum, relatively; null where that is not known."""
    scaling: str
    """The features are scaled so, in training and in predictions."""
    not_promoted_because: str | None
    """This says why the version was not served when it was made; null if it was, or if the job had said so."""
    worse: str | None
    """This says that the version, when it was made, measured lower than the one it replaced, on the same rows."""
    baseline: dict[str, float] | None
    """The labels frequent in training, predicted for each of these rows, would have reached this."""
    rows: int
    """Number of examples that the version was fitted to."""
    sampled: StreamSample | None
    """A version made from a stream says how many examples were taken, and of how many; null for other data."""
    bytes: int


class VersionList(ResponseModel):
    """The versions of a trained model, the newest first."""

    versions: list[Version]
    damaged: list[int] = Field(default_factory=list)
    """Numbers of versions that cannot be read; only there if there are any."""


class Promoted(At):
    """The version is served."""

    model: str
    version: int
    previous: int | None
    """This version was served before; null means that there was none. Promoting it switches back."""


class LabelCorrelation(ResponseModel):
    """The correlations say how the weights of labels, and so their scores, go together."""

    labels: list[str]
    values: list[list[float]]
    """Each value is from -1 to 1; there is a row and a column for each label."""


class Convergence(ResponseModel):
    """The course of the training is given by lists of one length."""

    iteration: list[int]
    objective: list[float | None]
    gap: list[float | None]
    """The relative distance to the optimum is at most this; null while it is not known."""
    seconds: list[float]


class Calibration(ResponseModel):
    """The probability of a label is the logistic function of slope times score plus intercept."""

    slope: float
    intercept: float
    """Here, the score is the one before the threshold was taken away."""


class LabelDecision(ResponseModel):
    """A label is predicted where its score is above its threshold."""

    threshold: float
    """In scores, this is taken away from those of the label: so predicted labels have scores above 0."""
    calibration: Calibration | None
    """Versions without probabilities have none."""


class ModelDetail(ResponseModel):
    """The detail of a version is what there is to see of it."""

    version: int
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    baseline: dict[str, float] | None
    """The labels frequent in training, predicted for each of these rows, would have reached this."""
    label_scores: dict[str, dict[str, float]] | None
    """Each label has its `f1`, `precision` and `recall` on the rows held out, and `support`, the number of rows with
    it."""
    label_decisions: dict[str, LabelDecision]
    """Each label has its threshold, and how its probability is made."""
    label_correlation: LabelCorrelation | None
    """Versions made by mlrl and ssmlrl have correlations, which they learn."""
    view_weights: dict[str, float] | None
    """Versions made by lsa_mml have weights, which say how much each view counts."""
    convergence: Convergence
