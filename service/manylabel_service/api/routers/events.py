"""GET /v1/models/{name}/events: events of a model, as server-sent events."""

from typing import Annotated, get_args

import pydantic_core
from fastapi.sse import format_sse_event
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.translation.from_json import read_position
from manylabel_service.api.web.parameters import Parameters, from_query
from manylabel_service.api.web.routes import Router, content
from manylabel_service.api.web.streaming import EventStream, last_event_id, resumable
from manylabel_service.hosting.events import Event, Kind
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.storage import POSITION, START, position_key

router = Router("models", errors=["model_not_found"])


class WhichEvents(Parameters):
    """Parameters of the stream of events."""

    kind: list[Kind] = Field(default_factory=list, max_length=len(get_args(Kind)))
    """Kind of events to send, besides `dropped`; can be repeated. Default: all."""


@router.endpoint(
    "GET /v1/models/{name}/events",
    "Stream events of a model",
    "read",
    None,
    ["queue_full"],
    responses={
        200: {
            "description": "Server-sent events",
            **content(
                schemas.UpdateEvent,
                schemas.DriftEvent,
                schemas.LabelEvent,
                schemas.RollbackEvent,
                schemas.PromotedEvent,
                schemas.NotPromotedEvent,
                schemas.Metrics,
                schemas.DroppedEvent,
                media_type="text/event-stream",
            ),
        }
    },
    response_class=Response,
    openapi_extra=resumable(POSITION),
)
async def watch_model(
    request: Request, context: ContextOf, name: str, query: Annotated[WhichEvents, from_query(WhichEvents)]
) -> Response:
    """Sends an `update` for each update, preceded by a `drift` for each detector that fired in it and a `label` for
    each new label. Other events are `rollback`, `promoted` (a trained model serves another version), `not_promoted` (a
    new version is not served), `metrics` at most once a second, and `dropped` if the client was too slow or was
    disconnected for too long. The id of an event is its position in the log: a client that has received the event has
    received all events up to it."""
    after = last_event_id(request, read_position, "must be the id of an event of this model, sent once")
    replica = await context.registry.get(name)
    if after is not None and _ahead(after, replica) and await replica.sync() is None:
        replica = await context.registry.get(name)
        if _ahead(after, replica):  # the position is of an earlier model of this name, or of a lost log
            after = START
    return EventStream(
        replica.events.subscribe(after, query.kind),
        _event_bytes,
        "events of this model follow",
        context.draining,
        context.settings.limits.idle_timeout_seconds,
    )


def _ahead(position: str, replica: HostedModel) -> bool:
    return position_key(position) > position_key(replica.position)


def _event_bytes(event: Event) -> bytes:
    data = pydantic_core.to_json(event.data, inf_nan_mode="null").decode()
    return format_sse_event(data_str=data, event=event.kind, id=event.resume or event.position)
