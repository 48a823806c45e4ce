"""Metrics as text: as prometheus_client writes them, without blocking the event loop."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from manylabel_service.telemetry.exposition import write


@pytest.fixture
def registry() -> CollectorRegistry:
    disable_created_metrics()
    registry = CollectorRegistry()
    counter = Counter("requests", "With a \\ and a\nnew line.", ["path", "model"], registry=registry)
    for path in ("/", 'a "quoted" one', "back\\slash", "new\nline", "é"):
        counter.labels(path, "m").inc(3)
    gauge = Gauge("level", "Level.", registry=registry)
    gauge.set(12_345_678.9)
    values = Gauge("values", "Values.", ["of"], registry=registry)
    for value in (0.0, -1.5, 1e300, 1e-9, float("inf"), float("-inf"), float("nan"), 12_345_678.0):
        values.labels(repr(value)).set(value)
    Gauge("none", "Without series.", ["of"], registry=registry)
    Histogram("seconds", "Seconds.", ["of"], registry=registry).labels("a").observe(0.3)
    return registry


async def test_the_text_is_that_of_prometheus_client(registry: CollectorRegistry) -> None:
    assert await write(registry.collect(), {}) == generate_latest(registry)


async def test_additional_labels_are_sorted(registry: CollectorRegistry) -> None:
    text = (await write(registry.collect(), {"name": "0"})).decode()
    assert 'requests_total{model="m",name="0",path="/"} 3.0\n' in text
    assert 'level{name="0"} 1.23456789e+07\n' in text


async def test_other_tasks_run_meanwhile() -> None:
    registry = CollectorRegistry()
    gauge = Gauge("many", "Many.", ["of"], registry=registry)
    for number in range(20_000):
        gauge.labels(str(number)).set(number)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    await write(registry.collect(), {})
    task.cancel()
    assert turns >= 10
