"""/v1/models/{name}/metrics: prequential metrics, their history, and the reliability diagram."""

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from manylabel_core.metrics.measures import WITH_HISTORY
from manylabel_core.metrics.reliability import EDGES
from manylabel_core.metrics.reliability import Reliability as Diagram
from manylabel_service.api.context import ContextOf
from manylabel_service.api.schemas.base import At, ResponseModel, omitted_if_none
from manylabel_service.api.schemas.metrics import BothMeasures, Counted, PrecisionOfModel
from manylabel_service.api.translation.model_access import MEASURED, WhichVersion, measured, online
from manylabel_service.api.web.parameters import Parameters, from_query
from manylabel_service.api.web.routes import Router
from manylabel_service.errors import LabelNotFound, NoReliability, NotCalibrated
from manylabel_service.hosting.examples import Source
from manylabel_service.online.state.metrics_history import metrics_history

router = Router("models", errors=["model_not_found"])


class GateOfPromise(ResponseModel):
    """State of a gate: whether labels are applied, or examples settled."""

    state: Literal["learning", "open", "closed"]
    """`learning`: the gate has never been open. `closed`: it closed because there were too many errors."""
    why: str
    """Reason for the state, such as "11 of 15 correct in shadow mode"."""
    room: int
    """Number of errors that the gate tolerates before it closes."""
    openings: int
    """Number of times that the gate opened."""


class NumbersOfPromise(ResponseModel):
    """Counts of applied labels and settled examples, compared with true labels; shares are null if undefined."""

    applied: int
    """Number of labels applied unseen, with known truth."""
    wrong: int
    """Number of labels applied unseen that were wrong."""
    precision: float | None
    """Share of the applied labels that were right."""
    true: int
    """Number of true labels."""
    recall: float | None
    """Share of the true labels that were applied unseen."""
    examples: int
    """Number of examples whose true labels are all known. Among the last 1,000, examples with partial labels count,
    too."""
    settled: int
    """Number of examples that needed no review."""
    settled_share: float | None
    """Share of the examples that needed no review."""
    settled_right: float | None
    """Share of settled examples that were entirely right."""
    missed: int
    """Number of true labels missed in settled examples."""
    missed_share: float | None
    """Share of all true labels missed in settled examples."""


class LabelOfPromise(ResponseModel):
    """Label that was applied without review."""

    label: str
    applied: int
    wrong: int
    precision: float


class RecallAtPrecision(ResponseModel):
    """Recall at a precision."""

    precision: float
    recall: float


class LabelOfParity(ResponseModel):
    """Label on which the model and the teacher differed in audits."""

    label: str
    added: int
    """Number of audits in which only the model had the label."""
    missed: int
    """Number of audits in which only the teacher had the label."""


class FoundByPeople(ResponseModel):
    """Answers of the model and of the teacher that people have also labelled."""

    model_right: int
    """Number of answers served without the teacher that a person confirmed."""
    model_wrong: int
    """Number of answers served without the teacher in which a person corrected a label."""
    teacher_right: int
    """Number of learnt examples with labels of the teacher that a person confirmed."""
    teacher_wrong: int
    """Number of learnt examples in which a person corrected a label of the teacher."""
    checked: int
    """Number of answers served without the teacher that were drawn for a check (`check`) and labelled by a person."""
    right_share: float | None
    """Share of the checked answers whose labels were right; null if `checked` is 0."""
    right_low: float
    """Lower limit of the 95 % interval (Wilson) of `right_share`."""
    right_high: float
    """Upper limit of the 95 % interval (Wilson) of `right_share`."""


