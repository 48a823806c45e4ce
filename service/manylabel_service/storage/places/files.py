"""Place in a directory: one file per object, readable only by the user of the process."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from manylabel_service.storage.places.place import (
    ARCHIVE,
    KEY,
    MAX_FILE_BYTES,
    MAX_OBJECT_BYTES,
    ObjectDamaged,
    ObjectMissing,
    PlaceUnavailable,
    check_size,
    new_threads,
)

T = TypeVar("T")

PARTIAL = ".partial"
"""Directory of files being written."""

ABANDONED_SECONDS = 86_400.0
"""Seconds after which a file in `PARTIAL` counts as left by a process that died."""


class FilePlace:
    """Implementation of `Place` in a directory, which is created with the first object.

    A file is written and synced under a temporary name, then linked to its name, which fails if the name is taken; then
    the directory is synced. Therefore an object either exists completely or not at all, even after a power failure.
    Only regular files are objects: a link or a pipe is neither listed nor read.
    """

    def __init__(self, root: Path, title: str = ARCHIVE) -> None:
        self._root = root
        self._title = title
        self._threads = new_threads()
        self._swept = False

    async def put(self, key: str, data: bytes | Path) -> bool:
        return await self._in_thread(self._put, self._path(key), data)

    async def get(self, key: str, most: int = MAX_OBJECT_BYTES) -> bytes:
        def read() -> bytes:
            with self._opened(key, most) as file:
                return file.read()

        return await self._in_thread(read, key=key)

    async def fetch(self, key: str, path: Path, most: int = MAX_FILE_BYTES) -> None:
        def copy() -> None:
            with self._opened(key, most) as file, path.open("wb") as target:
                shutil.copyfileobj(file, target, 1 << 20)

        await self._in_thread(copy, key=key)

    async def keys(self, prefix: str) -> list[str]:
        return await self._in_thread(self._keys, prefix)

    async def delete(self, key: str) -> None:
        await self._in_thread(lambda: self._path(key).unlink(missing_ok=True))

    async def _in_thread(self, work: Callable[..., T], *arguments: Any, key: str = "") -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))
        except (FileNotFoundError, NotADirectoryError) as error:
            if key:
                raise ObjectMissing(key) from error
            raise PlaceUnavailable(f"{self._title} {self._root}: {error}") from error
        except OSError as error:
            raise PlaceUnavailable(f"{self._title} {self._root}: {error}") from error

    def _path(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a valid key of an object")
        return self._root / key

    @contextmanager
    def _opened(self, key: str, most: int) -> Iterator[BinaryIO]:
        """Open an object; raise ObjectDamaged for anything but a regular file of at most `most` bytes."""
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
                raise ObjectDamaged(key, "it is not a regular file") from error
            raise
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ObjectDamaged(key, "it is not a regular file")
            check_size(key, found.st_size, most)
            yield file

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
        found, waiting = list[str](), [self._root / prefix]
        while waiting:
            with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        found.append(Path(entry.path).relative_to(self._root).as_posix())
        return found


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
