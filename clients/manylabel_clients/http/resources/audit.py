"""Audit log of a server: changes, exports and rejected calls."""

from __future__ import annotations

from dataclasses import dataclass

from manylabel_clients.http.resources.resource import Resource, call, with_query
from manylabel_clients.http.transport.exchange import Exchange


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """Call that changed or exported something, or was rejected for lack of a key or scope."""

    time: str
    """End of the call (RFC 3339, UTC)."""
    key_id: str | None
    address: str | None
    """Network address of the peer, or of the client that a trusted proxy reports."""
    request_id: str
    method: str
    route: str | None
    """Path template, such as ``/v1/models/{name}/update``."""
    model: str | None
    dataset: str | None
    target: str | None
    """Job, key, snapshot or version of the call."""
    status: int
    code: str | None
    """Error code; None if the call succeeded."""
    position: str | None
    """Log position of the change."""
    lines: int | None
    """Number of lines that a stream has learnt."""


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Page of the audit log, with its cursors."""

    calls: list[AuditedCall]
    before: str | None
    """Value of `before` for older calls; None after the oldest call."""
    after: str
    """Value of `after` for later calls."""


class AuditCalls(Resource):
    """Calls about the audit of a server."""

    @call
    def audit(
        self,
        *,
        limit: int | None = None,
        key: str | None = None,
        model: str | None = None,
        since: str | None = None,
        before: str | None = None,
        after: str | None = None,
    ) -> Exchange[AuditPage]:
        """Return a page of the audit, the newest call first; with `after`, the calls after an earlier page, the
        oldest first."""
        path = with_query("/v1/audit", limit=limit, key=key, model=model, since=since, before=before, after=after)
        return (yield from self._get(path, AuditPage))
