"""Cost of an archive, and of overwriting deleted rows: examples learnt per second with and without, in turns.

The benchmark runs a server's model registry over a store in this process; each update is synced to the disk. Each turn
learns the same examples into a new model.
"""

import argparse
import asyncio
import logging
import sqlite3
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import structlog

from benchmarks.history.measures import Seconds, closed, filled, named
from manylabel_service.archive.service import ArchiveService
from manylabel_service.hosting.examples import Example
from manylabel_service.models.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.storage import Store
from manylabel_service.storage.places import open_place
from manylabel_service.storage.sqlite import schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--sets", default="yeast", help="by default %(default)s")
    parser.add_argument("--store", help="redis://...; by default SQLite in a temporary folder")
    parser.add_argument("--examples", type=int, default=10_000, help="of each turn; by default %(default)s")
    parser.add_argument("--turns", type=int, default=5, help="of each kind; by default %(default)s")


def run(args: argparse.Namespace) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    args.durability = "fsync"
    print("| set | what | without, learnt/s | with, learnt/s | ratio | of examples per second of processor time |")
    print("|---|---|---|---|---|---|")
    for name in args.sets.split(","):
        examples = list(named(args.data, name))
        measure(args, name, examples, "archive", archived)
        if args.store is None:
            measure(args, name, examples, "secure_delete", overwritten)


Turn = Callable[[argparse.Namespace, list[Example], bool], Coroutine[Any, Any, Seconds]]


def measure(args: argparse.Namespace, name: str, examples: list[Example], what: str, turn: Turn) -> None:
    pairs = [[asyncio.run(turn(args, examples, is_on)) for is_on in (False, True)] for _ in range(args.turns)]
    off, on = (median(args.examples / seconds.wall for seconds in each) for each in zip(*pairs, strict=True))
    wall, processor = (median(ratios) for ratios in zip(*(np.divide(*pair) for pair in pairs), strict=True))
    print(f"| {name} | {what} | {off:,.0f} | {on:,.0f} | {wall:.2f} | {processor:.2f} |", flush=True)


async def archived(args: argparse.Namespace, examples: list[Example], is_on: bool) -> Seconds:
    """Return the seconds of the updates, with or without archiving every second."""
    with tempfile.TemporaryDirectory() as directory:
        services: list[ArchiveService] = []

        def begin(registry: Registry, store: Store, settings: Settings) -> None:
            if is_on:
                services.append(ArchiveService(store, registry, open_place(f"file://{directory}/archive"), settings))
                services[0].start()

        settings = {"snapshot_every_updates": 10_000, "archive_seconds": 1.0, "durability": args.durability}
        registry, store, replica, seconds = await filled(args, examples, Path(directory), begin=begin, **settings)
        for service in services:
            await service.stop()
        await closed(registry, store, replica)
        return seconds


async def overwritten(args: argparse.Namespace, examples: list[Example], is_on: bool) -> Seconds:
    """Return the seconds of the updates, with or without overwriting deleted rows."""
    with tempfile.TemporaryDirectory() as directory, secure_delete(is_on):
        settings = {"snapshot_every_updates": 2_000, "durability": args.durability}
        registry, store, replica, seconds = await filled(args, examples, Path(directory), **settings)
        await closed(registry, store, replica)
        return seconds


@contextmanager
def secure_delete(is_on: bool) -> Iterator[None]:
    """Set `secure_delete` on all connections that are opened inside the block."""
    set_up = schema._set_up

    def changed(connection: sqlite3.Connection, path: Path) -> None:
        set_up(connection, path)
        connection.execute(f"PRAGMA secure_delete = {'ON' if is_on else 'OFF'}")

    with patch.object(schema, "_set_up", changed):
        yield
