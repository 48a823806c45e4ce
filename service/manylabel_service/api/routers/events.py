"""GET /v1/models/{name}/events: events of a model, as server-sent events."""

from typing import Annotated, Literal, get_args

import pydantic_core
from fastapi.sse import format_sse_event
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api.context import ContextOf
from manylabel_service.api.routers.metrics import Metrics
from manylabel_service.api.schemas.base import At, ResponseModel
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


class UpdateEvent(At):
    """Event: examples were learnt."""

    updates: int
    """Number of examples that the model has learnt in total."""
    examples: int
    """Number of examples learnt by this call."""


class DriftEvent(At):
    """Event: a drift detector fired. It precedes the update of the example, and has the id of the event before this
    update."""

    updates: int
    """Number of examples learnt, including the one at which the detector fired."""
    label: str | None
    """Label of the detector; null for the detector over all labels."""


class ParityEvent(At):
    """Event: the gate of a promise of parity opened or closed. It precedes the update that opened or closed the
    gate."""

    updates: int
    """Number of examples learnt so far."""
    state: Literal["open", "closed"]
    """`open`: sure examples are answered without the teacher. `closed`: the teacher labels all examples."""


class RollbackEvent(At):
    """Event: the model returned to a snapshot."""

    to: str
    """Position of the snapshot."""
    updates: int
    """Number of examples that the model has learnt now."""


class PromotedEvent(At):
    """Event: a trained model serves another version."""

    version: int
    """Number of the version served now."""
    previous: int | None
    """Number of the version served before; null for none."""


class NotPromotedEvent(At):
    """Event: a new version of a trained model is not served, because its job requested `if_better`."""

    version: int
    """Number of the new version."""
    reason: str
    """Reasons, as in `not_promoted_because` of the version; at most 500 characters."""


class LabelEvent(At):
    """Event: a label is new, or was described, renamed, merged, retired, paused, resumed or restored."""

    updates: int
    """Number of examples learnt so far."""
    label: str | None
    """New name of the label; null if the label was retired."""
    change: Literal["new", "described", "renamed", "merged", "retired", "paused", "resumed", "restored"]
    """The change of the label."""
    before: str | None = None
    """Earlier name; null for a new label."""
    alike: str | None = None
    """Earlier label that differs from a new label only in case, spaces or Unicode form; null if there is no such
    label."""


class DroppedEvent(ResponseModel):
    """Event: events were lost."""

    count: int | None
    """Number of lost events; null if unknown."""


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
                UpdateEvent,
                DriftEvent,
                LabelEvent,
                ParityEvent,
                RollbackEvent,
                PromotedEvent,
                NotPromotedEvent,
                Metrics,
                DroppedEvent,
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
    """Sends an `update` for each update. Before it come a `drift` for each detector that fired, a `label` for each new
    label, and a `parity` if the gate of a promise of parity opened or closed. Other events are `rollback`, `promoted`
    (a trained model serves another version), `not_promoted` (a new version is not served), and `metrics` at most once a
    second. A client that was too slow, or disconnected for too long, gets `dropped`. The id of an event is its position
    in the log: a client that has received the event has received all events up to it."""
    after = last_event_id(request, read_position, "must be the id of an event of this model, sent once")
    replica = await context.registry.get(name)
    if after is not None and _ahead(after, replica) and await replica.sync() is None:
        replica = await context.registry.get(name)
        if _ahead(after, replica):  # the position belongs to an earlier model of this name, or to a lost log
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
