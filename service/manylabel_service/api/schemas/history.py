"""Lines of the log of a model."""

from typing import Any, Literal

from manylabel_service.api.schemas.base import At, ResponseModel
from manylabel_service.api.schemas.models import GroupOfLabels


class LoggedExample(ResponseModel):
    """An example as it was sent, with text as features."""

    x: dict[str, Any] | list[float | None]
    y: list[str] | dict[str, bool]
    weight: float = 1.0


class LoggedStream(ResponseModel):
    """Where the examples of an update stand in a stream."""

    key: str
    lines: list[int]


class HistoryEntry(At):
    """An entry of the log of a model; which fields there are follows from its kind."""

    time: str
    """When it was appended, by the clock of the store: RFC 3339, UTC."""
    kind: Literal["update", "rollback", "label", "describe", "groups"]
    examples: list[LoggedExample] | None = None
    """Of an update."""
    prediction_ids: list[str] | None = None
    """Of an update with the labels of stored predictions: the id of each."""
    stream: LoggedStream | None = None
    """Of an update that came in a stream."""
    to: str | None = None
    """Of a rollback: the position gone back to. Of a label that was renamed or merged: its new name."""
    label: str | None = None
    """Of a change of a label: its name."""
    change: Literal["renamed", "merged", "retired", "paused", "resumed"] | None = None
    """Of a change of a label."""
    labels: dict[str, dict[str, str | None]] | None = None
    """Of titles, descriptions and URIs: those of each label."""
    groups: list[GroupOfLabels] | None = None
    """Of groups and parents of labels: all groups."""
    parents: dict[str, str] | None = None
    """Of groups and parents of labels: the parent of each child."""
    idempotency_key: str | None = None
    """Of the request, if it had one."""
