"""/v1/models/{name}/forget and /verify: forget examples, read the receipts, and check a history."""

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.translation.from_json import read_position
from manylabel_service.api.translation.model_access import HISTORY, online
from manylabel_service.api.web.access import access_of
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router, json_answer
from manylabel_service.online.history.lineage import Receipt
from manylabel_service.online.replica import Replica
from manylabel_service.online.successor.rewriter import Selection

router = Router("models", errors=["model_not_found", "model_is_trained"])


@router.endpoint(
    "POST /v1/models/{name}/forget",
    "Forget examples",
    "admin",
    schemas.ForgetReceipt,
    ["model_follows", "model_has_followers", "forget_running", *HISTORY],
    takes=schemas.ForgetRequest,
    example={"refs": ["customer-4711"]},
    status=202,
)
async def forget(request: Request, context: ContextOf, name: str) -> Response:
    """Removes examples from the history, the log and the model: afterwards its state is that of a model which never
    saw them. The entries stay in the log, without these examples, so positions stay valid, and a repeated request
    teaches nothing. The model continues to serve. Returns a receipt that is running; the header Location has its
    address."""
    replica = online(await context.registry.get(name))
    replica.check_leads()
    wanted, _ = await read_model(request, context.settings.max_body_bytes, schemas.ForgetRequest)
    if (wanted.refs is None) == (wanted.positions is None):
        raise invalid((), "must have either refs or positions")
    positions = set[str]()
    for place, position in enumerate(wanted.positions or ()):
        try:
            read_position(position)
        except ValueError as error:
            raise invalid(("positions", place), str(error)) from None
        positions.add(await context.registry.ask(replica, partial(_found, position=position)))
    selection = Selection(frozenset(wanted.refs or ()), frozenset(positions))
    key_id = access_of(request).key_id
    receipt = await context.registry.forgetter.begin(online(await context.registry.get(name)), selection, key_id)
    location = f"/v1/models/{name}/forget/{receipt.id}"
    return json_answer(_document(name, receipt), 202, [(b"location", location.encode())])


@router.endpoint("GET /v1/models/{name}/forget", "List receipts of forgetting", "admin", schemas.ForgetReceipts)
async def list_receipts(context: ContextOf, name: str) -> Response:
    """Lists the receipts of the model, the latest first."""
    online(await context.registry.get(name))
    receipts = await context.registry.forgetter.receipts(name)
    return json_answer({"receipts": [_document(name, receipt) for receipt in reversed(receipts)]})


@router.endpoint(
    "GET /v1/models/{name}/forget/{id}",
    "Read a receipt of forgetting",
    "admin",
    schemas.ForgetReceipt,
    ["receipt_not_found"],
)
async def read_receipt(context: ContextOf, name: str, id: str) -> Response:
    """Returns the receipt of a request to forget examples. If the server that runs the request stops, another one
    finishes it: the receipt is then done if the new state was already active; else it failed and changed nothing."""
    online(await context.registry.get(name))
    return json_answer(_document(name, await context.registry.forgetter.receipt(name, id)))


@router.endpoint(
    "POST /v1/models/{name}/verify",
    "Verify the history",
    "admin",
    schemas.Verification,
    ["model_follows", "limit_exceeded", *HISTORY],
)
async def verify(context: ContextOf, name: str) -> Response:
    """Replays the history of the model from its earliest state to the present one, and compares each stored state
    with the replayed one, bit for bit."""
    replica = online(await context.registry.get(name))
    replica.check_leads()
    async with context.examining:
        found = await context.registry.ask(replica, lambda replica: replica.verify())
    return json_answer(found._asdict())


async def _found(replica: Replica, position: str) -> str:
    return await replica.find_entry(position)


def _document(name: str, receipt: Receipt) -> dict[str, Any]:
    return {"model": name, **receipt.model_dump()}
