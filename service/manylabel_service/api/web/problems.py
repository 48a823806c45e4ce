"""Errors as responses: RFC 9457 problem documents.

Only this module maps errors of the service to status codes.
"""

import math
import re
import time
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

import pydantic_core
import structlog
from pydantic import ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from manylabel_service.documented import Documented
from manylabel_service.errors import CODES, InvalidField, Kind, ServiceError, StorageError
from manylabel_service.redaction import redacted

MEDIA_TYPE = "application/problem+json"

OPEN_INFERENCE = re.compile("/v2(/|$)")
"""Paths of the Open Inference Protocol, which has its own error format."""

_STATUS: Mapping[Kind, int] = {
    "unauthenticated": 401,
    "forbidden": 403,
    "missing": 404,
    "conflict": 409,
    "gone": 410,
    "invalid": 422,
    "busy": 429,
    "broken": 500,
    "unavailable": 503,
    "full": 507,
}

_OF_HTTP = {
    400: ("malformed_request", "malformed_json", "bad_request"),
    403: ("learning_not_allowed", "origin_not_allowed"),
    404: ("not_found",),
    405: ("method_not_allowed",),
    408: ("request_timeout", "stream_idle"),
    413: ("body_too_large", "batch_too_large"),
    415: ("unsupported_media_type",),
    421: ("host_not_allowed",),
    422: ("too_many_refused",),
    431: ("headers_too_large",),
    503: ("server_busy",),
}
"""Codes of errors that only HTTP has, by status."""
_TITLES = {
    "malformed_request": "Malformed HTTP request",
    "malformed_json": "Malformed JSON",
    "not_found": "Nothing at this address",
    "too_many_refused": "Too many lines refused",
}
"""Titles that differ from the code."""

STATUS_AND_TITLE: Mapping[str, tuple[int, str]] = {
    **{code: (_STATUS[kind], title) for code, (kind, title) in CODES.items()},
    **{
        code: (status, _TITLES.get(code, code.replace("_", " ").capitalize()))
        for status, codes in _OF_HTTP.items()
        for code in codes
    },
}
"""HTTP status and title of each error code."""

ANYWHERE = ("malformed_request", "request_timeout", "headers_too_large", "server_busy", "internal_error")
"""Error codes of any request."""

STORAGE_RETRY_AFTER_SECONDS = 5.0

CHALLENGES = 'Bearer realm="ManyLabel", Basic realm="ManyLabel", charset="UTF-8"'
"""Ways to send a key, for the header WWW-Authenticate."""

FIXED = "no setting changes this limit"
"""Part of a message about a limit that is a constant."""

LOG_SECONDS = 1.0
"""Minimum seconds between two log lines about the same code, because every request may fail for the same reason."""

_logged_at: dict[str, float] = {}
"""Time of the last log line about details that a response omits, by code."""

log = structlog.get_logger()


class WrongPlace(Documented):
    """Invalid field of the body, header or parameter."""

    model_config = ConfigDict(extra="forbid")

    detail: str
    """Allowed values."""
    pointer: str | None = None
    """JSON pointer of the field in the body (RFC 6901)."""
    header: str | None = None
    """Name of the header."""
    parameter: str | None = None
    """Name of the query parameter."""


class Compiling(Documented):
    """Progress of the compilation of functions, on the first start on a machine."""

    model_config = ConfigDict(extra="forbid")

    done: int
    """Number of functions that are compiled."""
    total: int
    """Number of functions to compile, including those that are compiled."""
    seconds_left: float | None
    """Estimated seconds until all are compiled; null before there is an estimate."""


