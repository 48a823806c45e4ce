"""Concurrent submissions never exceed the limit of queued jobs."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.service.jobs.conftest import SHORT, add_songs, spec

from manylabel_service.errors import DatasetNotFound, JobsFull, StorageFull
from manylabel_service.jobs import queue_limit
from manylabel_service.jobs.job_service import JobService
from manylabel_service.storage import Address, Store
from manylabel_service.storage.redis import RedisStore

MOST = 5
JobsOf = Callable[..., Awaitable[JobService]]


@pytest.fixture
async def servers(store: Store, jobs_of: JobsOf) -> Any:
    """Two servers of one store, that train nothing."""
    other = RedisStore(Address.parse(str(store.address))) if isinstance(store, RedisStore) else store
    if other is not store:
        await other.open()
    servers = [await jobs_of(each, job_slots=0, max_queued_jobs=MOST) for each in (store, other)]
    await add_songs(servers[0]._context)
    yield servers
    for each in servers:
        await each.stop()
    if other is not store:
        await other.close()


async def raced(servers: list[JobService], requests: list[Callable[[JobService], Awaitable[Any]]]) -> int:
    """Make requests of all servers at once; how many were let in, the others having been told that it is full."""
    answers = await asyncio.gather(
        *(request(servers[i % len(servers)]) for i, request in enumerate(requests)), return_exceptions=True
    )
    assert {type(answer) for answer in answers if isinstance(answer, BaseException)} <= {JobsFull}
    return sum(not isinstance(answer, BaseException) for answer in answers)


async def waiting(server: JobService) -> list[str]:
    return [job.id for job in await server.list("queued")]


async def test_concurrent_jobs_and_retries_never_exceed_the_limit(servers: list[JobService]) -> None:
    orders = [lambda server: server.submit(spec(SHORT), None)] * 16
    assert await raced(servers, orders) == MOST
    ended = await waiting(servers[0])
    assert len(ended) == MOST
    for id in ended:
        await servers[1].cancel(id)
    assert await raced(servers, orders) == MOST
    left = await waiting(servers[1])
    for id in left[:3]:
        await servers[0].cancel(id)
    retries = [lambda server, id=id: server.retry(id) for id in ended]
    assert await raced(servers, [*retries, *orders]) == 3
    assert len(await waiting(servers[0])) == MOST


async def test_the_place_of_a_failed_submission_is_released(
    servers: list[JobService], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = servers
    for error in (StorageFull("no room"), DatasetNotFound("songs")):

        async def fail(record: Any, error: Exception = error) -> Any:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(first._job_store, "add", fail)
            for _ in range(MOST + 1):
                with pytest.raises(type(error)):
                    await first.submit(spec(SHORT), None)
    for _ in range(MOST):
        await second.submit(spec(SHORT), None)
    with pytest.raises(JobsFull):
        await first.submit(spec(SHORT), None)


async def test_the_place_of_a_dead_process_expires(servers: list[JobService], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = servers
    claimed: asyncio.Queue[Any] = asyncio.Queue()

    async def add(record: Any) -> None:
        claimed.put_nowait(record)
        await asyncio.Event().wait()  # for ever

    monkeypatch.setattr(first._job_store, "add", add)
    for _ in range(MOST):
        order = asyncio.create_task(first.submit(spec(SHORT), None))
        await claimed.get()
        order.cancel()
    with pytest.raises(JobsFull):
        await second.submit(spec(SHORT), None)
    monkeypatch.setattr(queue_limit, "CLAIM_SECONDS", 0.0)
    await second.submit(spec(SHORT), None)


@pytest.mark.parametrize("hours", [-3, 3])
async def test_the_clock_of_another_machine_does_not_count(
    servers: list[JobService], monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    claims = {f"job-{n}": (time.time() + 3600 * hours, 0) for n in range(MOST)}
    await servers[0]._limit._documents.put(queue_limit.NAME, queue_limit.Claims(jobs=claims))
    for server in servers:
        with pytest.raises(JobsFull):
            await server.submit(spec(SHORT), None)
    monkeypatch.setattr(queue_limit, "CLAIM_SECONDS", 0.0)
    await servers[1].submit(spec(SHORT), None)
