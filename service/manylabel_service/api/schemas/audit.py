"""Responses about the audit log."""

from manylabel_service.api.schemas.base import ResponseModel


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
    """Position of the change in the log of the model; of a stream, the last one."""
    lines: int | None
    """Number of lines that a stream has learnt."""


class AuditPage(ResponseModel):
    """Page of the audit log."""

    calls: list[AuditedCall]
    before: str | None
    """Value of the parameter `before` for older calls; null after the oldest call."""
    after: str
    """Value of the parameter `after` for later calls."""
