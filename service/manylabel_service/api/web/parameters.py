"""Query parameters: each at most once, except lists, and no unknown ones."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, TypeVar, get_origin
from urllib.parse import parse_qsl

from fastapi import Depends
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError
from starlette.requests import Request

from manylabel_service.api.web.problems import Problem, invalid
from manylabel_service.api.web.validation import words
from manylabel_service.documented import Documented

MAX_PARAMETERS = 20

P = TypeVar("P", bound="Parameters")


class Parameters(Documented):
    """Base of the query parameters of a call; unknown ones are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def from_query(model: type[Parameters]) -> Any:
    """Return the FastAPI dependency that sets the query parameters of an endpoint, ``query: Annotated[M,
    from_query(M)]``. It raises the errors of `read_parameters`."""

    async def read(request: Request) -> Parameters:  # a coroutine, because FastAPI runs plain functions in a thread
        return read_parameters(request, model)

    return Depends(read)


def read_parameters(request: Request, model: type[P]) -> P:
    """Return the query parameters of a request. Raises a Problem invalid_request."""
    values = _values(request, _lists(model))
    try:
        return model.model_validate(values) if values else _defaults(model)
    except ValidationError as error:
        known = [field.alias or name for name, field in model.model_fields.items()]
        raise _problem(error.errors(), known) from error


def refuse_parameters(document: Any, model: type[Parameters]) -> None:
    """Reject a body with a field that is a query parameter. Raises a Problem that says so."""
    for name in model.model_fields:
        if isinstance(document, dict) and name in document:
            detail = f"is a query parameter, not a field of the body: ?{name}=..."
            raise invalid((name,), detail)


def _problem(errors: Sequence[Any], known: Sequence[str]) -> Problem:
    """Return the problem for the first of pydantic's errors in the parameters of a call."""
    first = errors[0]
    name = str(first["loc"][0])  # followed, for a list, by the index
    if first["type"] == "extra_forbidden":
        return wrong(name[:100], f"is not a parameter of this call, which takes {', '.join(known)}")
    return wrong(name, words(first))


def wrong(name: str, detail: str) -> Problem:
    """Return the problem of a parameter."""
    return Problem("invalid_request", f"parameter {name!r} {detail}", [{"parameter": name, "detail": detail}])


def described(model: type[Parameters]) -> list[dict[str, Any]]:
    """Return the query parameters of a call for the description of its operation, without defaults that are null."""
    found = model.model_json_schema()
    return [
        {
            "name": name,
            "in": "query",
            "required": name in found.get("required", ()),
            "description": schema.pop("description"),
            "schema": {key: value for key, value in schema.items() if value is not None},
        }
        for name, schema in found["properties"].items()
    ]


@cache
def _defaults(model: type[P]) -> P:
    """Return the default parameters of a call; raise ValidationError if a parameter is required."""
    return model()


@cache
def _lists(model: type[Parameters]) -> frozenset[str]:
    """Return the names of the parameters that may be repeated."""
    fields = model.model_fields.items()
    return frozenset(field.alias or name for name, field in fields if get_origin(field.annotation) is list)


def _values(request: Request, lists: frozenset[str]) -> dict[str, Any]:
    text: bytes = request.scope["query_string"]
    values: dict[str, Any] = {}
    for name, value in _pairs(text.decode("latin-1")) if text else ():
        if name in lists:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise wrong(name[:100], "must be sent once")
        else:
            values[name] = value
    return values


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise Problem("invalid_request", f"the query string cannot be read: {error}") from error


def _read_flag(value: object) -> object:
    if isinstance(value, str) and value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value


Flag = Annotated[bool, BeforeValidator(_read_flag)]
"""``true`` or ``false``."""


def _read_number(value: object) -> object:
    if isinstance(value, str) and (not (value.isascii() and value.isdecimal() and len(value) <= 15) or int(value) < 1):
        raise ValueError("must be an integer, at least 1 and below 1e15")
    return value


Number = Annotated[int, Field(ge=1, lt=10**15), BeforeValidator(_read_number)]
"""Number of a line or of a version, from 1."""


def up_to(most: int) -> Any:
    """Return the type of a parameter that is an integer from 1 to `most`."""

    def read(value: object) -> object:
        if isinstance(value, str) and (not re.fullmatch("[0-9]{1,9}", value) or not 1 <= int(value) <= most):
            raise ValueError(f"must be an integer from 1 to {most}")
        return value

    return Annotated[int, Field(ge=1, le=most), BeforeValidator(read)]


def one_of(choices: Sequence[str]) -> Any:
    """Return the type of a parameter that has one of these values."""

    def read(value: object) -> object:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return value

    return Annotated[str, BeforeValidator(read), Field(json_schema_extra={"enum": list(choices)})]
