"""Errors."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class WrongPlace(BaseModel):
    """What is wrong, and where: in the body, in a header, or in the address."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    detail: str
    """What is allowed there."""
    pointer: str | None = None
    """JSON pointer (RFC 6901) into the body."""
    header: str | None = None
    """Name of the header."""
    parameter: str | None = None
    """Name of the parameter in the query string."""


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str
    """What happened to this request, and what to do about it."""
    code: str
    """What happened, for programs."""
    instance: str
    """Path of the request."""
    request_id: str
    """As in the header X-Request-ID and in the server's log."""
    errors: list[WrongPlace]
    """The places that are wrong; at most ten."""
