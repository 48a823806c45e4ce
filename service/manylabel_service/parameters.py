"""Pydantic models of the parameters of learners declared in core."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar, Union

from pydantic import BaseModel, Field, StrictBool, conlist, create_model

from manylabel_core.parameters import Choice, Flag, Kind, Matrix, Null, Number, Parameter

Base = TypeVar("Base", bound=BaseModel)

_JSON = {"None": "null", "True": "true", "False": "false"}


def model_of(name: str, base: type[Base], text: str, parameters: Iterable[Parameter]) -> type[Base]:
    """Return the model of the parameters that clients may set, named `name` and described by `text`."""
    fields: Any = {
        each.name: (
            Union[tuple(map(_annotation, each.kinds))],  # noqa: UP007 (of types that are not known before)
            Field(default=each.default, description=in_json(each.description)),
        )
        for each in parameters
        if each.kinds
    }
    return create_model(name, __base__=base, __module__=base.__module__, __doc__=text, **fields)


def in_json(text: str) -> str:
    """Return a text in which Python's constants are spelt as in JSON."""
    words = re.sub(r"\b(None|True|False)\b", lambda found: _JSON[found[0]], text)
    return re.sub(r"(?<=\. )null\b", "Null", words)


def _annotation(kind: Kind) -> Any:
    match kind:
        case Number():
            return _number(kind)
        case Choice(words):
            # typing caches unions by equality, and literals in another order are equal: the metadata keeps the order
            return Annotated[Literal[words], words]
        case Flag():
            return StrictBool
        case Null():
            return None
        case Matrix(entries, most_rows):
            return conlist(conlist(_number(entries), min_length=1, max_length=most_rows), max_length=most_rows)


def _number(kind: Number) -> Any:
    bounds: Any = {"ge": kind.least, "gt": kind.above, "le": kind.most, "lt": kind.below}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    if kind.integer:
        return Annotated[int, Field(strict=True, **given)]
    return Annotated[float, Field(strict=True, allow_inf_nan=False, **given)]
