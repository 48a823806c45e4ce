"""Audit log of a server: changes, exports and rejected calls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

from manylabel_clients.http.resources.records import from_json
from manylabel_clients.http.resources.requests import Requests
from manylabel_clients.http.transport.exchange import Exchange


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """Call that changed or exported something, or was rejected for lack of a key or scope."""

    time: str
    """When it ended: RFC 3339, UTC."""
    key_id: str | None
    address: str | None
    """Network address of the peer, or of the client that a trusted proxy reports."""
    request_id: str
    method: str
    route: str | None
    """The template of its address, as ``/v1/models/{name}/update``."""
    model: str | None
    dataset: str | None
    target: str | None
    """The job, the key, the snapshot or the version that it was about."""
    status: int
    code: str | None
    """Error code; None if the call succeeded."""
    position: str | None
    """The position in the log of the model that its change has."""
    lines: int | None
    """The lines that a stream has learnt."""


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of the audit log, with its cursors."""

    calls: list[AuditedCall]
    before: str | None
    """Value of `before` for older calls; None if missing."""
    after: str
    """Value of `after` for later calls."""


class AuditRequests(Requests):
    """Requests about the audit of a server."""

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
        given = {"limit": limit, "key": key, "model": model, "since": since, "before": before, "after": after}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        return (yield from self._get(f"/v1/audit?{query}" if query else "/v1/audit", partial(from_json, AuditPage)))
