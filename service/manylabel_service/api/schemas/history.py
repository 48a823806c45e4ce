"""Lines of the log of a model."""

from typing import Any, Literal

from manylabel_service.api.schemas.base import At, ResponseModel
from manylabel_service.api.schemas.models import GroupOfLabels, PromiseOfModel
from manylabel_service.hosting.examples import Source


class LoggedExample(ResponseModel):
    """Example with its texts as features."""

    x: dict[str, Any] | list[float | None]
    y: list[str] | dict[str, bool]
    weight: float = 1.0
    source: Source = "human"
    ref: str | None = None


class LoggedStream(ResponseModel):
    """Position of the examples of an update in a stream: the key of the stream, and the line number of each example."""

    key: str
    lines: list[int]


class HistoryEntry(At):
    """Entry of the log of a model; its kind determines the fields."""

    time: str
    """Time of the append, by the clock of the store (RFC 3339, UTC)."""
    kind: Literal["update", "rollback", "label", "describe", "groups", "promise"]
    examples: list[LoggedExample] | None = None
    """Examples of an update."""
    prediction_ids: list[str] | None = None
    """Ids of the stored predictions whose labels an update has."""
    stream: LoggedStream | None = None
    """Position of an update in its stream."""
    to: str | None = None
    """Position that a rollback goes back to, or new name of a label that was renamed or merged."""
    label: str | None = None
    """Name of a label that was changed."""
    change: Literal["renamed", "merged", "retired", "paused", "resumed"] | None = None
    """Change of a label."""
    labels: dict[str, dict[str, str | None]] | None = None
    """Titles, descriptions and URIs by label."""
    groups: list[GroupOfLabels] | None = None
    """All groups of labels."""
    parents: dict[str, str] | None = None
    """Parent of each child."""
    promise: PromiseOfModel | None = None
    """Precision promised from this entry on; null for none."""
    idempotency_key: str | None = None
    """Idempotency key of the request, if it had one."""
