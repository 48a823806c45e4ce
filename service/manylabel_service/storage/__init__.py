"""Where models live: one protocol, and what implements it."""

from manylabel_service.storage.protocol import (
    START,
    Durability,
    Entry,
    ModelRecord,
    SnapshotRecord,
    Store,
    position_key,
)
from manylabel_service.storage.sqlite import SQLiteStore

__all__ = [
    "START",
    "Durability",
    "Entry",
    "ModelRecord",
    "SQLiteStore",
    "SnapshotRecord",
    "Store",
    "position_key",
]
