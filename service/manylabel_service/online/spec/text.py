"""How a model reads the texts of records: a part of its spec, checked and filled in by core."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from manylabel_core.records import TextSettings

_Span = Annotated[list[int], Field(min_length=2, max_length=2)]


class Text(BaseModel):
    """Settings say how texts are read; what is left out is filled in."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    fields: list[str] | None = None
    """These fields of a record are text; one of an object inside it is named with a dot (`author.bio`). Null: those
    with a string longer than `longer_than`."""
    longer_than: Annotated[int, Field(ge=0)] | None = None
    """A string of more characters is a text in any field. Null takes 200 where no `fields` are named, else none is."""
    ngrams: int | _Span = [1, 1]
    """Lengths of the word n-grams that become tokens: from the first number to the second, 1 to 5; a number n stands
    for 1 to n."""
    chars: int | _Span | None = None
    """Lengths of the character n-grams inside a word that become tokens: from the first number to the second, 2 to 10;
    a number n stands for n alone. Null: none are."""
    stop_words: list[str] = Field(default_factory=list)
    """These words are left out."""
    min_length: int = 2
    """Shorter words are left out."""
    tokeniser: int = 1
    """The tokeniser of this version says what a word is. A model keeps the one that it was created with."""

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, document: Any) -> Any:
        """Have core check the settings, and fill in what is left to it."""
        if not isinstance(document, Mapping):
            return document
        known = {name: value for name, value in document.items() if name in cls.model_fields}
        try:
            return {**document, **TextSettings.from_json(known).to_json()}
        except ValueError as error:
            name, _, detail = str(error).partition(" ")
            problem = PydanticCustomError("text", "{detail}", {"detail": detail})
            errors = {"type": problem, "loc": (name,), "input": known.get(name)}
            raise ValidationError.from_exception_data("Text", [errors]) from error  # type: ignore[list-item]

    def settings(self) -> TextSettings:
        """Return the settings as core takes them."""
        return TextSettings.from_json(self.model_dump())


def text_to_dict(text: Text | None) -> dict[str, Any]:
    """Return how texts are read, every choice made."""
    return (text or Text()).model_dump(mode="json")
