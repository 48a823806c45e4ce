"""The two threads that a store works in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from manylabel_service.storage.sqlite.database.errors import while_running
from manylabel_service.storage.sqlite.database.file_watch import FileWatch

R = TypeVar("R")


class Threads:
    """Two threads serve a store: one the database, one what waits long for the disk. What fails in them is raised as
    `StorageGone`.

    Parameters
    ----------
    path : the database, for messages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.watch: FileWatch | None = None
        """Checked before each call of the writer, from the end of the opening on."""
        self.writer = ThreadPoolExecutor(1, "manylabel-writer")
        self.filer = ThreadPoolExecutor(1, "manylabel-filer")

    async def write(self, function: Callable[..., R], *args: object) -> R:
        """Call a function in the writer, after all that was asked of it before."""
        return await asyncio.get_running_loop().run_in_executor(self.writer, self._run, function, args, self.watch)

    async def file(self, function: Callable[..., R], *args: object) -> R:
        """Call a function in the filer, after all that was asked of it before."""
        return await asyncio.get_running_loop().run_in_executor(self.filer, self._run, function, args)

    async def end(self, last: Callable[[], None]) -> None:
        """Finish what is under way, for callers that were cancelled too, then call `last`, then end."""
        self.watch = None
        await asyncio.to_thread(self.filer.shutdown)
        try:
            await self.write(last)
        finally:
            self.writer.shutdown()

    def _run(self, function: Callable[..., R], args: tuple[object, ...], watch: FileWatch | None = None) -> R:
        with while_running(self._path):
            if watch is not None:
                watch.check()
            return function(*args)
