"""How much of a log stays: by examples, by hours, by bytes, and apart from how many snapshots there are."""

import random
from pathlib import Path
from typing import Any

import pytest

from manylabel_service.datasets.from_stream import rows_of_stream
from manylabel_service.online.snapshots.retention import LogWindow, plan
from manylabel_service.settings import Settings
from manylabel_service.storage import LogExtent, SnapshotMeta, position_key

MIB = 2**20


class Log:
    """A log in which snapshots are taken, and of which a plan is carried out after each."""

    def __init__(self, n_kept: int, window: LogWindow) -> None:
        self.n_kept, self.window = n_kept, window
        self.snapshots: list[SnapshotMeta] = []
        self.begin = LogExtent(0, 0)
        self.began_ms = self.now_ms = 0

    def take(self, examples: int, log_bytes: int, size_bytes: int = 1_000, seconds: float = 60.0) -> None:
        before = self.snapshots[0].extent if self.snapshots else LogExtent(0, 0)
        self.now_ms += int(1000 * seconds)
        extent = LogExtent(before.examples + examples, before.size_bytes + log_bytes)
        position = str(1 + int(self.snapshots[0].position) if self.snapshots else 1)
        self.snapshots.insert(0, SnapshotMeta(position, size_bytes, self.now_ms, extent=extent))
        planned = plan(self.snapshots, self.n_kept, self.window)
        if planned.trimmed is not None:
            begin = next(s for s in self.snapshots if s.position == planned.trimmed)
            assert begin in planned.kept or begin is self.snapshots[1], "the log begins at a snapshot"
            if begin.extent >= self.begin:
                self.begin, self.began_ms = begin.extent, begin.created_unix_ms
        assert planned.kept[: self.n_kept] == self.snapshots[: self.n_kept]
        self.snapshots = list(planned.kept)
        assert self.begin == LogExtent(0, 0) or self.begin in [s.extent for s in self.snapshots] or self.n_kept == 1

    @property
    def n_examples(self) -> int:
        return self.snapshots[0].extent.examples - self.begin.examples

    @property
    def n_bytes(self) -> int:
        return self.snapshots[0].extent.size_bytes - self.begin.size_bytes

    @property
    def seconds(self) -> float:
        return (self.now_ms - self.began_ms) / 1000


@pytest.mark.parametrize("n_kept", [1, 2, 3, 10])
def test_so_many_examples_stay_and_not_many_more(n_kept: int) -> None:
    log, rng = Log(n_kept, LogWindow(1_000, 0.0, 100 * MIB)), random.Random(n_kept)
    for _ in range(500):
        had = log.snapshots[0].extent.examples if log.snapshots else 0
        log.take(rng.randint(1, 90), 5_000)
        assert log.n_examples >= min(1_000, had)
        assert log.n_examples <= max(1_000, 90 * n_kept) * 1.25 + 3 * 90
        assert len(log.snapshots) <= n_kept + 6


def test_so_many_hours_stay() -> None:
    log = Log(3, LogWindow(10, 3600.0, 100 * MIB))
    for _ in range(300):
        log.take(50, 5_000)
    assert 3600 <= log.seconds <= 1.25 * 3600 + 120
    assert len(log.snapshots) <= 9


def test_no_more_bytes_stay_than_may() -> None:
    log = Log(3, LogWindow(1_000_000, 0.0, 10 * MIB))
    for _ in range(200):
        log.take(10, MIB // 2)
        assert log.n_bytes <= 10 * MIB
    assert log.n_bytes > 6 * MIB
    large = Log(3, LogWindow(1_000_000, 0.0, 10 * MIB))
    for _ in range(50):
        large.take(10, 1_000, size_bytes=20 * MIB)
    assert len(large.snapshots) == 3, "those of a large model are not kept for the log's sake"


def test_with_nothing_to_keep_the_log_goes_behind_the_snapshots() -> None:
    log = Log(3, LogWindow(0, 0.0, 100 * MIB))
    for n in range(1, 10):
        log.take(10, 1_000)
        assert (len(log.snapshots), log.n_examples) == (min(n, 3), min(10 * n, 20) if n >= 3 else 10 * n)


async def test_replicas_keep_as_much_on_either_store(any_fleet: Any, tmp_path: Path) -> None:
    keep = {
        "snapshot_retention_count": 2,
        "snapshot_every_seconds": 1000.0,
        "log_retention_examples": 40,
        "data_dir": tmp_path,
    }
    n_registries = 1 if any_fleet.server is None else 2
    registries = await any_fleet.start_several(n_registries, **keep)
    await registries[0].create(any_fleet.spec())
    for i in range(60):
        replica = await registries[i % n_registries].get("m")
        await replica.update([any_fleet.example(i), any_fleet.example(i + 1)])
        if i % 3 == 0:
            await replica.take_snapshot()
    store, settings = any_fleet.store(registries[0]), Settings(**keep)
    counts = await rows_of_stream(store, settings, "m", 1_000, tmp_path / "rows")
    assert 40 <= counts.rows < 70, counts
    assert (counts.learnt, counts.asked) == (120, 1_000)
    listed = await store.snapshots.all(replica.record)
    assert len(listed) <= 8
    extents = [snapshot.extent for snapshot in listed]
    assert [extent.examples for extent in extents] == sorted((e.examples for e in extents), reverse=True)
    entries = await store.logs.read(replica.record, listed[-1].position, 1_000)
    behind = sum(len(e.payload) for e in entries if position_key(e.position) <= position_key(listed[0].position))
    assert extents[0].size_bytes - extents[-1].size_bytes == behind, "the same count by whoever took it"
    # A process that comes later counts on from what the last snapshot says.
    late = await any_fleet.start(**keep) if n_registries == 2 else registries[0]
    taken = await (await late.get("m")).take_snapshot()
    rest = await store.logs.read(replica.record, listed[0].position, 1_000)
    assert taken.extent.size_bytes - extents[0].size_bytes == sum(len(e.payload) for e in rest)
