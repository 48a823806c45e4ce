"""Audit of requests: which requests are logged, and the line of each."""

import time

from starlette.types import Scope

from manylabel_service.audit.call import Call
from manylabel_service.redaction import redacted

_CHANGING = frozenset({"learn", "train", "export", "admin"})
"""Scopes of calls that change or export something."""
_REFUSED = frozenset({401, 403})


def note(
    scope: Scope,
    *,
    position: str | None = None,
    lines: int = 0,
    model: str | None = None,
    dataset: str | None = None,
) -> None:
    """Remember the fields of the request's line in the audit log.

    Parameters
    ----------
    position : in the log of the model, of what it changed last.
    lines : that a stream has learnt besides those noted before.
    model, dataset : that it is about, where the address does not name it.
    """
    noted = scope.setdefault("audit", {})
    if position is not None:
        noted["position"] = position
    if lines:
        noted["lines"] = noted.get("lines", 0) + lines
    if model is not None:
        noted["model"] = model
    if dataset is not None:
        noted["dataset"] = dataset


def call_of(scope: Scope, method: str, status: int, created: str | None) -> Call | None:
    """Return the audit line of a completed request; None if it is not audited.

    Parameters
    ----------
    scope : of the request, after it was routed.
    method : one that there is, or "other".
    created : the address of what it made, if it made something.
    """
    route = scope.get("route")
    if status not in _REFUSED and _CHANGING.isdisjoint(getattr(route, "scopes", ())):
        return None
    access, client = scope.get("access"), scope.get("client")
    return Call(
        time.time(),
        None if access is None else access.key_id,
        None if client is None else client[0],
        scope["request_id"],
        method,
        None if route is None else route.path,
        redacted(created or scope["path"]),
        status,
        scope.get("problem"),
        **scope.get("audit", {}),
    )
