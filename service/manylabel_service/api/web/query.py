"""Parameters in the query string of an address."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from manylabel_service.api.web.problems import Problem
from manylabel_service.storage import position_key

MAX_POSITION_CHARACTERS = 64
MAX_PARAMETERS = 20

Read = Callable[[str], Any]


def parameters(request: Request, known: Mapping[str, Read]) -> dict[str, Any]:
    """The parameters that a request came with; those it lacks are left out.

    Raises
    ------
    Problem
        invalid_request: one is not known here, is given twice, or has a value that it cannot have.
    """
    text: bytes = request.scope["query_string"]
    return _parsed(text.decode("latin-1"), known) if text else {}


def _parsed(text: str, known: Mapping[str, Read]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in _pairs(text):
        if name not in known:
            raise wrong(name[:100], f"is not a parameter of this call, which takes {' and '.join(known)}")
        if name in values:
            raise wrong(name, "must be given once")
        try:
            values[name] = known[name](value)
        except ValueError as error:
            raise wrong(name, str(error)) from error
    return values


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise Problem("invalid_request", f"the query string cannot be read: {error}") from error


def wrong(name: str, detail: str) -> Problem:
    """The problem of a parameter."""
    return Problem("invalid_request", f"parameter {name!r} {detail}", [{"parameter": name, "detail": detail}])


def read_flag(value: str) -> bool:
    """``true`` or ``false``."""
    if value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value == "true"


def read_position(value: str) -> str:
    """A position, as an answer of this server had it."""
    try:
        if len(value) <= MAX_POSITION_CHARACTERS:
            position_key(value)
            return value
    except ValueError:
        pass
    raise ValueError("must be a position that an answer of this model had")


def read_line_number(value: str) -> int:
    """A line's number, from 1."""
    if not (value.isascii() and value.isdecimal() and len(value) <= 15) or int(value) < 1:
        raise ValueError("must be an integer, at least 1 and below 1e15")
    return int(value)


def described(name: str, text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter in the description of an operation."""
    return {"name": name, "in": "query", "required": False, "description": text, "schema": dict(schema)}