class AccountOfParity(ResponseModel):
    """Account of a promise of parity. Only stored predictions and labels of the teacher count, except in `people`."""

    parity: float
    """Promised mean agreement with the teacher of the answers served without it."""
    of: Source
    """Source of the teacher's labels."""
    agreement: Literal["exact", "f1"]
    """Agreement of two label sets."""
    audit_rate: float
    """Minimum share of sure examples for which the teacher is asked."""
    state: Literal["learning", "open", "closed"]
    """`learning`: the teacher has labelled all examples so far. `open`: the model answers sure examples. `closed`:
    after disagreements in audits, the teacher labels all examples again."""
    audit_rate_now: float
    """Share of sure examples for which the teacher is asked now; 1 unless the state is `open`."""
    answered: int
    """Number of answers served without the teacher. Servers log their counts every 100 predictions or every second."""
    empty_share: float | None
    """Share of `answered` without a label; null if `answered` is 0."""
    asked: int
    """Number of predictions for which the teacher was to be asked."""
    calls_saved: float | None
    """Share of predictions answered without the teacher; null if there are no predictions."""
    audits: int
    """Number of audits of sure examples; part of `asked`."""
    audits_waiting: int
    """Number of audits that wait for the teacher's labels."""
    audits_without_answer: int
    """Number of audits whose labels never came; each counts as wrong."""
    estimated_wrong: float
    """Estimated number of sure examples on which the model and the teacher disagree, while the state was `open`."""
    spread: float
    """Standard error of `estimated_wrong`."""
    allowed: float
    """Number of disagreements that the promise allows for the same examples."""
    openings: int
    """Number of times that the state became `open`."""
    people: FoundByPeople
    """Results of checks by people; they change neither the account nor `ask`."""
    labels: list[LabelOfParity]
    """Labels that differed in audits, most often first; at most 20."""


class AccountOfPromise(PrecisionOfModel):
    """Accounts of the promises. Only true labels from people count for precision; without a promise of precision, only
    `parity` is present."""

    gate: GateOfPromise | None = omitted_if_none()
    """Gate of the labels that may be applied unseen."""
    settled_gate: GateOfPromise | None = None
    """Gate of the examples that need no review; null: every example needs review."""
    total: NumbersOfPromise | None = omitted_if_none()
    """Numbers since the promise was made."""
    last_1000: NumbersOfPromise | None = omitted_if_none()
    """Numbers of the last 1,000 labels applied, and of the last 1,000 examples."""
    audited: int | None = omitted_if_none()
    """Number of settled examples that were audited, with known true labels."""
    labels: list[LabelOfPromise] | None = omitted_if_none()
    """Labels that were applied, those with the lowest precision first; at most 100."""
    curve: list[RecallAtPrecision] | None = omitted_if_none()
    """Estimates of the recall at other precisions, from the latest examples."""
    parity: AccountOfParity | None = omitted_if_none()
    """Account of the promise of parity; present if there is one."""


class MetricsOfSource(ResponseModel):
    """Agreement of predictions with the labels of a source other than people; null if undefined."""

    examples: int
    """Number of examples with labels of this source."""
    learnt: int
    """Number of these examples that were learnt."""
    precision: float | None
    """Share of predicted labels that are true according to the source, over all decisions."""
    recall: float | None
    """Share of the source's true labels that were predicted."""
    micro_f1: float | None
    """F1 of `precision` and `recall`."""


class Metrics(BothMeasures, Counted):
    """Prequential metrics of a model at one position."""

    corrections: int | None = omitted_if_none()
    """Number of corrections of learnt examples. The metrics count a corrected example once, with its first labels;
    omitted if there are no corrections."""
    by_source: dict[Literal["machine", "rule"], MetricsOfSource] | None = omitted_if_none()
    """Agreement with labels that are not from people, by source; present if there are such labels. All other metrics
    count labels of people only."""
    promise: AccountOfPromise | None = omitted_if_none()
    """Accounts of the promises of precision and parity; present if the model has one."""


_Column = list[float | None]
"""Value at each point; null if undefined."""


_PastMeasured = create_model(
    "BaselineColumns",
    __base__=ResponseModel,
    __module__=__name__,
    __doc__="Past metrics of the baseline, one column each; null without examples.",
    **dict.fromkeys(WITH_HISTORY, (_Column, ...)),  # type: ignore[call-overload]
)


class MeasureColumns(_PastMeasured):  # type: ignore[misc, valid-type]
    """Past metrics, one column each; null without examples."""

    examples: list[int]
    """Number of examples covered at each point."""
    baseline: _PastMeasured  # type: ignore[valid-type]
    """Metrics of predicting the most frequent labels so far for the same examples."""


class WindowColumns(MeasureColumns):
    """Metrics over the latest examples before each point."""

    size: int
    """Maximum number of examples in the window."""


class PastAlarms(ResponseModel):
    """Latest drift alarms, oldest first."""

    examples: list[int]
    """Number of examples learnt at each alarm, including the one at which the detector fired."""
    labels: list[str | None]
    """Label of the detector; null for the detector over all labels."""


