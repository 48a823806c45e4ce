"""GET /v1/models/{name}/events: what happens to a model, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator

import pydantic_core
from fastapi import APIRouter
from fastapi.sse import format_sse_event
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_service.api import schemas
from manylabel_service.api.context import Context, context_of
from manylabel_service.api.endless import Writer, beside
from manylabel_service.api.problems import Problem
from manylabel_service.api.query import read_position
from manylabel_service.api.routes import DirectRoute, content, problems
from manylabel_service.replicas.events import Event, Subscription
from manylabel_service.replicas.replica import Replica
from manylabel_service.storage import START, position_key

router = APIRouter(route_class=DirectRoute, tags=["models"])

HEADER = "Last-Event-ID"
COMMENT_SECONDS = 15.0
"""After so long without an event comes a comment, so that nothing on the way takes the connection for dead."""


@router.get(
    "/v1/models/{name}/events",
    summary="Watch a model learn",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events",
            **content(
                schemas.UpdateEvent,
                schemas.RollbackEvent,
                schemas.Metrics,
                schemas.DroppedEvent,
                media_type="text/event-stream",
            ),
        },
        **problems("model_not_found", "invalid_request", "queue_full", "not_ready", "storage_unavailable"),
    },
    openapi_extra={
        "parameters": [
            {
                "name": HEADER,
                "in": "header",
                "required": False,
                "description": "The id of the last event seen: go on after it.",
                "schema": {"type": "string"},
            }
        ]
    },
)
async def watch(request: Request, name: str) -> Response:
    """An `update` for each update, a `rollback`, `metrics` at most once a second, and `dropped` where some are
    missing: the client was too slow, or away for too long. The id of an event is its position in the log."""
    context = context_of(request)
    after = _last_event_id(request)
    replica = await context.registry.get(name)
    if after is not None and _ahead(after, replica) and await replica.confirm() is None:
        replica = await context.registry.get(name)
        if _ahead(after, replica):  # of another model that had the name, or of a log that was lost
            after = START
    return _Events(context, replica.events.subscribe(after))


def _ahead(position: str, replica: Replica) -> bool:
    return position_key(position) > position_key(replica.model.position)


def _last_event_id(request: Request) -> str | None:
    values = [value for name, value in request.scope["headers"] if name == b"last-event-id"]
    if not values:
        return None
    try:
        if len(values) == 1:
            return read_position(values[0].decode("latin-1"))
    except ValueError:
        pass
    allowed = "must be the id of an event of this model, given once"
    raise Problem("invalid_request", f"{HEADER} {allowed}", [{"header": HEADER, "detail": allowed}])


class _Events(Response):
    """Writes events as they come, until the client goes, the model goes, or the server stops."""

    def __init__(self, context: Context, subscription: Subscription) -> None:
        self._context = context
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = Writer(scope, send, self._context.settings.stream_idle_seconds)

        async def end() -> None:
            await self._context.draining.wait()
            await self._subscription.aclose()

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            await self._subscription.aclose()

        try:
            async with beside(end, leave):
                await writer.start(b"text/event-stream; charset=utf-8")
                await writer.write(format_sse_event(comment="events of this model follow"))
                async for event in self._with_pauses():
                    await writer.write(_COMMENT if event is None else _written(event))
                await writer.end()
        finally:
            await self._subscription.aclose()

    async def _with_pauses(self) -> AsyncIterator[Event | None]:
        """The events; None where none came for a while."""
        while True:
            try:
                async with asyncio.timeout(COMMENT_SECONDS):
                    event = await anext(self._subscription)
            except StopAsyncIteration:
                return
            except TimeoutError:
                yield None
            else:
                yield event


_COMMENT = format_sse_event(comment="still there")


def _written(event: Event) -> bytes:
    data = pydantic_core.to_json(event.data, inf_nan_mode="null").decode()
    return format_sse_event(data_str=data, event=event.kind, id=event.position)
