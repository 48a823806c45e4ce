"""What an archive, and overwriting what is deleted, cost updates: examples a second with and without, in turns.

A registry, as a server has it, over a store in this process; each update waits until the disk has it. One turn learns
the same examples as the next, each in a model of its own, so the ratio is that of one run.
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

import structlog

from benchmarks.history.measures import closed, filled, named
from manylabel_service.archive.service import ArchiveService
from manylabel_service.hosting.examples import Example
from manylabel_service.models.registry import Registry
from manylabel_service.settings import Settings
from manylabel_service.storage import Store
from manylabel_service.storage.places import open_place
from manylabel_service.storage.sqlite.database import schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--sets", default="yeast", help="by default %(default)s")
    parser.add_argument("--store", help="redis://...; by default SQLite in a temporary folder")
    parser.add_argument("--examples", type=int, default=10_000, help="of each turn; by default %(default)s")
    parser.add_argument("--turns", type=int, default=5, help="of each kind; by default %(default)s")


def run(args: argparse.Namespace) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    args.durability = "fsync"
    print("| set | what | without, learnt/s | with, learnt/s | ratio |")
    print("|---|---|---|---|---|")
    for name in args.sets.split(","):
        examples = list(named(args.data, name))
        measure(args, name, examples, "archive", archived)
        if args.store is None:
            measure(args, name, examples, "secure_delete", overwritten)


Turn = Callable[[argparse.Namespace, list[Example], bool], Coroutine[Any, Any, float]]


def measure(args: argparse.Namespace, name: str, examples: list[Example], what: str, turn: Turn) -> None:
    pairs = [[asyncio.run(turn(args, examples, is_on)) for is_on in (False, True)] for _ in range(args.turns)]
    off, on = (median(rates) for rates in zip(*pairs, strict=True))
    print(f"| {name} | {what} | {off:,.0f} | {on:,.0f} | {median(w / o for o, w in pairs):.2f} |", flush=True)


async def archived(args: argparse.Namespace, examples: list[Example], is_on: bool) -> float:
    """Examples learnt a second while the store is archived every second, or not."""
    with tempfile.TemporaryDirectory() as directory:
        services: list[ArchiveService] = []

        def begin(registry: Registry, store: Store, settings: Settings) -> None:
            if is_on:
                services.append(ArchiveService(store, registry, open_place(f"file://{directory}/archive"), settings))
                services[0].start()

        settings = {"snapshot_every_updates": 10_000, "archive_seconds": 1.0, "durability": args.durability}
        registry, store, replica, seconds = await filled(args, examples, Path(directory), begin, **settings)
        for service in services:
            await service.stop()
        await closed(registry, store, replica)
        return float(args.examples / seconds)


async def overwritten(args: argparse.Namespace, examples: list[Example], is_on: bool) -> float:
    """Examples learnt a second while deleted rows are overwritten, or not."""
    with tempfile.TemporaryDirectory() as directory, secure_delete(is_on):
        settings = {"snapshot_every_updates": 2_000, "durability": args.durability}
        registry, store, replica, seconds = await filled(args, examples, Path(directory), **settings)
        await closed(registry, store, replica)
        return float(args.examples / seconds)


@contextmanager
def secure_delete(is_on: bool) -> Iterator[None]:
    """Set the pragma of all connections made inside."""
    set_up = schema._set_up

    def changed(connection: sqlite3.Connection, path: Path) -> None:
        set_up(connection, path)
        connection.execute(f"PRAGMA secure_delete = {'ON' if is_on else 'OFF'}")

    with patch.object(schema, "_set_up", changed):
        yield