class MetricsHistory(Counted):
    """History of the prequential metrics of a model, in columns."""

    stride: int
    """Number of examples between two points, fewer before the last point. It doubles as the stream grows."""
    examples: list[int]
    """Number of examples learnt at each point; the last point is the present."""
    cumulative: MeasureColumns
    window: WindowColumns
    drift: PastAlarms | None = omitted_if_none()
    """Drift alarms; present only if the model watches for drift."""


class ReliabilityBin(ResponseModel):
    """Bin of the reliability diagram."""

    from_: float = Field(alias="from")
    """Lower bound of the probabilities, included."""
    to: float
    """Upper bound of the probabilities, excluded except in the last bin."""
    count: int | float
    """Weighted number of decisions with known truth in the bin."""
    mean_probability: float | None
    """Mean probability; null for an empty bin."""
    share_true: float | None
    """Share of true labels; null for an empty bin."""


class Reliability(At):
    """Reliability diagram since the model was created. Each example is predicted before it is learnt."""

    updates: int
    """Number of examples that the model has learnt in total."""
    bins: list[ReliabilityBin]
    """Twenty bins of equal width."""
    expected_calibration_error: float | None
    """Weighted mean distance between `share_true` and `mean_probability`; 0 is best, null without examples."""
    brier_score: float | None
    """Mean squared distance between probability and truth (0 or 1); 0 is best, null without examples."""


@router.endpoint("GET /v1/models/{name}/metrics", "Show metrics", "read", Metrics, MEASURED)
async def show_metrics(
    context: ContextOf, name: str, query: Annotated[WhichVersion, from_query(WhichVersion)]
) -> dict[str, Any]:
    """Returns prequential metrics: every example is predicted before it is learnt. For a trained model, they evaluate
    the predictions of one version by their delayed labels."""
    found = await measured(context, name, query.version)
    return {**found.state.measures(), **found.place}


@router.endpoint(
    "GET /v1/models/{name}/metrics/history",
    "Show the metrics history",
    "read",
    MetricsHistory,
    MEASURED,
)
async def show_metrics_history(
    context: ContextOf, name: str, query: Annotated[WhichVersion, from_query(WhichVersion)]
) -> dict[str, Any]:
    """Returns the history of the metrics of `GET .../metrics` in columns, at fewer than 256 numbers of learnt examples
    with equal distances, and at present. The points are part of the state: they are identical on every replica, and a
    rollback restores those of its snapshot."""
    found = await measured(context, name, query.version)
    return {**metrics_history(found.state.label_facts), **found.place}


class WhichReliability(Parameters):
    """Label of the diagram."""

    label: str | None = None
    """Label of the diagram, available when its relevant examples have a total weight of 10; default: all labels
    together."""


@router.endpoint(
    "GET /v1/models/{name}/metrics/reliability",
    "Show the reliability diagram",
    "read",
    Reliability,
    ["label_not_found", "model_is_trained"],
)
async def show_reliability(
    context: ContextOf, name: str, query: Annotated[WhichReliability, from_query(WhichReliability)]
) -> dict[str, Any]:
    """Returns the reliability diagram: for each range of probabilities, the share of the labels that were true. Each
    example is predicted before it is learnt, and counts with every label whose truth is known. Delayed labels count
    with the probabilities just before the example was learnt. The counts are part of the state: they are identical on
    every replica, and a rollback restores those of its snapshot."""
    model = online(await context.registry.get(name), NoReliability)
    model.check_serving()
    if not model.has_probabilities:
        raise NotCalibrated(name)
    column = None if query.label is None else model.model.labels.get(query.label)
    if query.label is not None and column is None:
        raise LabelNotFound(query.label)
    found = _diagram(model.model.prequential.reliability(column))
    return {**found, "position": model.position, "updates": model.model.updates}


def _diagram(found: Diagram) -> dict[str, Any]:
    """Return the reliability diagram; NaN in empty bins."""
    edges, columns = EDGES.tolist(), [column.tolist() for column in found[:3]]
    bins = [
        {
            "from": begin,
            "to": end,
            "count": int(number) if number.is_integer() else number,
            "mean_probability": mean,
            "share_true": share,
        }
        for begin, end, number, mean, share in zip(edges[:-1], edges[1:], *columns, strict=True)
    ]
    return {
        "bins": bins,
        "expected_calibration_error": found.expected_calibration_error,
        "brier_score": found.brier_score,
    }
