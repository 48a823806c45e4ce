"""Labels of a model: list and describe, rename, merge, retire, pause and resume; groups; promise of a precision."""

import re
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core import Vocabulary
from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf, context_of
from manylabel_service.api.schemas.base import RequestModel, ResponseModel
from manylabel_service.api.schemas.learning import Learning
from manylabel_service.api.schemas.metrics import Alarms, Counted
from manylabel_service.api.schemas.requests import Groups, LabelEdit, Name, Parents, check_name
from manylabel_service.api.translation.model_access import MEASURED, WhichVersion, changed, measured, online
from manylabel_service.api.web.bodies import idempotency_key
from manylabel_service.api.web.large_json import read_json, read_large_json, read_model
from manylabel_service.api.web.parameters import Flag, from_query, one_of, up_to
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router, json_response
from manylabel_service.api.web.validation import Path, check_known, validated
from manylabel_service.online.state.controls import Describe, Regroup, Relabel, SetPromise
from manylabel_service.online.state.label_details import MAX_DESCRIBED, DetailsOfLabels
from manylabel_service.online.state.label_table import SORTS, label_page

router = Router("models", errors=["model_not_found", "model_is_trained"])

MAX_LISTED = 1000


def _read_offset(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch("[0-9]{1,9}", value):
        raise ValueError("must be an integer, at least 0")
    return value


class Listing(WhichVersion):
    """Order and range of the list of labels."""

    sort: one_of(SORTS) = "frequency"  # type: ignore[valid-type]
    """Sort key; labels without a value come last."""
    descending: Flag = True
    """Whether to sort in descending order."""
    offset: Annotated[int, Field(ge=0, lt=10**9), BeforeValidator(_read_offset)] = 0
    """Number of labels skipped before the first listed."""
    limit: up_to(MAX_LISTED) = 100  # type: ignore[valid-type]
    """Maximum number of labels listed."""


class MeasuresOfLabel(ResponseModel):
    """Metrics of one label; null if undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


class Curve(ResponseModel):
    """Platt scaling of a label's score: the probability is logistic(slope * score + intercept)."""

    slope: float
    intercept: float


class ListedLabel(ResponseModel):
    """Label of a model."""

    label: str
    old_names: list[str]
    """Earlier names of the label, and names of the labels merged into it, sorted."""
    retired: bool
    """Whether the label is retired: no longer learnt or predicted."""
    paused: bool
    """Whether the label is paused: not learnt or predicted until it is resumed."""
    learning: Learning | None
    """Examples seen and needed; null if the label has enough examples, is retired or has a title."""
    examples: int | float
    """Weighted number of examples learnt with the label."""
    frequency: float | None
    """Weighted share of examples with the label, among those whose truth about it is known."""
    first_seen: int | None
    """Number of the first learnt example with the label."""
    last_seen: int | None
    """Number of the last learnt example with the label."""
    cumulative: MeasuresOfLabel
    window: MeasuresOfLabel
    threshold: float | None
    """Probability from which the label is predicted; null without calibration."""
    calibration: Curve | None
    """Calibration of the label; null without calibration."""
    drift: Alarms | None
    """Drift alarms of the label; null without drift detection."""
    title: str | None
    """Name of the label for people; null for none."""
    description: str | None
    """Meaning of the label in words; null for none."""
    uri: str | None
    """Address of the label; null for none."""


class LabelList(Counted):
    """Labels of a model."""

    labels: list[ListedLabel]
    total: int
    """Number of labels of the model."""


class _OfLabel(RequestModel):
    label: Name
    """Label of the model."""


class RetireRequest(_OfLabel):
    """Request to retire a label: it is no longer learnt or predicted."""


class PauseRequest(_OfLabel):
    """Request to pause a label: it is not learnt or predicted until it is resumed."""


class ResumeRequest(_OfLabel):
    """Request to resume a paused label; what was learnt before the pause is kept."""


class RenameRequest(_OfLabel):
    """Request to rename a label; everything learnt about it stays."""

    to: Annotated[Name, AfterValidator(check_name)]
    """New name, which no label of the model has."""


class MergeRequest(_OfLabel):
    """Request to merge a label into another: the label is retired, and its name becomes an alias of the other label."""

    into: Name
    """Other label of the model."""


class DescribeRequest(RequestModel):
    """New details of labels; either all labels change, or none."""

    labels: Annotated[
        dict[Annotated[Name, AfterValidator(check_name)], LabelEdit], Field(min_length=1, max_length=MAX_DESCRIBED)
    ]
    """Labels by name. An unknown label is declared."""


class GroupsRequest(RequestModel):
    """All groups and parents of the labels of a model; they replace the existing ones."""

    groups: Groups = Field(default_factory=list)
    """Groups of labels that exclude each other."""
    parents: Parents = Field(default_factory=dict)
    """Parent of each child: a true label implies its parent. An unknown label is declared."""


@router.endpoint("GET /v1/models/{name}/labels", "List the labels of a model", "read", LabelList, MEASURED, named=False)
async def list_labels(context: ContextOf, name: str, query: Annotated[Listing, from_query(Listing)]) -> Response:
    """Lists labels with their frequency, prequential metrics and thresholds. For a trained model, the metrics are those
    of the predictions of one version."""
    found = await measured(context, name, query.version)
    facts = found.state.label_facts
    if found.label_details:
        facts = facts._replace(details=DetailsOfLabels.of(found.label_details, Vocabulary(facts.names)))
    page = label_page(facts, query.sort, query.descending, query.offset, query.limit)
    return json_response({"labels": page.labels, "total": page.total, **found.place})


_change = partial(router.endpoint, scopes="admin", response=schemas.UpdateResponse, keyed=True)
"""Declares an endpoint that appends a change of the labels to the log of the model."""

_LabelRequest = RenameRequest | MergeRequest | RetireRequest | PauseRequest | ResumeRequest


@_change(
    "POST /v1/models/{name}/labels/rename",
    "Rename a label",
    errors=["model_follows", "label_not_found", "label_exists", "labels_declared", "queue_full", "limit_exceeded"],
    takes=RenameRequest,
    example={"label": "petz", "to": "pets"},
)
async def rename_label(request: Request, response: Response, name: str) -> dict[str, Any]:
    """Renames a label; everything learnt about it stays. From this position in the log, every server accepts its old
    name in updates, unless the model rejects old names."""
    return await _relabel(request, response, name, RenameRequest)


@_change(
    "POST /v1/models/{name}/labels/merge",
    "Merge a label into another",
    errors=["model_follows", "label_not_found", "label_exists", "queue_full", "limit_exceeded"],
    takes=MergeRequest,
    example={"label": "petz", "into": "pets"},
)
async def merge_label(request: Request, response: Response, name: str) -> dict[str, Any]:
    """Retires a label, and makes its names, including old ones, aliases of another label from this position in the log.
    The other label keeps what it has learnt; what the merged label has learnt is not added."""
    return await _relabel(request, response, name, MergeRequest)


@_change(
    "POST /v1/models/{name}/labels/retire",
    "Retire a label",
    errors=["model_follows", "label_not_found", "queue_full"],
    takes=RetireRequest,
    example={"label": "petz"},
)
async def retire_label(request: Request, response: Response, name: str) -> dict[str, Any]:
    """Retires a label: from this position in the log, on every server, it is not predicted, and updates that name it
    are rejected. It keeps its column and its name."""
    return await _relabel(request, response, name, RetireRequest)


@_change(
    "POST /v1/models/{name}/labels/pause",
    "Pause a label",
    errors=["model_follows", "label_not_found", "queue_full"],
    takes=PauseRequest,
    example={"label": "pets"},
)
async def pause_label(request: Request, response: Response, name: str) -> dict[str, Any]:
    """Pauses a label: from this position in the log, on every server, it is not predicted until it is resumed. Updates
    can name it; the model treats its truth as unknown."""
    return await _relabel(request, response, name, PauseRequest, paused=True)


@_change(
    "POST /v1/models/{name}/labels/resume",
    "Resume a label",
    errors=["model_follows", "label_not_found", "queue_full"],
    takes=ResumeRequest,
    example={"label": "pets"},
)
async def resume_label(request: Request, response: Response, name: str) -> dict[str, Any]:
    """Resumes a label: from this position in the log, on every server, it is learnt and predicted again. Everything
    learnt before the pause is kept."""
    return await _relabel(request, response, name, ResumeRequest, paused=False)


@_change(
    "PATCH /v1/models/{name}/labels",
    "Set titles, descriptions and URIs of labels",
    errors=["model_follows", "label_not_found", "label_exists", "queue_full", "limit_exceeded"],
    takes=DescribeRequest,
    example={"labels": {"pets": {"title": "Pets and other animals"}}},
)
async def describe_labels(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Sets details of labels. A null field is removed, an omitted one stays. An unknown label is declared, unless the
    labels were declared when the model was created. All labels change or none, from this position in the log, on every
    server."""
    async with context.registry.use(name) as model:
        replica = online(model)
        document, raw = await read_large_json(request)
        key = idempotency_key(request, "describe", raw)
        _check_count(document)
        wanted = validated(DescribeRequest, document, (), _path_of_edit)
        edits = {label: edit.model_dump(exclude_unset=True) for label, edit in wanted.labels.items()}
        return await changed(request, response, replica, Describe(edits, key))


@_change(
    "PUT /v1/models/{name}/groups",
    "Set the groups and parents of labels",
    errors=["model_follows", "queue_full", "limit_exceeded"],
    takes=GroupsRequest,
    example={
        "groups": [{"name": "priority", "labels": ["low", "mid", "high"], "choose": "one"}],
        "parents": {"refund": "billing"},
    },
)
async def set_groups(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Replaces all groups and parents of the model, from this position in the log, on every server. Predictions satisfy
    them, and true labels that contradict them are rejected. An unknown label is declared, unless the labels were
    declared when the model was created. The model keeps what it has learnt."""
    async with context.registry.use(name) as model:
        replica = online(model)
        document, raw = await read_large_json(request)
        key = idempotency_key(request, "groups", raw)
        wanted = validated(GroupsRequest, document, (), _path_of_edit)
        groups, parents = tuple(each.group for each in wanted.groups), wanted.parents
        return await changed(request, response, replica, Regroup(groups, parents, key))


@_change(
    "PUT /v1/models/{name}/promise",
    "Promise a precision, or parity with a teacher",
    errors=["model_follows", "queue_full"],
    takes=(schemas.PromiseRequest, None),
    example={"precision": 0.95, "settled": 0.9, "missed": 0.02, "audit_rate": 0.05},
)
async def set_promise(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Sets the promises of a model, from this position in the log, on every server. With `precision`, predictions say
    which labels may be applied unseen (`auto`), and whether the example needs review. With `parity`, stored predictions
    say whether to ask the teacher (`ask`). A different promise starts a new account of errors, and `null` ends both.
    The model retains what it has learnt."""
    async with context.registry.use(name) as model:
        replica = online(model)
        document, raw = await read_json(request)
        key = idempotency_key(request, "promise", raw)
        wanted = None if document is None else validated(schemas.PromiseRequest, document)
        targets = (None, None) if wanted is None else (wanted.target, wanted.parity_target)
        return await changed(request, response, replica, SetPromise(targets[0], key, targets[1]))


def _check_count(document: Any) -> None:
    """Reject a request that describes too many labels, before each is validated."""
    labels = document.get("labels") if isinstance(document, dict) else None
    if isinstance(labels, dict):
        if len(labels) > MAX_DESCRIBED:
            raise invalid(("labels",), f"must have at most {MAX_DESCRIBED:,} labels, has {len(labels):,}")
        for label, edit in labels.items():
            check_known(edit, ("labels", label))


def _path_of_edit(location: Path) -> Path:
    """Return the path in a body, without the parts of a pydantic location that do not name fields."""
    return tuple(part for part in location if part != "[key]")


async def _relabel(
    request: Request, response: Response, name: str, kind: type[_LabelRequest], paused: bool | None = None
) -> dict[str, Any]:
    context = context_of(request)
    async with context.registry.use(name) as model:
        replica = online(model)
        wanted, raw = await read_model(request, kind)
        key = idempotency_key(request, request.url.path.rpartition("/")[2], raw)
        label, to, merges = wanted.label, None, isinstance(wanted, MergeRequest)
        if isinstance(wanted, MergeRequest):
            to = wanted.into
        elif isinstance(wanted, RenameRequest):
            to = wanted.to

        return await changed(request, response, replica, Relabel(label, to, key, merges, paused))
