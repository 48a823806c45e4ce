"""What all answers have in common."""

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """A JSON object that is sent."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class At(Answer):
    """A point in a model's log."""

    position: str
    """Opaque; says which updates the answer has seen."""
