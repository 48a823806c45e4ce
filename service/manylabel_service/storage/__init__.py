"""Storage: one protocol for the data of a server, and two stores that implement it."""

from manylabel_service.storage.address import Address
from manylabel_service.storage.background import open_in_thread
from manylabel_service.storage.blob_pieces import blob_bytes, blob_to_file, file_to_blob, pieces_of
from manylabel_service.storage.collection import (
    UNREADABLE,
    Collection,
    DocumentFollower,
    StoredModel,
    StoredPart,
    Unreadable,
    intact,
    newer_than,
)
from manylabel_service.storage.opening import open_store, open_when_available, store_address
from manylabel_service.storage.protocol import (
    MAX_DOCUMENT_BYTES,
    POSITION,
    SEED,
    START,
    UNBOUNDED_BYTES,
    Document,
    Documents,
    Durability,
    Entry,
    LogChanges,
    LogExtent,
    ModelMeta,
    SnapshotMeta,
    is_after,
    position_key,
)
from manylabel_service.storage.sqlite import SQLiteStore
from manylabel_service.storage.store import Store

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "POSITION",
    "SEED",
    "START",
    "UNBOUNDED_BYTES",
    "UNREADABLE",
    "Address",
    "Collection",
    "Document",
    "DocumentFollower",
    "Documents",
    "Durability",
    "Entry",
    "LogChanges",
    "LogExtent",
    "ModelMeta",
    "SQLiteStore",
    "SnapshotMeta",
    "Store",
    "StoredModel",
    "StoredPart",
    "Unreadable",
    "blob_bytes",
    "blob_to_file",
    "file_to_blob",
    "intact",
    "is_after",
    "newer_than",
    "open_in_thread",
    "open_store",
    "open_when_available",
    "pieces_of",
    "position_key",
    "store_address",
]
