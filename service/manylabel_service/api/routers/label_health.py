"""/v1/models/{name}/health: suggestions for the labels of a model, their trial and dismissal; undoing of
changes."""

import asyncio
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.label_health import KINDS, Kind, Why
from manylabel_core.label_structure import Group
from manylabel_service.api.context import ContextOf
from manylabel_service.api.routers.doubts import MAX_EXAMINED, current_label, leader_of
from manylabel_service.api.schemas import UpdateResponse
from manylabel_service.api.schemas.base import RequestModel, ResponseModel
from manylabel_service.api.schemas.requests import Name
from manylabel_service.api.translation.from_json import read_position
from manylabel_service.api.translation.model_access import HISTORY, changed, online
from manylabel_service.api.translation.to_json import receipt_of_change
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.bodies import idempotency_key
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.parameters import Parameters, from_query, one_of, up_to
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router, json_response
from manylabel_service.errors import InvalidField, LabelExists, LabelNotFound
from manylabel_service.jobs.spec.schemas import DataOfStream, DryRunSpec, Job
from manylabel_service.online.label_health import MAX_SUGGESTIONS, VocabularyFacts, current_rows, suggestions
from manylabel_service.online.state.controls import Dismiss
from manylabel_service.online.state.dismissals import PAIRS
from manylabel_service.online.state.groups import check_written
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import POSITION

router = Router("models", errors=["model_not_found", "model_is_trained"])


class WhichSuggestions(Parameters):
    """Part of the suggestions."""

    kind: one_of(KINDS) | None = None  # type: ignore[valid-type]
    """The only kind to list."""
    top: up_to(MAX_SUGGESTIONS) = 100  # type: ignore[valid-type]
    """Maximum number of suggestions of each kind."""


class SuggestionEvidence(ResponseModel):
    """Evidence for a suggestion; numbers of examples are weighted."""

    examples: list[int | float]
    """Number of examples with the label, and with the other label."""
    together: int | float
    """Number of examples with both labels."""
    changes: int | float
    """Number of learnt examples whose labels would change."""
    alike: float | None
    """Similarity of the two labels for a model that has not learnt the examples: 1 if it cannot tell them apart; null
    if not computed."""
    means: list[float] | None
    """For a vague label, its mean probability on examples with and without the label; null for other kinds."""
    last_seen: list[int | None]
    """Number of the last learnt example with the label, and with the other label."""


class SuggestedRequest(ResponseModel):
    """Request that applies a suggestion."""

    method: Literal["POST", "PUT"]
    path: str
    body: dict[str, Any]


class Suggestion(ResponseModel):
    """Suggested change of a label."""

    kind: Kind
    """`name` and `merge`: merge the label into the other one. `parent`: the label implies the other one. `pause`: the
    label is no longer used. `vague`: the model cannot recognise the label; define it better, or stop using it."""
    why: Why
    """Reason: the names differ in `spelling`, in number (`plural`) or in one letter (`slip`); the labels occur
    `together`, or are `alike`; the parent is `implied`; the label is `unused` or `rare`; the model cannot learn it
    (`unlearnable`)."""
    label: str
    """Label to change."""
    into: str | None
    """Label to merge into, for `name` and `merge`."""
    parent: str | None
    """Suggested parent, for `parent`."""
    evidence: SuggestionEvidence
    request: SuggestedRequest | None
    """Request that applies the suggestion. It is null for a vague label, for a merge of a label that groups or parents
    name, and for a parent if groups and parents name too many labels."""


class LabelHealth(ResponseModel):
    """Suggestions for the labels of a model."""

    job: str | None
    """Id of the search for suggestions that need the examples; null without a search."""
    position: str | None
    """Position of the log up to which the search examined the examples."""
    examined: int | None
    """Number of examples that the search examined."""
    suggestions: list[Suggestion]
    """Suggestions by kind, the strongest of each kind first."""


@router.endpoint("GET /v1/models/{name}/health", "Suggest changes of labels", "read", LabelHealth, ["model_follows"])
async def suggest_changes(
    context: ContextOf, access: AccessOf, name: str, query: Annotated[WhichSuggestions, from_query(WhichSuggestions)]
) -> Response:
    """Suggests labels to merge, to put under a parent, to pause or to define better, with evidence and the request that
    applies the suggestion. Nothing is changed. Different spellings of a name, and rare labels that are no longer used,
    are found from the current counts. Other suggestions come from the newest finished search for doubtful labels. A
    follower has the suggestions for its leader."""
    leader = await leader_of(context, access, name)
    async with context.registry.use(leader) as hosted:
        replica = online(hosted)
        replica.check_serving()
        found = await context.jobs.health(replica.record.incarnation)
        model = replica.model
        document = {} if found is None else found[1]
        current = partial(model.old_names.current, names=model.labels.names)
        rows = current_rows(document.get("health", ()), current)
        vocabulary = VocabularyFacts.of(model)
    path = f"/v1/models/{quote(leader, safe='')}"
    listed = await asyncio.to_thread(suggestions, vocabulary, rows, path)
    left = dict.fromkeys(KINDS if query.kind is None else (query.kind,), query.top)
    shown = []
    for row in listed:
        if left.get(row["kind"], 0) > 0:
            left[row["kind"]] -= 1
            shown.append(row)
    facts = {part: document.get(part) for part in ("position", "examined")}
    return json_response({"job": None if found is None else found[0], **facts, "suggestions": shown})


class DismissRequest(RequestModel):
    """Suggestion to dismiss."""

    kind: Kind
    """Kind of the suggestion."""
    label: Name
    """Label of the suggestion."""
    other: Name | None = None
    """Label to merge into, or parent; required for suggestions about two labels, and otherwise not allowed."""


