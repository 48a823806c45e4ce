"""Base classes of answers."""

from pydantic import BaseModel, ConfigDict


class ResponseModel(BaseModel):
    """A JSON object that is sent."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class At(ResponseModel):
    """An answer has a position: a point in the history of a model."""

    position: str
    """The position says which updates the answer has seen. It is to be kept, not to be compared."""
