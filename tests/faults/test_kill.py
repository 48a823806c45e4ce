"""kill -9 at random moments: nothing acknowledged is lost, nothing counts twice, and a restart is exact."""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.faults.log_oracle import LogReader, ReplayedLog, replay
from tests.support.snapshot_files import snapshot_files
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_clients import Client, ConnectionFailed, Retry, Unavailable
from manylabel_service.storage import SQLiteStore

WORKERS = 6
SEED = 20260101

Start = Callable[..., Any]
"""Makes a `ServerProcess` (tests/conftest.py)."""


@dataclass
class Sent:
    """Examples sent by the workers. `positions` maps the id of each acknowledged example to its position."""

    positions: dict[str, str] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)


class Workers:
    """Connections that send examples, each with a feature of its own, until they are told to stop.

    After a failure, even workers repeat the update with its key until it is answered, odd ones give it up and go
    on with the next: its fate is unknown.
    """

    def __init__(self, url: str) -> None:
        self.sent = Sent()
        self.answered = threading.Semaphore(0)
        self.up = threading.Event()
        self._url = url
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(WORKERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.up.set()
        for thread in self._threads:
            thread.join(120)
        assert not self._failures, self._failures

    def _work(self, number: int) -> None:
        try:
            with Client(self._url, retry=Retry(attempts=1), timeout=DEADLINE_SECONDS) as client:
                self._send_all(client.model("m"), number)
        except BaseException as error:
            self._failures.append(error)

    def _send_all(self, model: Any, number: int) -> None:
        serial = 0
        while not self._stop.is_set():
            self.up.wait()
            name = f"example-{number}-{serial}"
            self.sent.unanswered.add(name)
            try:
                answer = model.update(
                    {name: 1.0, f"common {serial % 7}": serial % 3}, [f"label {serial % 5}"], key=name
                )
            except (ConnectionFailed, Unavailable):
                serial += number % 2
                continue
            self.sent.unanswered.discard(name)
            self.sent.positions[name] = answer.position
            self.answered.release()
            serial += 1


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.long)])
def test_no_acknowledged_update_is_lost_or_counts_twice(server_process: Start, kills: int) -> None:
    rng = random.Random(SEED)
    # All snapshots are kept, so that the log is never trimmed and can be replayed from its beginning.
    server = server_process("--snapshot-every-updates", "40", "--snapshot-retention-count", "100000")
    server.start()
    with Client(server.url) as client:
        client.create_model("m", algorithm="falt", params={"eta": 0.5}, scaling="unit")
    workers = Workers(server.url)
    workers.start()
    try:
        for _ in range(kills):
            _let_live(server, workers, rng)
            workers.up.clear()
            server.kill()
            server.start(wait=False)
            if rng.random() < 0.15:  # a process that dies while it restores
                time.sleep(rng.uniform(0.0, 0.5))  # until a random moment, as below
                server.kill()
                server.start(wait=False)
            server.wait_ready()
        _let_live(server, workers, rng)
    finally:
        workers.stop()

    with Client(server.url) as client:
        status = client.model("m").status()
    assert server.stop() == 0
    replayed = asyncio.run(_replay_log(server.data_dir))

    lost = set(workers.sent.positions) - set(replayed.learnt)
    assert not lost
    assert max(replayed.learnt.values()) == 1
    assert {name: replayed.positions[name] for name in workers.sent.positions} == workers.sent.positions
    assert set(replayed.learnt) <= set(workers.sent.positions) | workers.sent.unanswered
    assert status.updates == replayed.model.updates == len(replayed.learnt)
    assert snapshot_files(server.data_dir)[-1].read_bytes() == replayed.model.to_bytes()
    assert len(workers.sent.positions) > 10 * kills


def _let_live(server: Any, workers: Workers, rng: random.Random) -> None:
    """Let a random number of updates be answered, and then a random moment pass."""
    workers.up.set()
    for _ in range(rng.randrange(60)):
        assert workers.answered.acquire(timeout=DEADLINE_SECONDS), server.log_tail()
    time.sleep(rng.uniform(0.0, 0.02))


async def _replay_log(data_dir: Path) -> ReplayedLog:
    store = SQLiteStore(data_dir)
    await store.open()
    try:
        (record,) = await store.models.all()
        reader = LogReader(store, record)
        await reader.read_to_end()
        return replay(record, reader.entries, ())
    finally:
        await store.close()
