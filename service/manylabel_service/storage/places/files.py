"""Archive in a directory: one file per object, readable only by the user of the process."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from manylabel_service.storage.places.place import KEY, ObjectMissing, PlaceUnavailable

T = TypeVar("T")

PARTIAL = ".partial"
"""Directory of files being written."""

ABANDONED_SECONDS = 86_400.0
"""Seconds after which a file in `PARTIAL` counts as left by a process that died."""


class FilePlace:
    """Implementation of `Place` in a directory, which is created with the first object.

    A file is written and synced under a temporary name, then linked to its name, which fails if the name is taken; then
    the directory is synced. So an object exists completely or not at all, even after a power failure.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._swept = False

    async def put(self, key: str, data: bytes | Path) -> bool:
        return await self._in_thread(self._put, self._path(key), data)

    async def get(self, key: str) -> bytes:
        return await self._in_thread(self._path(key).read_bytes, key=key)

    async def fetch(self, key: str, path: Path) -> None:
        await self._in_thread(shutil.copyfile, self._path(key), path, key=key)

    async def keys(self, prefix: str) -> list[str]:
        return await self._in_thread(self._keys, prefix)

    async def delete(self, key: str) -> None:
        await self._in_thread(lambda: self._path(key).unlink(missing_ok=True))

    async def _in_thread(self, work: Callable[..., T], *arguments: Any, key: str = "") -> T:
        try:
            return await asyncio.to_thread(work, *arguments)
        except (FileNotFoundError, NotADirectoryError) as error:
            if key:
                raise ObjectMissing(key) from error
            raise PlaceUnavailable(f"the archive {self._root}: {error}") from error
        except OSError as error:
            raise PlaceUnavailable(f"the archive {self._root}: {error}") from error

    def _path(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a valid key of an object")
        return self._root / key

    def _put(self, path: Path, data: bytes | Path) -> bool:
        if path.exists():
            return False
        partial = self._root / PARTIAL
        self._make(partial)
        if not self._swept:
            self._sweep(partial)
        draft = partial / secrets.token_hex(8)
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                if isinstance(data, bytes):
                    file.write(data)
                else:
                    with data.open("rb") as source:
                        shutil.copyfileobj(source, file, 1 << 20)
                file.flush()
                os.fsync(file.fileno())
            self._make(path.parent)
            try:
                os.link(draft, path)
            except FileExistsError:
                return False
            _sync(path.parent)
            return True
        finally:
            draft.unlink(missing_ok=True)

    def _make(self, directory: Path) -> None:
        """Create a directory and its parents, private and synced."""
        if directory.is_dir():
            return
        if directory != self._root.parent:
            self._make(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        _sync(directory.parent)

    def _sweep(self, partial: Path) -> None:
        oldest = time.time() - ABANDONED_SECONDS
        for file in partial.iterdir():
            with suppress(FileNotFoundError):
                if file.stat().st_mtime < oldest:
                    file.unlink()
        self._swept = True

    def _keys(self, prefix: str) -> list[str]:
        found = []
        for directory, _, names in os.walk(self._root / prefix):
            place = Path(directory).relative_to(self._root)
            found += [(place / name).as_posix() for name in names]
        return found


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
