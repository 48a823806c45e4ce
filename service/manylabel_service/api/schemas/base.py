"""Base classes of responses."""

from pydantic import ConfigDict

from manylabel_service.documented import Documented


class ResponseModel(Documented):
    """JSON object of a response."""

    model_config = ConfigDict(extra="forbid")


class At(ResponseModel):
    """Response with a position in the log of the model."""

    position: str
    """Log position of the last update included. Opaque: store it, do not compare it."""
