"""Base classes of responses."""

from pydantic import BaseModel, ConfigDict


class ResponseModel(BaseModel):
    """JSON object of a response."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class At(ResponseModel):
    """Response with a position in the log of the model."""

    position: str
    """Log position of the last update included. Opaque: store it, do not compare it."""
