"""Answers about the audit."""

from manylabel_service.api.schemas.base import ResponseModel


class AuditedCall(ResponseModel):
    """A call that changed or exported something, or was refused because it had no valid key or no scope."""

    time: str
    """The call ended then."""
    key_id: str | None
    """The id of the key that it came with; null without one."""
    address: str | None
    """The network address that it came from, or that a trusted balancer says it came from."""
    request_id: str
    """The id is that of the header X-Request-ID."""
    method: str
    route: str | None
    """The template of its address, as in the OpenAPI description; null where nothing is."""
    model: str | None
    dataset: str | None
    target: str | None
    """The job, the key, the snapshot or the version that it was about."""
    status: int
    code: str | None
    """The code of the error that it was answered; null if it succeeded."""
    position: str | None
    """The position in the log of the model that its change has; of a stream, the last one."""
    lines: int | None
    """The lines that a stream has learnt."""


class AuditPage(ResponseModel):
    """A part of the audit."""

    calls: list[AuditedCall]
    before: str | None
    """The parameter `before` leads on to older calls with this value; null if there are none."""
    after: str
    """The parameter `after` lists with this value what comes later."""
