"""Errors as responses: RFC 9457 problem documents.

Only this module maps errors of the service to status codes.
"""

import math
import re
import time
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

import pydantic_core
import structlog
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from manylabel_service.errors import InvalidField, ServiceError, StorageError
from manylabel_service.redaction import redacted

MEDIA_TYPE = "application/problem+json"

OPEN_INFERENCE = re.compile("/v2(/|$)")
"""Paths of the Open Inference Protocol, which has its own error format."""

STATUS_AND_TITLE: Mapping[str, tuple[int, str]] = {
    "malformed_request": (400, "Malformed HTTP request"),
    "malformed_json": (400, "Malformed JSON"),
    "bad_request": (400, "Bad request"),
    "key_required": (401, "Key required"),
    "key_invalid": (401, "Key invalid"),
    "scope_missing": (403, "Scope missing"),
    "model_not_allowed": (403, "Model not allowed"),
    "learning_not_allowed": (403, "Learning not allowed"),
    "beyond_own_key": (403, "Beyond own key"),
    "origin_not_allowed": (403, "Origin not allowed"),
    "not_found": (404, "Nothing at this address"),
    "model_not_found": (404, "Model not found"),
    "label_not_found": (404, "Label not found"),
    "prediction_not_found": (404, "Prediction not found"),
    "position_not_found": (404, "Position not found"),
    "snapshot_not_found": (404, "Snapshot not found"),
    "key_not_found": (404, "Key not found"),
    "webhook_not_found": (404, "Webhook not found"),
    "job_not_found": (404, "Job not found"),
    "version_not_found": (404, "Version not found"),
    "dataset_not_found": (404, "Dataset not found"),
    "audit_not_kept": (404, "Audit not kept"),
    "method_not_allowed": (405, "Method not allowed"),
    "request_timeout": (408, "Request timeout"),
    "stream_idle": (408, "Stream idle"),
    "snapshot_exists": (409, "Snapshot exists"),
    "snapshot_needed": (409, "Snapshot needed"),
    "model_exists": (409, "Model exists"),
    "model_follows": (409, "Model follows another"),
    "model_has_followers": (409, "Model has followers"),
    "model_is_trained": (409, "Model is trained by jobs"),
    "model_is_online": (409, "Model learns online"),
    "version_served": (409, "Version served"),
    "version_differs": (409, "Version differs"),
    "no_version_served": (409, "No version served"),
    "dataset_exists": (409, "Dataset exists"),
    "dataset_in_use": (409, "Dataset in use"),
    "job_ended": (409, "Job ended"),
    "job_not_retryable": (409, "Job neither failed nor cancelled"),
    "idempotency_in_flight": (409, "Request with this idempotency key in flight"),
    "label_exists": (409, "Label exists"),
    "labels_declared": (409, "Labels declared"),
    "prediction_labelled": (409, "Prediction already labelled"),
    "prediction_expired": (410, "Prediction expired"),
    "before_history": (410, "Before the history"),
    "body_too_large": (413, "Body too large"),
    "batch_too_large": (413, "Batch too large"),
    "unsupported_media_type": (415, "Unsupported media type"),
    "host_not_allowed": (421, "Host not allowed"),
    "invalid_request": (422, "Invalid request"),
    "invalid_dataset": (422, "Invalid dataset"),
    "too_many_refused": (422, "Too many lines refused"),
    "idempotency_key_reused": (422, "Idempotency key reused"),
    "predictions_full": (429, "Too many stored predictions"),
    "rate_limited": (429, "Rate limited"),
    "too_many_attempts": (429, "Too many attempts"),
    "queue_full": (429, "Queue full"),
    "jobs_full": (429, "Too many jobs"),
    "headers_too_large": (431, "Headers too large"),
    "internal_error": (500, "Internal error"),
    "version_damaged": (500, "Version damaged"),
    "model_damaged": (500, "Model damaged"),
    "history_damaged": (500, "History damaged"),
    "storage_damaged": (500, "Storage damaged"),
    "not_ready": (503, "Not ready"),
    "release_too_old": (503, "Release too old"),
    "replay_mismatch": (503, "Replay mismatch"),
    "server_busy": (503, "Server busy"),
    "storage_unavailable": (503, "Storage unavailable"),
    "limit_exceeded": (507, "Limit exceeded"),
    "storage_full": (507, "Storage full"),
}
"""HTTP status and title of each error code."""

