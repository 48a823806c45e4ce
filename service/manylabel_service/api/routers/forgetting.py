"""/v1/models/{name}/forget and /verify: forget examples, read the receipts, and check a history."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api.context import ContextOf
from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.api.translation.from_json import read_position
from manylabel_service.api.translation.model_access import HISTORY, online
from manylabel_service.api.web.access import access_of
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router
from manylabel_service.documented import Documented
from manylabel_service.hosting.examples import MAX_REF_BYTES
from manylabel_service.online.history.lineage import Receipt
from manylabel_service.online.successor.rewriter import Selection
from manylabel_service.storage import POSITION

router = Router("models", errors=["model_not_found", "model_is_trained"])


MAX_SELECTED = 1_000
"""Maximum references or positions of one request."""

_Ref = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_REF_BYTES)]
_Position = Annotated[str, Field(strict=True, max_length=64, json_schema_extra={"pattern": POSITION})]


class ForgetRequest(Documented):
    """Request to forget the examples with some references, or the examples of some entries of the log."""

    model_config = ConfigDict(extra="forbid")

    refs: Annotated[list[_Ref], Field(min_length=1, max_length=MAX_SELECTED, fail_fast=True)] | None = None
    """References (`ref`) of the examples."""
    positions: Annotated[list[_Position], Field(min_length=1, max_length=MAX_SELECTED, fail_fast=True)] | None = None
    """Positions of entries of the log; all examples of these entries are forgotten."""


class ForgetReceipt(ResponseModel):
    """Receipt of a request to forget examples."""

    id: str
    """Id of the receipt."""
    model: str
    """Name of the model."""
    status: Literal["running", "done", "failed"]
    """Whether the request is in progress, done, or failed; a failed request changed nothing."""
    created: str
    """Time of the request (RFC 3339, UTC)."""
    ended: str | None
    """Time of the end; null while it is running."""
    key_id: str | None
    """Id of the API key that requested it; null without a key."""
    entries: int
    """Number of entries of the log that contained these examples."""
    examples: int
    """Number of examples that were forgotten; 0 if the history has none of them."""
    predictions: int
    """Number of stored predictions that were deleted, because these examples labelled them."""
    since: str | None
    """Position at which the history of the model begins. Earlier examples are not in the history and cannot be
    forgotten: they stay in the weights.
    """
    first: str | None
    """Position of the first entry that contained one of these examples."""
    position: str | None
    """Position of the log at which the new state replaced the old one."""
    checksum_before: str | None
    """Checksum of the old state at this position, recomputed from the history and equal to that of the model."""
    checksum_after: str | None
    """Checksum of the new state at this position."""
    metrics_before: dict[str, float | None] | None
    """Cumulative metrics of the old state at this position, as in `GET /v1/models/{name}/metrics`."""
    metrics_after: dict[str, float | None] | None
    """Cumulative metrics of the new state at this position."""
    build: str | None
    """Build of the server that computed both states."""
    kept: list[str]
    """Copies that are not deleted and need a check: forks, datasets, versions, downloads."""
    beyond_reach: list[str]
    """Copies that the server cannot delete."""
    archive: Literal["pending", "purged"] | None
    """`pending` until the next pass of the archive has deleted the old model, then `purged`; null without an archive.
    """
    error: str | None
    """Reason why the request failed."""


class ForgetReceipts(ResponseModel):
    """Receipts of a model."""

    receipts: list[ForgetReceipt]
    """Receipts, the latest first; at most 100."""


class Verification(ResponseModel):
    """Comparison of stored states with the replayed history."""

    equal: bool
    """Whether all states are equal, bit for bit."""
    since: str
    """Position at which the history of the model begins."""
    position: str
    """Position of the latest state that was compared."""
    states: int
    """Number of states that were compared."""
    differs_at: str | None
    """Position of the first state that differs; null if all are equal."""


@router.endpoint(
    "POST /v1/models/{name}/forget",
    "Forget examples",
    "admin",
    ForgetReceipt,
    ["model_follows", "model_has_followers", "forget_running", *HISTORY],
    takes=ForgetRequest,
    example={"refs": ["customer-4711"]},
    status=202,
)
async def forget(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Removes examples from the history, the log and the model: afterwards the state is the same as if the model had
    never seen them. The entries stay in the log without these examples, so that positions stay valid and a repeated
    update is not learnt again. The model continues to serve. Returns a receipt that is running; the header Location has
    its address."""
    async with context.registry.use(name) as model:
        replica = online(model)
        replica.check_leads()
        wanted, _ = await read_model(request, ForgetRequest)
        found = await replica.find_entries(_positions(wanted))
        selection = Selection(frozenset(wanted.refs or ()), frozenset(found))
        receipt = await context.forgetter.begin(replica, selection, access_of(request).key_id)
        await context.jobs.remove_doubts(replica.record.incarnation)  # lists have references and features
    response.headers["Location"] = f"/v1/models/{name}/forget/{receipt.id}"
    return _document(name, receipt)


def _positions(wanted: ForgetRequest) -> list[str]:
    """Return the positions to forget, without duplicates; raise a Problem for an invalid position."""
    if (wanted.refs is None) == (wanted.positions is None):
        raise invalid((), "must have either refs or positions")
    positions = dict[str, None]()
    for place, position in enumerate(wanted.positions or ()):
        try:
            positions[read_position(position)] = None
        except ValueError as error:
            raise invalid(("positions", place), str(error)) from None
    return list(positions)


@router.endpoint("GET /v1/models/{name}/forget", "List receipts of forgetting", "admin", ForgetReceipts)
async def list_receipts(context: ContextOf, name: str) -> dict[str, Any]:
    """Lists the receipts of the model, the latest first."""
    online(await context.registry.get(name))
    receipts = await context.forgetter.receipts(name)
    return {"receipts": [_document(name, receipt) for receipt in reversed(receipts)]}


@router.endpoint(
    "GET /v1/models/{name}/forget/{id}",
    "Read a receipt of forgetting",
    "admin",
    ForgetReceipt,
    ["receipt_not_found"],
)
async def read_receipt(context: ContextOf, name: str, id: str) -> dict[str, Any]:
    """Returns the receipt of a request to forget examples. If the server that runs the request stops, another server
    finishes it. The receipt is then `done` if the new state was already active. Otherwise it is `failed`, and nothing
    was changed."""
    online(await context.registry.get(name))
    return _document(name, await context.forgetter.receipt(name, id))


@router.endpoint(
    "POST /v1/models/{name}/verify",
    "Verify the history",
    "admin",
    Verification,
    ["model_follows", "limit_exceeded", *HISTORY],
)
async def verify(context: ContextOf, name: str) -> Verification:
    """Replays the history of the model from the earliest state to the current one, and compares each stored state with
    the replayed state, bit for bit."""
    async with context.registry.use(name) as model:
        replica = online(model)
        replica.check_leads()
        async with context.examining:
            found = await replica.verify()
        return Verification(**found._asdict())


def _document(name: str, receipt: Receipt) -> dict[str, Any]:
    return {"model": name, **receipt.model_dump(include=set(Receipt.model_fields))}
