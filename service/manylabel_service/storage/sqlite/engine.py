"""Data directory opened by one process: its lock, database, files and threads.

    <data_dir>/lock                                           locked while the store is open
    <data_dir>/manylabel.sqlite3 (-wal, -shm)                 models, logs, documents
    <data_dir>/blobs/<token>                                  snapshots and other large data
    <data_dir>/reserve                                        space for urgent writes while the store is open

Two threads serve the store. Only the writer uses the database, and it works in small steps, so an append waits for at
most one step. The filer does the work that waits for the disk: pieces of blobs, and most of each checkpoint. Each
thread handles calls in order.
"""

import os
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, closing
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from manylabel_service.errors import StoreDamaged
from manylabel_service.storage.background import BackgroundTasks
from manylabel_service.storage.gate import Gate
from manylabel_service.storage.private import make_private, private_directory
from manylabel_service.storage.protocol import Durability
from manylabel_service.storage.sqlite.files import BlobFiles, DirectoryLock, FileWatch, Reserve
from manylabel_service.storage.sqlite.maintenance import Maintenance, WalCheckpointer
from manylabel_service.storage.sqlite.schema import connect, create_tables, is_new, mend_indexes
from manylabel_service.storage.sqlite.tables import Tables
from manylabel_service.storage.sqlite.threads import Threads, while_opening

DATABASE = "manylabel.sqlite3"


class Engine:
    """Shared state of the parts of one store.

    Attributes
    ----------
    gate : gate that every call passes.
    threads, tables, blob_files, maintenance : available once the store is open.
    """

    threads: Threads
    tables: Tables
    blob_files: BlobFiles
    maintenance: Maintenance

    def __init__(self, directory: Path, busy_timeout_seconds: float, durability: Durability) -> None:
        self.directory = directory
        self.path = directory / DATABASE
        self.reserve = Reserve(directory / "reserve")
        self._busy_timeout_seconds = busy_timeout_seconds
        self._durability = durability
        self._held = ExitStack()
        self.gate = Gate()
        self.background = BackgroundTasks()

    async def open(self, load: Callable[[], None]) -> None:
        """Open the directory, and finally call `load` in the writer; raises the errors of `Store.open`."""
        self.threads = Threads(self.path, self.reserve)
        try:
            await self.threads.write(self._open, load)
        except BaseException:
            # If the await was cancelled, the thread continues: `_held` is set only when it has ended.
            await self.threads.end(lambda: self._held.close())
            raise
        self.threads.watch = self._watch
        self.maintenance = Maintenance(self.threads, self._checkpoints)
        self.gate.open()

    def _open(self, load: Callable[[], None]) -> None:
        with while_opening(self.path), ExitStack() as held:
            private_directory(self.directory)
            held.enter_context(DirectoryLock(self.directory))
            self.reserve.fill()
            held.callback(self.reserve.release)
            # Closed after the connections: closing any descriptor of a file releases all POSIX locks on it.
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, descriptor)
            make_private(self.path)  # SQLite creates -wal and -shm with the same mode
            writer = held.enter_context(closing(connect(self.path, self._busy_timeout_seconds)))
            self.blob_files = BlobFiles(self.directory / "blobs")
            if is_new(writer):
                self._check_empty()
                create_tables(writer)
            mend_indexes(writer, self.path)
            other = held.enter_context(closing(connect(self.path, self._busy_timeout_seconds)))
            self.tables = Tables(writer, self._durability)
            self._checkpoints = WalCheckpointer(writer, other, descriptor)
            load()
            self._watch = FileWatch(self.path, descriptor)
            self._held = held.pop_all()

    def _check_empty(self) -> None:
        """Reject a directory that has blobs but no database, because opening it would remove the blobs and make a
        recovery impossible."""
        if self.blob_files.any():
            raise StoreDamaged(self.path, "it is empty or missing, but the directory has blobs")

    async def close(self) -> None:
        """Close the directory; do nothing if it is already closed."""
        if not self.gate.is_open:
            return
        self.maintenance.stop()
        await self.gate.close()
        await self.cleaned()
        await self.threads.end(self._held.close)

    async def cleaned(self) -> None:
        """Wait until data deleted so far is removed from the disk."""
        await self.background.done()
        await self.maintenance.done()


class Part:
    """Part of a store, which uses its engine; calls pass the gate."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.gate = engine.gate

    @property
    def _tables(self) -> Tables:
        return self._engine.tables

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._engine.tables.connection


S = TypeVar("S", bound=Part)
P = ParamSpec("P")
T = TypeVar("T")


def in_writer(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Make a method with SQL awaitable: a call passes the gate, and runs the method in the writer thread."""

    @wraps(method)
    async def call(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.gate:
            return await self._engine.threads.write(partial(method, self, *args, **kwargs))

    return call  # type: ignore[return-value]  # it binds as a method, which `wraps` hides


def urgent_in_writer(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Make a method awaitable like `in_writer`; on a full disk it uses the reserve."""

    @wraps(method)
    async def call(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.gate:
            return await self._engine.threads.write_urgent(partial(method, self, *args, **kwargs))

    return call  # type: ignore[return-value]