@router.endpoint(
    "POST /v1/models/{name}/health/dismiss",
    "Dismiss a suggestion for labels",
    "learn",
    UpdateResponse,
    ["model_follows", "label_not_found", "label_exists", "queue_full"],
    takes=DismissRequest,
    example={"kind": "merge", "label": "petz", "other": "pets"},
    keyed=True,
)
async def dismiss(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Dismisses a suggestion on every server, from this position in the log: it is listed again only when the number of
    examples of its rarer label has doubled. If a merge is dismissed, the two labels are not suggested for a merge for
    any other reason. Nothing else changes."""
    async with context.registry.use(name) as model:
        replica = online(model)
        wanted, raw = await read_model(request, DismissRequest)
        key = idempotency_key(request, "dismiss", raw)
        _check_pair(wanted)
        return await changed(request, response, replica, Dismiss(wanted.kind, wanted.label, wanted.other, key))


class DryRunRequest(DismissRequest):
    """Suggestion to try."""

    last: Annotated[int, Field(strict=True, ge=1, le=MAX_EXAMINED)] = 100_000
    """Maximum number of the latest examples to examine."""


@router.endpoint(
    "POST /v1/models/{name}/health/dry-run",
    "Try a suggestion for labels",
    "learn",
    Job,
    ["model_follows", "label_not_found", "label_exists", "jobs_full"],
    takes=DryRunRequest,
    example={"kind": "merge", "label": "petz", "other": "pets"},
    status=202,
)
async def try_suggestion(request: Request, response: Response, context: ContextOf, access: AccessOf, name: str) -> Job:
    """Queues a job that learns the examples of the log twice with new models: once as they are, and once with the
    suggestion applied from the first example on. Its `result` has the prequential metrics of both; the model does not
    change. The header Location has the address of the job. If a job for the suggestion and the current position exists,
    it is returned instead. For a follower, the examples are those of its leader."""
    leader = await leader_of(context, access, name)
    async with context.registry.use(leader) as hosted:
        replica = online(hosted)
        wanted, _ = await read_model(request, DryRunRequest)
        _check_pair(wanted)
        replica.check_serving()
        label, other = (
            None if each is None else current_label(replica.model, each) for each in (wanted.label, wanted.other)
        )
        assert label is not None
        _check_applicable(replica.model, wanted.kind, label, other)
        params = {"kind": wanted.kind, "label": label, "other": other}
        spec = DryRunSpec(params=params, data=DataOfStream(stream=leader, last=wanted.last), model=leader)
        job, _ = await context.jobs.begin_search(spec, replica.record.incarnation, replica.position)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return job


def _check_applicable(model: OnlineModel, kind: Kind, label: str, other: str | None) -> None:
    """Raise LabelNotFound, LabelExists, LimitExceeded, InvalidField or Problem unless a suggestion can be applied."""
    for each in (label, other):
        if each is not None and (each not in model.labels or each in model.hidden):
            raise LabelNotFound(each)
    if other is None:
        return
    if kind != "parent":
        model.check_merge(label, other)
        return
    if label == other:
        raise LabelExists(label)
    facts = model.groups.to_json(model.labels)
    if label in facts["parents"]:
        raise invalid(("label",), f"has the parent {facts['parents'][label]!r}: remove this parent first")
    groups = [Group(group["name"], tuple(group["labels"]), group["choose"]) for group in facts["groups"]]
    try:
        check_written(groups, {**facts["parents"], label: other})
    except InvalidField as error:
        raise invalid(("other",), f"contradicts the groups and parents: {error.detail}") from error


def _check_pair(wanted: DismissRequest) -> None:
    """Raise a Problem if a suggestion about two labels lacks the other label, or one about one label has another."""
    if (wanted.kind in PAIRS) != (wanted.other is not None):
        needed = "is missing: the suggestion is about two labels" if wanted.kind in PAIRS else "must be missing"
        raise invalid(("other",), needed)


class UndoRequest(RequestModel):
    """Change of labels to undo."""

    position: Annotated[str, Field(strict=True, json_schema_extra={"pattern": POSITION})]
    """Position of the entry of the change, as its response or the log returned it."""


class Undone(UpdateResponse):
    """Result of undoing a change of labels."""

    how: Literal["rollback", "inverse"]
    """`rollback`: no later entry had changed the model, so it has the state from before the change. `inverse`: later
    entries stay, and only the change was undone."""


@router.endpoint(
    "POST /v1/models/{name}/undo",
    "Undo a change of labels",
    "admin",
    Undone,
    ["model_follows", "cannot_undo", "queue_full", *HISTORY],
    takes=UndoRequest,
    example={"position": "1"},
    keyed=True,
)
async def undo(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Undoes a change of a label (rename, merge, pause, resumption, retirement), a change of groups and parents, or a
    dismissal, on every server. The undo is a new entry of the log. Everything learnt since then stays: for example,
    updates that named a merged label stay learnt as the other label. Labels that a change of groups declared stay, too.
    A later change of the same label, or of the groups, must be undone first."""
    async with context.registry.use(name) as model:
        replica = online(model)
        wanted, raw = await read_model(request, UndoRequest)
        key = idempotency_key(request, "undo", raw)
        try:
            position = read_position(wanted.position)
        except ValueError as error:
            raise invalid(("position",), str(error)) from None
        async with context.examining:
            updated = await replica.undo(position, key)
        how = "inverse" if updated.rolled_back_to is None else "rollback"
        return {**receipt_of_change(updated, request, response), "how": how}
