"""Answers about the versions of trained models."""

from typing import Any

from manylabel_service.api.schemas.base import Answer, At


class Version(At):
    """A version of a trained model; it never changes."""

    version: int
    """Its number, from 1; never given twice."""
    served: bool
    """Whether predictions come from this one."""
    created: str
    """When (RFC 3339)."""
    job: str
    """Id of the job that made it."""
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    """On the rows held out from training, if there were some."""
    rows: int
    """Examples learnt from."""
    bytes: int


class VersionList(Answer):
    """The versions of a trained model, the newest first."""

    versions: list[Version]


class Promoted(At):
    """The version is served."""

    model: str
    version: int
    previous: int | None
    """The one served before; null for the first. Promoting it switches back."""


class LabelCorrelation(Answer):
    """How the weights of labels, and so their scores, go together."""

    labels: list[str]
    values: list[list[float]]
    """From -1 to 1: a row and a column for each label."""


class Convergence(Answer):
    """Where the training stood now and then: lists of one length."""

    iteration: list[int]
    objective: list[float | None]
    gap: list[float | None]
    """Relative distance to the optimum, at most; null while it is not known."""
    seconds: list[float]


class ModelDetail(Answer):
    """What there is to see of a version."""

    version: int
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    label_scores: dict[str, dict[str, float]] | None
    """By label, on the rows held out: f1, precision, recall, and support, the number of rows that have it."""
    label_correlation: LabelCorrelation | None
    """Of mlrl and ssmlrl, which learn it."""
    view_weights: dict[str, float] | None
    """Of lsa_mml: how much each view counts."""
    convergence: Convergence
