"""POST /v1/models/{name}/correct: true labels of a learnt example that a person has checked."""

from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.schemas.base import RequestModel
from manylabel_service.api.schemas.requests import LabelsBody
from manylabel_service.api.translation.from_json import check_fields, path_in_item, read_position, to_labels
from manylabel_service.api.translation.model_access import HISTORY, online
from manylabel_service.api.translation.to_json import receipt_of_change
from manylabel_service.api.web.access import access_of
from manylabel_service.api.web.bodies import idempotency_key
from manylabel_service.api.web.large_json import read_json
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router
from manylabel_service.api.web.validation import validated
from manylabel_service.errors import InvalidExample
from manylabel_service.storage import POSITION

router = Router("models", errors=["model_not_found", "model_is_trained"])


class CorrectRequest(RequestModel):
    """True labels of a learnt example, as a person has checked them."""

    position: Annotated[str, Field(strict=True, json_schema_extra={"pattern": POSITION})]
    """Position of the entry with the example, as an update or the log returned it."""
    index: Annotated[int, Field(strict=True, ge=0, lt=2**31)] | None = None
    """Index of the example in its entry, from 0; required if the entry has several."""
    y: LabelsBody
    """A list of names is complete: every other label is false. An object has at least one label, those that were
    checked: other labels stay as they are."""


@router.endpoint(
    "POST /v1/models/{name}/correct",
    "Correct the true labels of a learnt example",
    "learn",
    schemas.UpdateResponse,
    ["model_follows", "example_not_found", "label_not_found", "queue_full", "limit_exceeded", *HISTORY],
    takes=CorrectRequest,
    example={"position": "1", "y": {"pets": True}},
    keyed=True,
)
async def correct(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Replaces true labels of a learnt example on every server. The model learns the corrected example again, and jobs
    on its examples see the corrected labels. The metrics still count the example with its first labels. If the labels
    agree with those of the example, they are confirmed: nothing is learnt. A later correction of the example applies to
    the result of the earlier one."""
    async with context.registry.use(name) as model:
        replica = online(model)
        document, raw = await read_json(request)
        key = idempotency_key(request, "correct", raw)
        check_fields(document, (), context.settings.limits.max_record_fields)
        wanted = validated(CorrectRequest, document, (), path_in_item)
        try:
            position = read_position(wanted.position)
        except ValueError as error:
            raise invalid(("position",), str(error)) from None
        y = to_labels(wanted.y, ("y",))
        if not (y.names or y.complete):
            raise invalid(("y",), "must name at least one label")
        access_of(request).charge(1)
        try:
            return receipt_of_change(await replica.correct(position, wanted.index, y, key), request, response)
        except InvalidExample as error:
            raise invalid(error.path, error.detail) from error
