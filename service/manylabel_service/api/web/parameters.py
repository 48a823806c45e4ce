"""Query parameters: each at most once, and no unknown ones."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api.web.problems import Problem, invalid, problem_response
from manylabel_service.api.web.validation import words

MAX_PARAMETERS = 20

P = TypeVar("P", bound="Parameters")


class Parameters(BaseModel):
    """Base of the query parameters of a call; unknown ones are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def read_parameters(request: Request, model: type[P]) -> P:
    """Return the query parameters of a request. Raises a Problem invalid_request."""
    values = _values(request)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        known = [field.alias or name for name, field in model.model_fields.items()]
        raise _problem(error.errors(), known) from error


def refuse_parameters(document: Any, model: type[Parameters]) -> None:
    """Reject a body with a field that is a query parameter. Raises a Problem that says so."""
    for name in model.model_fields:
        if isinstance(document, dict) and name in document:
            detail = f"is not a field of the body, but a parameter of the address: ?{name}=..."
            raise invalid((name,), detail)


def each_once_but(*repeated: str) -> Callable[[Request], Awaitable[None]]:
    """Return the check of a query string that rejects a duplicate parameter, except these; FastAPI takes the last one.
    It raises like `read_parameters`."""

    async def check(request: Request) -> None:
        _values(request, repeated)

    return check


async def answer_wrong_parameters(request: Request, error: RequestValidationError) -> Response:
    """Respond to a validation error of FastAPI, which reads parameters only."""
    operation = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    known = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"]
    return problem_response(_problem(error.errors(), known), request.scope)


def _problem(errors: Sequence[Any], known: Sequence[str]) -> Problem:
    """Return the problem of the first of some errors of pydantic's, of a call with these parameters."""
    first = errors[0]
    name = next(str(part) for part in first["loc"] if part != "query")  # followed, for a list, by the index
    if first["type"] == "extra_forbidden":
        return wrong(name[:100], f"is not a parameter of this call, which takes {', '.join(known)}")
    return wrong(name, words(first))


def wrong(name: str, detail: str) -> Problem:
    """Return the problem of a parameter."""
    return Problem("invalid_request", f"parameter {name!r} {detail}", [{"parameter": name, "detail": detail}])


def described(model: type[Parameters]) -> list[dict[str, Any]]:
    """Return the query parameters of a call for the description of its operation, if FastAPI does not read them
    itself."""
    properties = model.model_json_schema()["properties"]
    return [
        {"name": name, "in": "query", "required": False, "description": schema.pop("description"), "schema": schema}
        for name, schema in properties.items()
    ]


def _values(request: Request, repeated: Sequence[str] = ()) -> dict[str, str]:
    text: bytes = request.scope["query_string"]
    values: dict[str, str] = {}
    for name, value in _pairs(text.decode("latin-1")) if text else ():
        if name in values and name not in repeated:
            raise wrong(name[:100], "must be given once")
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
