"""Middleware around every request: its id, span, metrics, log line, and the response to unexpected errors."""

import errno
import re
import time
from random import getrandbits

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from manylabel_service.api.web.origins import OriginCheck
from manylabel_service.api.web.problems import Problem, problem_of, problem_response
from manylabel_service.audit.call import call_of
from manylabel_service.audit.log import AuditLog
from manylabel_service.errors import DISK_FULL, StorageFull
from manylabel_service.telemetry.metrics import Telemetry

log = structlog.get_logger()

_SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Security headers of every response."""
_POLICY_OF_DOCS = (
    b"default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"connect-src 'self'; frame-ancestors 'none'"
)
_HEADERS_OF_DOCS = (*HEADERS[:-1], (b"content-security-policy", _POLICY_OF_DOCS))
"""Headers of FastAPI's page, which has inline scripts and styles, and loads nothing else."""
PAGE = (
    *HEADERS[:3],
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)
"""Headers of the files of the web UI at /, which replace `HEADERS` if the route sets ``scope["security_headers"]``. The
route also sets their Cache-Control."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CLIENT_GONE = 499
_CREATED = frozenset({201, 202})
"""Statuses of responses with a Location."""


class RequestMiddleware:
    """Outermost middleware of the application.

    It adds the request id and security headers to every response, and handles HEAD as GET without a body. The id of a
    request is its X-Request-ID, if valid, or a new id. It is in ``scope["request_id"]``, the response header, problem
    documents and log lines. Without `audit`, no call is audited; without `origins`, all hosts and pages are accepted.
    """

    def __init__(
        self,
        app: ASGIApp,
        telemetry: Telemetry,
        log_requests: bool,
        audit: AuditLog | None = None,
        origins: OriginCheck | None = None,
    ) -> None:
        self._app = app
        self._audit = audit
        self._origins = origins
        self._telemetry = telemetry
        self._log_requests = log_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        scope["request_id"] = request_id.decode()
        usual = _HEADERS_OF_DOCS if scope["path"] == "/docs" else HEADERS
        is_head = scope["method"] == "HEAD"
        inner = {**scope, "method": "GET"} if is_head else scope
        status, created = 0, None
        self._telemetry.in_progress += 1

        async def send_with_id(message: Message) -> None:
            nonlocal status, created
            if message["type"] == "http.response.start":
                status = message["status"]
                if status in _CREATED:
                    created = next((value for name, value in message["headers"] if name == b"location"), None)
                message["headers"] = [
                    *message["headers"],
                    *inner.get("security_headers", usual),
                    (b"x-request-id", request_id),
                ]
            await send(message)
            if is_head:
                await send({"type": "http.response.body"})
                raise ClientDisconnect  # so that the endpoint stops producing the body

        try:
            problem = None if self._origins is None else self._origins.refusal(inner)
            app = self._app if problem is None else problem_response(problem, inner)
            await app(inner, receive, send_with_id)
        except ClientDisconnect:
            status = status or _CLIENT_GONE
        except Exception as error:
            log.exception("request_failed", request_id=scope["request_id"], path=scope["path"])
            if status:  # the response has begun, so it can only be aborted
                raise
            await problem_response(_broken(error, scope), scope)(scope, receive, send_with_id)
        finally:
            self._telemetry.in_progress -= 1
            self._account(scope, inner, status, created, time.perf_counter() - started)

    def _account(self, scope: Scope, routed: Scope, status: int, created: bytes | None, seconds: float) -> None:
        handler = getattr(routed.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._telemetry.requested(handler, method, status, seconds)
        if (code := routed.get("problem") or scope.get("problem")) is not None:
            self._telemetry.answered_problem(code)
        if self._audit is not None:
            call = call_of(routed, method, status, None if created is None else created.decode("latin-1"))
            if call is not None:
                self._audit.add(call)
        if self._log_requests:
            log.debug(
                "request",
                request_id=scope["request_id"],
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=round(seconds, 6),
            )


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            sane: bytes = value
            return sane
    return b"%016x" % getrandbits(64)  # an id is not secret, so it needs no random bytes from the system


def _broken(error: Exception, scope: Scope) -> Problem:
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        detail = "the server has reached its limit of open files and connections; retry soon"
        return Problem("server_busy", detail, headers={"Retry-After": "1"})
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return problem_of(StorageFull(str(error)))
    return Problem("internal_error", f"internal error; see the server's log for request id {scope['request_id']}")
