"""Metrics that several responses have."""

from typing import Literal

from pydantic import Field, create_model

from manylabel_core.metrics.measures import MEASURES, STREAMED
from manylabel_service.api.schemas.base import At, ResponseModel, omitted_if_none
from manylabel_service.hosting.examples import Source

_Measured = create_model(
    "BaselineMeasures",
    __base__=ResponseModel,
    __module__=__name__,
    __doc__="""Metrics of a predictor that ignores the features: for each example it predicts the most frequent labels
    of earlier examples. All are null without examples.""",
    **{name: (float | None, Field(description=MEASURES[name].text)) for name in STREAMED},  # type: ignore[call-overload]
)


class Measures(_Measured):  # type: ignore[misc, valid-type]
    """Prequential metrics: each example is predicted before it is learnt; delayed labels count for the prediction that
    was served. All are null without examples."""

    examples: int
    """Number of examples covered."""
    baseline: _Measured  # type: ignore[valid-type]
    """Metrics of predicting the most frequent labels so far for the same examples."""


class WindowMeasures(Measures):
    """Prequential metrics over the latest examples."""

    size: int
    """Maximum number of examples in the window."""


class GroupMeasures(ResponseModel):
    """Metrics of all decisions on labels that had about the same number of earlier examples; 0 if undefined."""

    true: float
    """Weighted number of cases in which labels of the group were relevant."""
    precision: float
    recall: float
    f1: float


class BySeen(ResponseModel):
    """Metrics since the model was created, by the number of earlier examples of a label."""

    never: GroupMeasures
    below_5: GroupMeasures
    below_20: GroupMeasures
    """Labels with 5 to 19 earlier examples."""
    more: GroupMeasures


class Alarms(ResponseModel):
    """Alarms of a drift detector."""

    alarms: int
    last: int | None
    """Number of examples learnt at the last alarm; null for never."""


class Drift(Alarms):
    """Alarms of the detector over all labels, and of the detectors of single labels."""

    labels: dict[str, Alarms]
    """Alarms of single labels; only labels with an alarm."""


class BothMeasures(ResponseModel):
    """Metrics since the model was created, and over its window."""

    cumulative: Measures
    window: WindowMeasures
    by_seen: BySeen
    drift: Drift | None = omitted_if_none()
    """Drift alarms; present only if the model watches for drift."""


class PrecisionOfModel(ResponseModel):
    """Promise of precision."""

    precision: float | None = omitted_if_none()
    """Share of right labels among those applied unseen; omitted without a promise of precision."""
    settled: float | None = None
    """Share of entirely right examples among those that need no review; null: every example needs review."""
    missed: float | None = omitted_if_none()
    """Share of all true labels that may be missed in examples without review."""
    audit_rate: float | None = omitted_if_none()
    """Share of settled examples that are sent to review for audits, and minimum share of sure examples for which the
    teacher is asked."""


class PromiseOfModel(PrecisionOfModel):
    """Promise of precision, of parity with a teacher, or of both."""

    parity: float | None = omitted_if_none()
    """Mean agreement of the answers served without the teacher with the teacher's answers; omitted without a promise of
    parity."""
    of: Source | None = omitted_if_none()
    """Source of the teacher's labels."""
    agreement: Literal["exact", "f1"] | None = omitted_if_none()
    """Agreement of two label sets: 1 if they are equal, else 0; or their F1."""


class Counted(At):
    updates: int
    """Number of examples that the model has learnt in total; for a trained model, of labelled predictions."""
    version: int | None = omitted_if_none()
    """Version of a trained model whose predictions are measured; absent for other models."""
