"""Embedded store on SQLite and plain files."""

from manylabel_service.storage.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
