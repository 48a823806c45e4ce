"""GET /v1/audit: who changed, exported or was refused what."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.web.access import needs
from manylabel_service.api.web.parameters import Parameters, each_once, up_to, wrong
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.routes import GuardedRoute, json_answer, problems
from manylabel_service.audit.files import CURSOR, Keep, read_cursor
from manylabel_service.clock import rfc3339

router = APIRouter(route_class=GuardedRoute, tags=["server"])

MAX_LINES = 1_000


def _read_time(value: object) -> object:
    """Return a time as lines of the audit have it."""
    if not isinstance(value, str):
        return value
    try:
        time = datetime.fromisoformat(value)
        return rfc3339(int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError("must be a time, as 2026-11-23T12:00:00Z") from None


_Cursor = Annotated[str, Field(pattern=CURSOR)]


class Audited(Parameters):
    """Which calls are listed."""

    limit: up_to(MAX_LINES) = 100  # type: ignore[valid-type]
    """Maximum number of calls listed."""
    key: Annotated[str, Field(max_length=256)] | None = None
    """Only calls with the key of this id are listed."""
    model: Annotated[str, Field(max_length=256)] | None = None
    """Only calls about this model are listed."""
    since: Annotated[str, BeforeValidator(_read_time)] | None = None
    """Only calls that ended at this time or later are listed."""
    before: _Cursor | None = None
    """Only calls older than this place are listed: `before` of an earlier answer."""
    after: _Cursor | None = None
    """Only calls written after this place are listed, the oldest first: `after` of an earlier answer."""


@router.get(
    "/v1/audit",
    summary="List who changed, exported or was refused what",
    response_model=schemas.AuditPage,
    responses=problems("audit_not_kept", "invalid_request"),
    dependencies=[Depends(each_once)],
)
@needs("admin")
async def read_audit(request: Request, context: ContextOf, query: Annotated[Audited, Query()]) -> Response:
    """Lists calls from the audit file of this server, the newest first, or those that came after a place, the oldest
    first. Other servers have files of their own. An answer may have fewer calls than asked for and yet say that there
    are more: of a large file it looks at a part."""
    audit = context.audit
    if audit is None or (files := audit.files) is None:
        raise Problem("audit_not_kept", "this server keeps no audit that can be read; its operator can set audit_file")
    if query.before is not None and query.after is not None:
        raise wrong("before", "must not be given together with after")
    keep = _wanted(query, request.scope["access"])
    if query.after is not None:
        page = await audit.read_on(files, read_cursor(query.after), keep, query.limit)
    else:
        before = None if query.before is None else read_cursor(query.before)
        page = await audit.read_back(files, before, keep, query.limit)
    before_text = None if page.before is None else str(page.before)
    return json_answer({"calls": page.lines, "before": before_text, "after": str(page.after)})


def _wanted(query: Audited, access: Any) -> Keep:
    """Return whether a line is asked for, and one that the caller may see: those about its models."""

    def keep(line: dict[str, Any]) -> bool:
        return (
            (query.key is None or line.get("key_id") == query.key)
            and (query.model is None or line.get("model") == query.model)
            and (query.since is None or str(line.get("time")) >= query.since)
            and access.may_see(line.get("model") or line.get("dataset") or "")
        )

    return keep
