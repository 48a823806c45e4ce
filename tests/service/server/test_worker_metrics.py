"""One scrape shows all workers of a server, also if some do not respond."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.telemetry import worker_metrics
from manylabel_service.telemetry.metrics import Telemetry
from manylabel_service.telemetry.worker_metrics import WorkerMetrics, join

Exposition = Callable[[], Telemetry]


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = list(text_string_to_metric_families(text.decode()))
    assert len({family.name for family in families}) == len(families)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


@pytest.fixture
async def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Telemetry]]:
    """Three workers that have counted different things; the first two listen."""
    monkeypatch.setattr(worker_metrics, "ANSWER_SECONDS", DEADLINE_SECONDS)
    workers = [Telemetry(WorkerMetrics(tmp_path, number, 3)) for number in range(3)]
    for number, telemetry in enumerate(workers):
        telemetry.requested("/livez", "GET", 200, 0.001)
        telemetry.updated(f'"{{model}} {number}\\\n# HELP', 10**number, 0.001)
    for telemetry in workers[:2]:
        await listen(telemetry)
    yield workers
    for telemetry in workers:
        assert telemetry.workers is not None
        telemetry.workers.close()


async def listen(telemetry: Telemetry) -> None:
    async def exposition() -> bytes:
        return await telemetry.exposition()

    assert telemetry.workers is not None
    await telemetry.workers.listen(exposition)


async def scrape(telemetry: Telemetry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    assert telemetry.workers is not None
    return samples(await telemetry.workers.joined(await telemetry.exposition()))


def up(series: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> list[float]:
    return [series["manylabel_worker_up", frozenset({("worker", str(number))})] for number in range(3)]


async def test_every_series_has_a_worker_label(three: list[Telemetry]) -> None:
    await listen(three[2])
    for asked in three:
        series = await scrape(asked)
        assert up(series) == [1, 1, 1]
        own = {key: value for telemetry in three for key, value in samples(await telemetry.exposition()).items()}
        # Processor times change between two scrapes; counters do not.
        counted = {key: value for key, value in own.items() if not key[0].startswith(("process_", "python_gc_"))}
        assert counted.items() <= series.items()
        assert all(dict(labels)["worker"] in "012" for _, labels in series)
        learnt = {value for (name, _), value in series.items() if name == "manylabel_updates_total"}
        assert learnt == {1, 10, 100}


async def test_a_missing_worker_is_down(three: list[Telemetry]) -> None:
    assert up(await scrape(three[0])) == [1, 1, 0]


async def test_a_worker_that_does_not_answer_is_down(
    three: list[Telemetry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_metrics, "ANSWER_SECONDS", 0.2)

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"# HELP half")
        await reader.read()  # until the other side gives up
        writer.close()

    async def scraped(wanted: list[float]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        series = await scrape(three[0])
        return series if up(series) == wanted else {}

    async with await asyncio.start_unix_server(never, tmp_path / "2.sock"):
        # The other workers have the same short timeout, and may miss it on a busy machine.
        series = await eventually_async(lambda: scraped([1, 1, 0]))
    assert not any("half" in name for name, _ in series)


async def test_a_worker_with_an_endless_response_is_down(
    three: list[Telemetry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_metrics, "MAX_BYTES", 2**20)

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                writer.write(b"#" * 2**16)
                await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(endless, tmp_path / "2.sock"):
        assert up(await scrape(three[0])) == [1, 1, 0]


async def test_a_replacement_uses_the_socket_of_a_dead_worker(three: list[Telemetry], tmp_path: Path) -> None:
    (tmp_path / "2.sock").touch()  # what a killed one leaves
    await listen(three[2])
    assert up(await scrape(three[1])) == [1, 1, 1]


def test_joined_families_keep_their_series_together() -> None:
    head = b"# HELP a A.\n# TYPE a gauge\n"
    empty = b"# HELP b B.\n# TYPE b counter\n"
    assert join([head + b"a 1\n" + empty, head + b"a 2\n", empty]) == head + b"a 1\na 2\n" + empty
    assert join([]) == b""


async def test_a_server_of_one_process_has_no_worker_label() -> None:
    assert b"worker" not in await Telemetry().exposition()