ANYWHERE = ("malformed_request", "request_timeout", "headers_too_large", "server_busy", "internal_error")
"""Error codes of any request."""

STORAGE_RETRY_AFTER_SECONDS = 5.0

CHALLENGES = 'Bearer realm="ManyLabel", Basic realm="ManyLabel", charset="UTF-8"'
"""Ways to send a key, for the header WWW-Authenticate."""

LOG_SECONDS = 1.0
"""Minimum seconds between two log lines about one code, because every request may fail for the same reason."""

_logged_at: dict[str, float] = {}
"""Time of the last log line about details that a response omits, by code."""

log = structlog.get_logger()


class WrongPlace(BaseModel):
    """Invalid field of the body, header or parameter."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    detail: str
    """Allowed values."""
    pointer: str | None = None
    """JSON pointer of the field in the body (RFC 6901)."""
    header: str | None = None
    """Name of the header."""
    parameter: str | None = None
    """Name of the query parameter."""


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

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


class InferenceError(BaseModel):
    """An error by the Open Inference Protocol."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    error: str
    """The message says what happened to this request, and what to do about it."""


class Problem(Exception):
    """Exception that ends a request with an error response.

    Parameters
    ----------
    code : one of `STATUS_AND_TITLE`.
    detail : what happened to this request, and what to do about it.
    errors : the places that are wrong, each ``{"pointer": JSON pointer into the body, "detail": ...}``, or
        with ``"header"`` or ``"parameter"`` instead of ``"pointer"``.
    headers : further headers of the answer.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status, self.title = STATUS_AND_TITLE[code]
        self.detail = detail
        self.errors = errors
        self.headers = headers


def invalid(path: Sequence[str | int], detail: str) -> Problem:
    """Return the problem of a body with one invalid field."""
    return Problem("invalid_request", sentence(path, detail), [{"pointer": pointer(path), "detail": detail}])


def problem_of(error: ServiceError) -> Problem:
    """Return the response to an error of the service."""
    if isinstance(error, InvalidField):
        return invalid(error.path, error.detail)
    # Damage is permanent, and so is an error that an operator has to fix before restarting the server.
    heals = isinstance(error, StorageError) and STATUS_AND_TITLE[error.code][0] != 500 and getattr(error, "heals", True)
    seconds = getattr(error, "retry_after", STORAGE_RETRY_AFTER_SECONDS if heals else None)
    headers = None if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}
    if STATUS_AND_TITLE[error.code][0] == 401:
        headers = {"WWW-Authenticate": CHALLENGES}
    answer, text, now = error.answer(), str(error), time.monotonic()
    if answer != text and now - _logged_at.get(error.code, -math.inf) >= LOG_SECONDS:
        _logged_at[error.code] = now
        log.warning("storage_refused", code=error.code, error=text)
    return Problem(error.code, answer, headers=headers)


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
    }


def sentence(path: Sequence[str | int], detail: str) -> str:
    """Return the detail, preceded by its field path."""
    place = pointer(path)
    return f"{place} {detail}" if place else f"the body {detail}"


async def _problem(request: Request, error: Problem) -> Response:
    return problem_response(error, request.scope)


async def _service_error(request: Request, error: ServiceError) -> Response:
    return problem_response(problem_of(error), request.scope)


async def _framework_error(request: Request, error: HTTPException) -> Response:
    """Respond that no route matches; the framework raises nothing else here."""
    if error.status_code != 405:
        return problem_response(Problem("not_found", "there is nothing at this address; see /docs"), request.scope)
    allowed = ", ".join(sorted(_methods_at(request)))
    detail = f"{request.method} is not possible here, only {allowed}"
    return problem_response(Problem("method_not_allowed", detail, headers={"Allow": allowed}), request.scope)


def _methods_at(request: Request) -> set[str]:
    path = request.scope["path"]
    matching = (route for route in request.app.routes if route.path_regex.match(path))
    return {method for route in matching for method in getattr(route, "methods", None) or ()}


Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]

HANDLERS: dict[int | type[Exception], Handler] = {
    Problem: _problem,
    ServiceError: _service_error,
    HTTPException: _framework_error,
}
"""Handlers of the exceptions that endpoints raise."""
