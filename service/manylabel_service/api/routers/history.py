"""GET /v1/models/{name}/log: the entries of the log of a model."""

from typing import Annotated

from pydantic import AfterValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.translation.from_json import read_moment
from manylabel_service.api.translation.log_lines import lines_of
from manylabel_service.api.translation.model_access import HISTORY, online
from manylabel_service.api.web.parameters import Parameters, from_query, up_to
from manylabel_service.api.web.routes import Router, content
from manylabel_service.audit.call import note

router = Router("models", errors=["model_not_found", "model_is_trained"])

MAX_ENTRIES = 10_000
"""Maximum entries of one response."""

MAX_BYTES = 4 << 20
"""Approximate maximum bytes of stored entries per response."""

MEDIA_TYPE = "application/x-ndjson"


def _checked(value: str) -> str:
    read_moment(value)
    return value


_Moment = Annotated[str, AfterValidator(_checked)]


class WhichEntries(Parameters):
    """Range of the entries of the log."""

    after: _Moment | None = Field(default=None, alias="from")
    """Entries after this position, or from this time on; without it, from the beginning of the history."""
    to: _Moment | None = None
    """Entries up to this position or time, which is included; without it, up to the end."""
    limit: up_to(MAX_ENTRIES) = 1_000  # type: ignore[valid-type]
    """Maximum number of entries."""


@router.endpoint(
    "GET /v1/models/{name}/log",
    "Read the log of a model",
    "export",
    None,
    ["model_follows", *HISTORY],
    answers={
        200: {
            "description": "One line of JSON for each entry, the earliest first",
            **content(schemas.HistoryEntry, media_type=MEDIA_TYPE),
        }
    },
    response_class=Response,
)
async def read_log(
    request: Request, context: ContextOf, name: str, query: Annotated[WhichEntries, from_query(WhichEntries)]
) -> Response:
    """Returns the entries of the model's log in its history: what was sent to the model, and when, including updates
    that the model rejected at their position. A response can end before `limit`, after some megabytes of entries. To
    continue, send the position of the last line as `from`; a response without lines is the end."""
    replica = online(await context.registry.get(name))
    after = None if query.after is None else read_moment(query.after)
    to = None if query.to is None else read_moment(query.to)
    entries = await context.registry.ask(replica, lambda replica: replica.read_log(after, to, query.limit, MAX_BYTES))
    if entries:
        note(request.scope, position=entries[-1].position)
    return Response(await lines_of(entries), media_type=MEDIA_TYPE)
