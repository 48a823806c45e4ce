"""Files of snapshots: ``<root>/<incarnation>/<position>.safetensors``.

A file gets its name when all its bytes are synced, and never changes afterwards; it counts once the database has a row
for it. So a file without a row was left by a dead process.
"""

import errno
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import numpy as np

from manylabel_service.storage.blob_pieces import PIECE_BYTES, same_bytes
from manylabel_service.storage.private import private_directory
from manylabel_service.storage.protocol import Bytes

_SUFFIX = ".safetensors"
_TEMPORARY = ".temporary"


class SnapshotFiles:
    """Snapshots below one folder. Blocking, for one thread at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, incarnation: int, position: str, data: Bytes) -> None:
        """Replace a file atomically and durably.

        The written file is read back and compared before it replaces the old one; raises OSError if it differs.
        Removed folders are created again.
        """
        folder = self._folder(incarnation)
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self._root)
            sync_folder(self._root.parent)
        temporary = folder / f"{position}{_TEMPORARY}"
        try:
            with temporary.open("wb", buffering=0) as file:
                write_all(file.fileno(), data)
                os.fsync(file.fileno())
            _compare(temporary, data)
            temporary.replace(self._file(incarnation, position))
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(folder)

    def read(self, incarnation: int, position: str) -> memoryview | None:
        """Return the bytes of a file in a separate buffer, None if it is missing."""
        try:
            # Not a bytes object, because it must be writable.
            return np.fromfile(self._file(incarnation, position), dtype=np.uint8).data
        except FileNotFoundError:
            return None

    def read_piece(self, incarnation: int, position: str, start: int, size_bytes: int) -> bytes | None:
        """Return a part of a file; None if not all of it is there."""
        return read_part(self._file(incarnation, position), start, size_bytes)

    def remove(self, incarnation: int, position: str) -> None:
        """Remove a file, if it exists."""
        self._file(incarnation, position).unlink(missing_ok=True)

    def remove_all(self, incarnation: int) -> None:
        """Remove all files of one incarnation."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._folder(incarnation))

    def any(self) -> bool:
        """Return whether there is any file or folder."""
        return self._root.is_dir() and next(self._root.iterdir(), None) is not None

    def sweep(
        self, incarnations: Collection[int], snapshots: Collection[tuple[int, str]], keep_others: bool = False
    ) -> None:
        """Create the folder if necessary, and remove the files of all other models unless they are kept."""
        private_directory(self._root)
        sync_folder(self._root.parent)
        if keep_others:
            return
        folders = {str(incarnation) for incarnation in incarnations}
        files = {self._file(incarnation, position) for incarnation, position in snapshots}
        for folder in self._root.iterdir():
            if folder.name not in folders:
                shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
                continue
            for file in folder.iterdir():
                if file not in files:
                    file.unlink()

    def _folder(self, incarnation: int) -> Path:
        return self._root / str(incarnation)

    def _file(self, incarnation: int, position: str) -> Path:
        return self._folder(incarnation) / f"{position}{_SUFFIX}"


def _compare(path: Path, data: Bytes) -> None:
    view, start = memoryview(data), 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            if not same_bytes(view[start : start + len(piece)], piece):
                break
            start += len(piece)
    if start != len(view):
        raise OSError(errno.EIO, f"from byte {start:,} on, it is not what was written", str(path))


def read_part(path: Path, start: int, size_bytes: int) -> bytes | None:
    """Return a part of a file; None if not all of it is there."""
    try:
        with path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), size_bytes, start)
    except FileNotFoundError:
        return None
    return data if len(data) == size_bytes else None


def write_all(descriptor: int, data: Bytes) -> None:
    """Write all bytes, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Wait until what was created, renamed or removed in a folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
