"""Storage: one protocol for all that a server keeps, and two stores that implement it."""

from manylabel_service.storage.address import Address
from manylabel_service.storage.blob_pieces import blob_bytes, blob_to_file, pieces_of, pieces_of_file
from manylabel_service.storage.opened_files import open_in_thread
from manylabel_service.storage.opening import open_store, store_address
from manylabel_service.storage.protocol import (
    MAX_DOCUMENT_BYTES,
    POSITION,
    SEED,
    START,
    Document,
    Documents,
    Durability,
    Entry,
    Kept,
    LogExtent,
    ModelRecord,
    SnapshotRecord,
    Store,
    position_key,
)
from manylabel_service.storage.sqlite import SQLiteStore

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "POSITION",
    "SEED",
    "START",
    "Address",
    "Document",
    "Documents",
    "Durability",
    "Entry",
    "Kept",
    "LogExtent",
    "ModelRecord",
    "SQLiteStore",
    "SnapshotRecord",
    "Store",
    "blob_bytes",
    "blob_to_file",
    "open_in_thread",
    "open_store",
    "pieces_of",
    "pieces_of_file",
    "position_key",
    "store_address",
]