class ProblemDocument(Documented):
    """An error (RFC 9457)."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str
    """Explanation of the error in this request, with the remedy."""
    code: str
    """Error code, for programs."""
    instance: str
    """Path of the request."""
    request_id: str
    """Id of the request, as in the header X-Request-ID and in the server log."""
    errors: list[WrongPlace]
    """Invalid fields, headers and parameters, at most ten."""
    compiling: Compiling | None = None
    """Progress of the compilation that the request must wait for; omitted if it waits for none."""


class InferenceError(Documented):
    """An error in the format of the Open Inference Protocol."""

    model_config = ConfigDict(extra="forbid")

    error: str
    """Message with the cause and the remedy."""


class Problem(Exception):
    """Exception that ends a request with an error response.

    Parameters
    ----------
    code : one of `STATUS_AND_TITLE`.
    detail : cause and remedy of the error.
    errors : invalid fields, each ``{"pointer": JSON pointer into the body, "detail": ...}``, or with ``"header"`` or
        ``"parameter"`` instead of ``"pointer"``.
    headers : additional headers of the response.
    compiling : progress of the compilation that the request must wait for, as in `Compiling`.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        compiling: Mapping[str, float | None] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status, self.title = STATUS_AND_TITLE[code]
        self.detail = detail
        self.errors = errors
        self.headers = headers
        self.compiling = compiling


def batch_too_large(detail: str) -> Problem:
    """Return the problem of a request above a constant limit of its items or of its response."""
    return Problem("batch_too_large", f"{detail}; {FIXED}")


def invalid(path: Sequence[str | int], detail: str) -> Problem:
    """Return the problem of a body with one invalid field."""
    return Problem("invalid_request", sentence(path, detail), [{"pointer": pointer(path), "detail": detail}])


def problem_of(error: ServiceError) -> Problem:
    """Return the response to an error of the service."""
    if isinstance(error, InvalidField):
        return invalid(error.path, error.detail)
    # Damage is permanent, like an error that an operator must fix before restarting the server.
    heals = isinstance(error, StorageError) and STATUS_AND_TITLE[error.code][0] != 500 and getattr(error, "heals", True)
    seconds = getattr(error, "retry_after", STORAGE_RETRY_AFTER_SECONDS if heals else None)
    headers = None if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}
    if STATUS_AND_TITLE[error.code][0] == 401:
        headers = {"WWW-Authenticate": CHALLENGES}
    answer, text, now = error.answer(), str(error), time.monotonic()
    if answer != text and now - _logged_at.get(error.code, -math.inf) >= LOG_SECONDS:
        _logged_at[error.code] = now
        log.warning("storage_refused", code=error.code, error=text)
    compiling = getattr(error, "compiling", None)
    return Problem(error.code, answer, headers=headers, compiling=None if compiling is None else compiling.to_json())


def pointer(path: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a path, outermost key first."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def problem_response(problem: Problem, scope: MutableMapping[str, Any]) -> Response:
    """Return the error response to the request of `scope`, and note the code for the metrics.

    The response is a problem document, or the error of the protocol of the path.
    """
    scope["problem"] = problem.code
    if OPEN_INFERENCE.match(scope["path"]):
        content = pydantic_core.to_json({"error": redacted(problem.detail)})
        return Response(content, problem.status, problem.headers, "application/json")
    return Response(
        pydantic_core.to_json(problem_document(problem, scope)), problem.status, problem.headers, MEDIA_TYPE
    )


def problem_document(problem: Problem, scope: Scope) -> dict[str, Any]:
    """Return a problem as a value of JSON, for the request of `scope`."""
    return {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status,
        "detail": redacted(problem.detail),
        "code": problem.code,
        "instance": redacted(quote(scope["path"])),
        "request_id": scope.get("request_id", ""),
        "errors": [{name: redacted(text) for name, text in each.items()} for each in problem.errors],
        **({} if problem.compiling is None else {"compiling": problem.compiling}),
    }


def sentence(path: Sequence[str | int], detail: str) -> str:
    """Return the detail, preceded by its field path."""
    place = pointer(path)
    return f"{place} {detail}" if place else f"the body {detail}"


def no_route(error: HTTPException, scope: Scope) -> Problem:
    """Return the problem of a request that no route matches; the framework raises nothing else."""
    if error.status_code != 405:
        return Problem("not_found", "this path does not exist; see /docs")
    matching = (route for route in scope["app"].routes if route.path_regex.match(scope["path"]))
    methods = {method for route in matching for method in getattr(route, "methods", None) or ()}
    allowed = ", ".join(sorted(methods))
    detail = f"{scope['method']} is not allowed for this path, only {allowed}"
    return Problem("method_not_allowed", detail, headers={"Allow": allowed})
