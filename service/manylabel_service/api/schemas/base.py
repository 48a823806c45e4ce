"""Base classes of requests and responses, and fields that a response can omit."""

from operator import not_
from typing import Any

from pydantic import ConfigDict, Field

from manylabel_service.documented import Documented


class ResponseModel(Documented):
    """JSON object of a response."""

    model_config = ConfigDict(extra="forbid")


class RequestModel(Documented):
    """JSON object of a request."""

    model_config = ConfigDict(extra="forbid")


class At(ResponseModel):
    """Response with a position in the log of the model."""

    position: str
    """Log position of the last update included. Opaque: store it, do not compare it."""


def omitted_if_none() -> Any:
    """Return the declaration of a field that a response omits if it is None, its default."""
    return Field(default=None, exclude_if=lambda value: value is None)


def omitted_if_empty() -> Any:
    """Return the declaration of a list that a response omits if it is empty, its default."""
    return Field(default_factory=list, exclude_if=not_)
