"""What the endpoints are handed."""

import asyncio
from dataclasses import dataclass, field

from starlette.requests import Request

from manylabel_service.replicas.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one application.

    `draining` is set when the server begins to stop: answers that would go on for ever end then. `uploading` is held
    by the one upload that may be under way: it has a whole model in memory.
    """

    settings: Settings
    registry: Registry
    telemetry: Telemetry
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    uploading: asyncio.Lock = field(default_factory=asyncio.Lock)


def context_of(request: Request) -> Context:
    """The context of the application that a request came to."""
    context: Context = request.app.state.context
    return context
