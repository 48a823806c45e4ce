"""Where models live: one protocol, and what implements it."""

from manylabel_service.storage.address import Address
from manylabel_service.storage.opening import open_store, store_address
from manylabel_service.storage.protocol import (
    SEED,
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
    "SEED",
    "START",
    "Address",
    "Durability",
    "Entry",
    "ModelRecord",
    "SQLiteStore",
    "SnapshotRecord",
    "Store",
    "open_store",
    "position_key",
    "store_address",
]
