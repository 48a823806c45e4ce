"""Files of blobs: ``<root>/<token>``.

A file is never renamed, and never changes once a row names it. So a file without a row is being written, or was left by
a dead process.
"""

import os
from collections.abc import Collection
from pathlib import Path

from manylabel_service.storage.private import private_directory
from manylabel_service.storage.sqlite.files.snapshot_files import read_part, sync_folder, write_all


class BlobFiles:
    """Blobs in one folder. Blocking, for one thread at a time; no file stays open."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, token: str, piece: bytes, sync: bool) -> None:
        """Append to a file, created if necessary; sync on request."""
        with self._file(token).open("ab", buffering=0) as file:
            write_all(file.fileno(), piece)
            if sync:
                os.fsync(file.fileno())

    def complete(self, token: str) -> None:
        """Sync a file to the disk."""
        self.add(token, b"", sync=True)
        sync_folder(self._root)

    def read(self, token: str, start: int, size_bytes: int) -> bytes | None:
        """Read a part of a file; None if not all of it is there."""
        return read_part(self._file(token), start, size_bytes)

    def remove(self, token: str) -> None:
        """Remove a file, if it exists."""
        self._file(token).unlink(missing_ok=True)

    def any(self) -> bool:
        """Return whether there is any file."""
        return self._root.is_dir() and next(self._root.iterdir(), None) is not None

    def sweep(self, tokens: Collection[str], keep_others: bool = False) -> None:
        """Create the folder if necessary, and remove all other files unless others are kept."""
        private_directory(self._root)
        sync_folder(self._root.parent)
        if keep_others:
            return
        for file in self._root.iterdir():
            if file.name not in tokens:
                file.unlink()

    def _file(self, token: str) -> Path:
        return self._root / token
