"""History of a model: its bytes, and the time to restore past states and to forget an example.

The benchmark runs a server's model registry over a store in this process and learns rows of a dataset in batches, as
named features. It prints the bytes of the log per example, raw and stored, the examples per second of processor time of
replays of the live log and of the segments, in turns, the milliseconds of `state_at` at random positions, and the
seconds to forget an example in the middle of the log.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.data_sets import load_stream
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.models.registry import Registry
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.successor.rewriter import Selection
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.settings import Settings
from manylabel_service.storage import START, position_key
from manylabel_service.storage.opening import open_store

BATCH = 20
"""Number of examples of an update."""
REF = "one"
"""Reference of the example to forget."""


class Seconds(NamedTuple):
    """Duration, and the processor time of this process in it."""

    wall: float
    processor: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--sets", default="debtags,yeast", help="by default %(default)s")
    parser.add_argument("--store", help="redis://...; by default SQLite in a temporary folder")
    parser.add_argument(
        "--examples", type=int, default=200_000, help="learnt, in turns of the set; by default %(default)s"
    )
    parser.add_argument("--turns", type=int, default=3, help="of the replays; by default %(default)s")
    parser.add_argument("--states", type=int, default=50, help="random positions; by default %(default)s")


def run(args: argparse.Namespace) -> None:
    print(
        "| set | examples | bytes each | stored | learnt/s | live replay/s | from segments/s | ratio | "
        "state_at p50, p99, ms | of a processor | forget, s | of a processor |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name in args.sets.split(","):
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(measure(args, name, Path(directory)))


async def measure(args: argparse.Namespace, name: str, directory: Path) -> None:
    examples = list(named(args.data, name))
    # The same log without segments: no snapshot is taken, so nothing is trimmed.
    live = await filled(args, examples, directory / "live", "live", snapshot_every_updates=10**9)
    limits = {"history_bytes": 2**33, "snapshot_every_updates": 10_000}
    kept = registry, store, replica, seconds = await filled(args, examples, directory / "kept", "kept", **limits)
    catalogue = await HistoryReader(replica.record, store).catalogue()
    counted = sum(segment.entries for segment in catalogue.segments) * BATCH
    raw, stored = (sum(getattr(s, what) for s in catalogue.segments) / counted for what in ("raw_bytes", "size_bytes"))
    turns = [[await replayed(each, each_store) for _, each_store, each, _ in (live, kept)] for _ in range(args.turns)]
    from_log, from_segments = (median(rates) for rates in zip(*turns, strict=True))
    ratio = median(segments / log for log, segments in turns)
    await closed(*live[:3])
    wall, processor = 1_000 * np.percentile(await states(replica, args.states), (50, 99), axis=0).T
    forgetting = await forgotten(registry, replica)
    await closed(*kept[:3])
    print(
        f"| {name} | {args.examples:,} | {raw:,.0f} | {stored:,.0f} | {args.examples / seconds.wall:,.0f} | "
        f"{from_log:,.0f} | {from_segments:,.0f} | {ratio:.2f} | "
        f"{wall[0]:,.0f}, {wall[1]:,.0f} | {processor[0]:,.0f}, {processor[1]:,.0f} | "
        f"{forgetting.wall:,.1f} | {forgetting.processor:,.1f} |",
        flush=True,
    )


async def filled(
    args: argparse.Namespace,
    examples: list[Example],
    directory: Path,
    model: str = "measured",
    begin: Callable[[Registry, Any, Settings], None] = lambda *given: None,
    **settings: Any,
) -> tuple[Registry, Any, Replica, Seconds]:
    """Fill a new model; return the registry, the store, the model and the seconds that the updates took."""
    address = {} if args.store is None else {"store": args.store}
    made = Settings(data_dir=directory, snapshot_every_seconds=10**6, **address, **settings)
    store = open_store(made)
    await store.open()
    registry = Registry(store, made)
    await registry.start()
    begin(registry, store, made)
    replica = await registry.create(ModelSpec.model_validate({"name": model, "algorithm": "falt"}))
    assert isinstance(replica, Replica)
    started, worked = time.perf_counter(), time.process_time()
    waiting: set[asyncio.Task[Any]] = set()
    for first in range(0, args.examples, BATCH):
        batch = [examples[(first + i) % len(examples)] for i in range(BATCH)]
        if first == args.examples // 2 // BATCH * BATCH:
            batch[0] = batch[0]._replace(ref=REF)
        waiting.add(asyncio.create_task(replica.update(batch)))
        if len(waiting) >= 8:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*waiting)
    seconds = Seconds(time.perf_counter() - started, time.process_time() - worked)
    return registry, store, replica, seconds


async def closed(registry: Registry, store: Any, replica: Replica) -> None:
    await registry.delete(replica.record.name)
    await registry.stop()
    await store.close()


async def replayed(replica: Replica, store: Any) -> float:
    """Return the examples per second of processor time of a replay from the beginning of the log."""
    model, through = OnlineModel(replica.spec), replica.position
    reader, past = HistoryReader(replica.record, store), ModelFiles(replica.record, store)
    replayer = past.replayer(reader)
    started = time.process_time()
    while position_key(model.position) < position_key(through):
        await replayer.read_on(model, through)
    return model.updates / (time.process_time() - started)


async def forgotten(registry: Registry, replica: Replica) -> Seconds:
    """Return the seconds to forget an example."""
    started, worked = time.perf_counter(), time.process_time()
    receipt = await registry.forgetter.begin(replica, Selection(refs=frozenset([REF])), None)
    while receipt.status == "running":
        await asyncio.sleep(0.05)
        receipt = await registry.forgetter.receipt(replica.name, receipt.id)
    assert (receipt.status, receipt.examples) == ("done", 1), receipt.error
    return Seconds(time.perf_counter() - started, time.process_time() - worked)


async def states(replica: Replica, n_states: int) -> list[Seconds]:
    rng, took = random.Random(0), []
    positions, after = [START], START
    while entries := await replica.read_log(after, None, 10_000, 2**26):
        positions += [entry.position for entry in entries]
        after = positions[-1]
    for position in rng.sample(positions, n_states):
        started, worked = time.perf_counter(), time.process_time()
        found = await replica.state_at(position)
        took.append(Seconds(time.perf_counter() - started, time.process_time() - worked))
        assert found.position == position
    return took


def named(folder: Path, name: str) -> Any:
    X, Y = load_stream(folder, name)
    X, Y = sp.csr_array(X), sp.csr_array(Y)
    names = [f"feature-{column}" for column in range(X.shape[1])]
    for row in range(X.shape[0]):
        x, y = slice(X.indptr[row], X.indptr[row + 1]), slice(Y.indptr[row], Y.indptr[row + 1])
        features = tuple(names[column] for column in X.indices[x])
        labels = [f"label-{column}" for column in Y.indices[y]]
        yield Example(Features(features, None, X.data[x].astype(np.float32)), Labels.all_of(labels))
