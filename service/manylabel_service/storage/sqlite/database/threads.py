"""Threads of a store."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from manylabel_service.errors import StorageUnavailable
from manylabel_service.storage.sqlite.database.errors import lacks_room, while_running
from manylabel_service.storage.sqlite.database.file_watch import FileWatch
from manylabel_service.storage.sqlite.files.reserve import Reserve

R = TypeVar("R")


class Threads:
    """The two threads of a store: one for the database, one for long waits for the disk. Their failures are raised as
    `StorageUnavailable`."""

    def __init__(self, path: Path, reserve: Reserve) -> None:
        self._path = path
        self._reserve = reserve
        self.watch: FileWatch | None = None
        """Check that runs before each call in the writer, once the store is open."""
        self.writer = ThreadPoolExecutor(1, "manylabel-writer")
        self.filer = ThreadPoolExecutor(1, "manylabel-filer")

    async def write(self, function: Callable[..., R], *args: object) -> R:
        """Call a function in the writer thread, after all earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self.writer, self._run, function, args, self.watch)

    async def write_urgent(self, function: Callable[..., R], *args: object) -> R:
        """Call a function in the writer like `write`; if the disk is full, release the reserve for it.

        The writer runs calls in order, so no other write uses the reserve.
        """
        return await asyncio.get_running_loop().run_in_executor(self.writer, self._run_urgent, function, args)

    async def file(self, function: Callable[..., R], *args: object) -> R:
        """Call a function in the filer thread, after all earlier calls."""
        return await asyncio.get_running_loop().run_in_executor(self.filer, self._run, function, args)

    async def end(self, last: Callable[[], None]) -> None:
        """Complete all calls, including those of cancelled callers, then call `last` and stop."""
        self.watch = None
        await asyncio.to_thread(self.filer.shutdown)
        try:
            await self.write(last)
        finally:
            self.writer.shutdown()

    def _run_urgent(self, function: Callable[..., R], args: tuple[object, ...]) -> R:
        try:
            try:
                return self._run(function, args, self.watch)
            except StorageUnavailable as error:
                if not lacks_room(error) or not self._reserve.release():
                    raise
            return self._run(function, args, self.watch)
        finally:
            self._reserve.fill()

    def _run(self, function: Callable[..., R], args: tuple[object, ...], watch: FileWatch | None = None) -> R:
        with while_running(self._path):
            if watch is not None:
                watch.check()
            return function(*args)
