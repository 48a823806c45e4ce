"""What is known of a version without reading it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class VersionMeta:
    """Where a version comes from.

    Attributes
    ----------
    job : its id. A job makes one version of a model, however often it is published.
    trainer : name of the trainer, as ``"m3l"``.
    params : of the trainer, as it was run.
    rows : examples learnt from.
    measures : on the rows held out; None if there were none.
    created_unix_ms : when it was trained.
    """

    job: str
    trainer: str
    params: Mapping[str, Any]
    rows: int
    measures: Mapping[str, float] | None
    created_unix_ms: int


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a trained model; it never changes.

    `number` counts from 1 and is never given twice. `position` is where its contents stand: that of a pinned
    snapshot. `size_bytes` is their size.
    """

    number: int
    position: str
    size_bytes: int
    meta: VersionMeta
