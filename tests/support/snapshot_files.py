"""The files of snapshots in a data directory."""

import contextlib
import sqlite3
from pathlib import Path

from manylabel_service.storage import position_key
from manylabel_service.storage.checksums import SEAL_BYTES


def snapshot_files(directory: Path) -> list[Path]:
    """The files of the snapshots of all models, by their positions."""
    with contextlib.closing(sqlite3.connect(directory / "manylabel.sqlite3", timeout=60)) as connection:
        rows = connection.execute("SELECT key, head FROM blobs WHERE key LIKE 'snapshots/%'").fetchall()
    rows.sort(key=lambda row: position_key(row[0].split("/")[2]))
    return [directory / "blobs" / head[SEAL_BYTES:].split(b" ")[0].decode() for _, head in rows]
