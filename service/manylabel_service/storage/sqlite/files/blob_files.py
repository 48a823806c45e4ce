"""Files of blobs: ``<root>/<token>``.

A file is never renamed, and never changes once a row names it. So a file without a row is still being written, or was
left by a dead process.
"""

import os
from collections.abc import Collection
from pathlib import Path

from manylabel_service.storage.private import private_directory


class BlobFiles:
    """Files of blobs in one folder. Blocking, for one thread at a time; no file stays open."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def add(self, token: str, piece: bytes, sync: bool) -> None:
        """Append to a file, created with its folder if necessary; sync on request."""
        if not self._root.is_dir():
            self._create()
        with self._file(token).open("ab", buffering=0) as file:
            write_all(file.fileno(), piece)
            if sync:
                os.fsync(file.fileno())

    def complete(self, token: str) -> None:
        """Sync a file to the disk."""
        self.add(token, b"", sync=True)
        _sync_folder(self._root)

    def read(self, token: str, start: int, size_bytes: int) -> bytes | None:
        """Read a part of a file; None if the file lacks any of it."""
        try:
            with self._file(token).open("rb", buffering=0) as file:
                data = os.pread(file.fileno(), size_bytes, start)
        except FileNotFoundError:
            return None
        return data if len(data) == size_bytes else None

    def remove(self, token: str) -> None:
        """Remove a file, if it exists."""
        self._file(token).unlink(missing_ok=True)

    def any(self) -> bool:
        """Return whether there is any file."""
        return self._root.is_dir() and next(self._root.iterdir(), None) is not None

    def sweep(self, tokens: Collection[str], keep_others: bool = False) -> None:
        """Create the folder if necessary, and remove all other files unless others are kept."""
        self._create()
        if keep_others:
            return
        for file in self._root.iterdir():
            if file.name not in tokens:
                file.unlink()

    def _create(self) -> None:
        private_directory(self._root)
        _sync_folder(self._root.parent)

    def _file(self, token: str) -> Path:
        return self._root / token


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    """Wait until created, renamed and removed names of a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
