"""What the endpoints are handed."""

from dataclasses import dataclass

from starlette.requests import Request

from manylabel_service.replicas.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one application."""

    settings: Settings
    registry: Registry
    telemetry: Telemetry


def context_of(request: Request) -> Context:
    """The context of the application that a request came to."""
    context: Context = request.app.state.context
    return context
