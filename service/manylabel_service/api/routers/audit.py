"""GET /v1/audit: the audit log."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api.context import ContextOf
from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.api.web.parameters import Parameters, from_query, up_to, wrong
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.routes import Router, json_response
from manylabel_service.audit.files import CURSOR, Keep, read_cursor
from manylabel_service.clock import rfc3339

router = Router("server")

MAX_LINES = 1_000


def _read_time(value: object) -> object:
    """Return a time in the format of the audit log."""
    if not isinstance(value, str):
        return value
    try:
        time = datetime.fromisoformat(value)
        return rfc3339(int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError("must be a time, such as 2026-11-23T12:00:00Z") from None


_Cursor = Annotated[str, Field(pattern=CURSOR)]


class Audited(Parameters):
    """Parameters of the list."""

    limit: up_to(MAX_LINES) = 100  # type: ignore[valid-type]
    """Maximum number of calls listed."""
    key: Annotated[str, Field(max_length=256)] | None = None
    """Id of the key of the listed calls."""
    model: Annotated[str, Field(max_length=256)] | None = None
    """Model of the listed calls."""
    since: Annotated[str, BeforeValidator(_read_time)] | None = None
    """Earliest end of the listed calls."""
    before: _Cursor | None = None
    """Lists only older calls; the value of `before` in an earlier response."""
    after: _Cursor | None = None
    """Lists only later calls, oldest first; the value of `after` in an earlier response."""


class AuditedCall(ResponseModel):
    """Call that changed or exported something, or was rejected because it had no valid key or lacked a scope."""

    time: str
    """End of the call (RFC 3339)."""
    key_id: str | None
    """Id of the key; null without one."""
    address: str | None
    """Network address of the peer, or of the client that a trusted proxy reports."""
    request_id: str
    """Id of the request, as in the header X-Request-ID."""
    method: str
    route: str | None
    """Path template, as in the OpenAPI description; null for an unknown path."""
    model: str | None
    dataset: str | None
    target: str | None
    """Job, key, snapshot or version of the call."""
    status: int
    code: str | None
    """Error code; null if the call succeeded."""
    position: str | None
    """Position of the change in the log of the model; for a stream, of the last change."""
    lines: int | None
    """Number of lines that a stream has learnt."""


class AuditPage(ResponseModel):
    """Page of the audit log."""

    calls: list[AuditedCall]
    before: str | None
    """Value of the parameter `before` for older calls; null after the oldest call."""
    after: str
    """Value of the parameter `after` for later calls."""


@router.endpoint("GET /v1/audit", "List calls of the audit log", "admin", AuditPage, ["audit_not_kept"], stored=False)
async def read_audit(request: Request, context: ContextOf, query: Annotated[Audited, from_query(Audited)]) -> Response:
    """Lists calls from the audit file of this server, newest first, or with `after` later calls, oldest first. Other
    servers have their own files. A response reads only a part of a large file, so it can have fewer calls than
    requested even if there are more."""
    audit = context.audit
    if audit is None or (files := audit.files) is None:
        raise Problem("audit_not_kept", "this server has no audit file to read; its operator can set audit_file")
    if query.before is not None and query.after is not None:
        raise wrong("before", "cannot be combined with after")
    keep = _wanted(query, request.scope["access"])
    if query.after is not None:
        page = await audit.read_on(files, read_cursor(query.after), keep, query.limit)
    else:
        before = None if query.before is None else read_cursor(query.before)
        page = await audit.read_back(files, before, keep, query.limit)
    before_text = None if page.before is None else str(page.before)
    # The fields of a line are returned as they are: a newer release may have written it.
    return json_response({"calls": page.lines, "before": before_text, "after": str(page.after)})


def _wanted(query: Audited, access: Any) -> Keep:
    """Return whether a line is a call, matches the request and is about a model that the caller may see."""

    def keep(line: dict[str, Any]) -> bool:
        return (
            AuditedCall.model_fields.keys() <= line.keys()
            and (query.key is None or line.get("key_id") == query.key)
            and (query.model is None or line.get("model") == query.model)
            and (query.since is None or str(line.get("time")) >= query.since)
            and access.may_see(line.get("model") or line.get("dataset") or "")
        )

    return keep
