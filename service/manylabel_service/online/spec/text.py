"""Text options in the spec of a model; core validates them and sets defaults."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from manylabel_core.records import TextSettings
from manylabel_service.documented import Documented

_Span = Annotated[list[int], Field(min_length=2, max_length=2)]


class Text(Documented):
    """Settings of the tokeniser; omitted ones get their defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fields: list[str] | None = None
    """Fields of a record that are text; a field of a nested object is named with a dot (`author.bio`). Null: all fields
    with a string longer than `longer_than`."""
    longer_than: Annotated[int, Field(ge=0)] | None = None
    """Number of characters above which a string is a text in any field. Null: 200 if no `fields` are named; otherwise
    only `fields` are texts."""
    ngrams: int | _Span = Field(default=[1, 1])
    """Lengths of word n-grams that become tokens: from the first number to the second, 1 to 5; a single number n means
    1 to n.
    """
    chars: int | _Span | None = None
    """Lengths of character n-grams inside a word that become tokens: from the first number to the second, 2 to 10; a
    single number n means only the length n. Null: no character n-grams."""
    stop_words: list[str] = Field(default_factory=list)
    """Words that are ignored."""
    min_length: int = 2
    """Minimum number of characters of a word; shorter words are ignored."""
    tokeniser: int = 1
    """Version of the tokeniser. A model keeps the version that it was created with."""

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, document: Any) -> Any:
        """Let core validate the settings, and set the defaults of core."""
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
        """Return the settings for core."""
        return TextSettings.from_json(self.model_dump())


def text_to_dict(text: Text | None) -> dict[str, Any]:
    """Return the complete text options."""
    return (text or Text()).model_dump(mode="json")
