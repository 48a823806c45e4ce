"""Several processes on one Redis, and the remains of killed ones."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.service.stores import opened_redis, read_all
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.errors import ModelGone, StorageUnavailable
from manylabel_service.storage import SEED, START, Entry, pieces_of
from manylabel_service.storage.redis import RedisStore, blobs, logs, models
from manylabel_service.storage.redis import watcher as changes
from manylabel_service.storage.redis.keys import GONE, LOOSE, STAGED, Keys


@pytest.fixture(params=["redis", "cluster"])
def url(request: pytest.FixtureRequest, ask_redis: Callable[..., bytes]) -> str:
    if request.param == "redis":
        return str(request.getfixturevalue("shared_redis")())
    servers = request.getfixturevalue("redis_cluster")
    for server in servers:
        ask_redis(server.port, "FLUSHALL")
    return str(servers[0].url)


@pytest.fixture
async def store(url: str) -> AsyncIterator[RedisStore]:
    async with opened_redis(url) as store:
        yield store


@pytest.fixture
async def other(url: str) -> AsyncIterator[RedisStore]:
    async with opened_redis(url) as store:
        yield store


async def keys_of(url: str, store: RedisStore) -> set[str]:
    """Every key there is."""
    client = store.engine.connection.client
    nodes = client.get_primaries() if store.engine.connection.is_cluster else [None]  # type: ignore[union-attr]
    found: set[str] = set()
    for node in nodes:
        target = {} if node is None else {"target_nodes": node}
        found |= {key.decode() for key in await client.execute_command("KEYS", "*", **target)}
    return found


# -- logs -----------------------------------------------------------------------------------------


async def test_an_append_returns_all_missed_entries(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "PAGE_ENTRIES", 100)
    monkeypatch.setattr(logs, "PAGE_BYTES", 1 << 20)
    record = await store.models.create("m", b"")
    written: list[Entry] = []
    for size in (1, 99, 100, 101, 1000):
        after = written[-1].position if written else START
        written += await store.logs.append(record, [b"%d" % i for i in range(size)], after)
    written += await store.logs.append(record, [bytes([i]) * 700_000 for i in range(7)], written[-1].position)
    answer = await other.logs.append(record, [b"own", b"too"], START)
    assert answer[:-2] == written
    assert [entry.payload for entry in answer[-2:]] == [b"own", b"too"]
    assert await read_all(store, record) == answer


async def test_the_bytes_of_a_page_of_entries_are_limited(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PAGE_BYTES", 1 << 20)
    record = await store.models.create("m", b"")
    written = await store.logs.append(record, [bytes(300_000)] * 40, START)
    page = await store.logs.read(record, START, 1000)
    assert page == written[: len(page)]
    assert 3 <= len(page) <= 12, "one step of the script may go beyond, and is small"


async def test_a_trim_frees_memory(store: RedisStore, other: RedisStore) -> None:
    record = await store.models.create("m", b"")
    written: list[Entry] = []
    for _ in range(25):
        after = written[-1].position if written else START
        written += await store.logs.append(record, [b"x"] * 1000, after)
    await other.logs.trim(record, written[-501].position)
    assert 500 <= await store.engine.connection.command("XLEN", Keys.of(record).log) <= 700, (
        "whole nodes go, of 100 entries"
    )
    assert await read_all(store, record, written[-501].position) == written[-500:]


# -- changes --------------------------------------------------------------------------------------


async def test_an_entry_of_another_process_ends_a_wait(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHECK_SECONDS", 600.0)  # by the entry itself, not by checking now and then
    records = [await store.models.create(name, b"") for name in "abc"]
    positions = dict.fromkeys(records, START)
    for turn in range(10):
        record = records[turn % 3]
        waiting = asyncio.create_task(store.logs.changed(positions, 2 * DEADLINE_SECONDS))
        if turn % 2:  # it has not begun to wait, or waits already: another began later and has ended
            assert await store.logs.changed(positions, 0.01) == []
        answer = await other.logs.append(record, [bytes(100_000)], START)
        assert await asyncio.wait_for(waiting, DEADLINE_SECONDS) == [record]
        positions[record] = answer[-1].position
    assert await store.logs.changed(positions, 0.0) == []
    stale = dict.fromkeys(records, START)
    assert await store.logs.changed(stale, 30.0) == records


async def test_a_wait_for_many_models_rests_before_it_names_them_again(
    shared_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, now = list[float](), 0.0

    def later() -> float:
        nonlocal now
        now += 1.0
        return now

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    async with opened_redis(str(shared_redis())) as store:
        record = await store.models.create("m", b"spec")
        monkeypatch.setattr(changes, "time", SimpleNamespace(monotonic=later))
        monkeypatch.setattr(changes, "asyncio", SimpleNamespace(sleep=pause))
        for _ in range(2):
            await store._watcher._block({record: START}, 0.01 * len(paused))
    first, second = paused
    assert first <= 0 < second


async def test_a_deletion_by_another_process_ends_a_wait(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHECK_SECONDS", 600.0)  # by the stream of deletions, not by checking now and then
    for _ in range(3):
        kept, doomed = await store.models.create("kept", b""), await store.models.create("doomed", b"")
        last = (await store.logs.append(kept, [b"x"], START))[-1].position
        assert await store.logs.changed({kept: last, doomed: START}, 0.05) == []
        waiting = asyncio.create_task(store.logs.changed({kept: last, doomed: START}, 2 * DEADLINE_SECONDS))
        assert await store.logs.changed({kept: last, doomed: START}, 0.05) == []  # the other began earlier, and waits
        await other.models.delete(doomed)
        assert await asyncio.wait_for(waiting, DEADLINE_SECONDS) == [doomed]
        assert await store.logs.changed({kept: last, doomed: START}, 30.0) == [doomed]
        assert await store.logs.changed({kept: START, doomed: START}, 30.0) == [kept, doomed]
        successor = await other.models.create("doomed", b"")
        assert await store.logs.changed({kept: last, doomed: START}, 30.0) == [doomed]
        await other.models.delete(successor)
        await other.models.delete(kept)
        assert await store.logs.changed({kept: last}, 30.0) == [kept]


# -- creation and deletion, half done -------------------------------------------------------------


async def test_a_deleted_model_leaves_no_keys(url: str, store: RedisStore) -> None:
    kept = await store.models.create("kept", b"")
    before = await keys_of(url, store)
    record = await store.models.create("m", b"", b"seed")
    written = await store.logs.append(record, [b"x"] * 50, SEED)
    await store.snapshots.put(record, written[5].position, bytes(blobs.PIECE_BYTES + 1))
    await store.snapshots.put(record, written[5].position, bytes(2 * blobs.PIECE_BYTES + 1))
    await store.snapshots.retain(record, written[5].position, add="pin")
    await store.predictions.put(record, {f"p{i}": b"x" for i in range(2500)}, 3600.0, 5000)
    assert len(await keys_of(url, store)) > 2500
    await store.models.delete(record)
    await store.cleaned()
    assert await keys_of(url, store) - {"{ml:models}:deletions", "ml:{documents}:last"} == before
    assert await store.models.all() == [kept]


async def test_a_reader_continues_if_another_process_stores_equal_bytes(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "PIECE_BYTES", 1000)
    record, data = await store.models.create("m", b""), random.Random(3).randbytes(3500)
    await store.snapshots.put(record, START, data)
    reading = store.snapshots.read(record, START)
    pieces = [await anext(reading)]
    await other.snapshots.put(record, START, data)
    pieces += [piece async for piece in reading]
    assert b"".join(pieces) == data
    reading = store.snapshots.read(record, START)
    assert await anext(reading) == data[:1000]
    await other.snapshots.put(record, START, bytes(1500))
    assert [piece async for piece in reading] == [], "of another size, they are not the same bytes"


async def test_the_chunks_of_a_writer_that_died_before_the_last_step_are_removed(
    url: str, store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, run = await keys_of(url, store), store.engine.connection.run

    async def dying(script: Any, *words: Any, **options: Any) -> Any:
        if script in (blobs._CLAIM, blobs._DISCARD):
            raise StorageUnavailable("the process ends here", heals=False)
        return await run(script, *words, **options)

    monkeypatch.setattr(store.engine.connection, "run", dying)
    with pytest.raises(StorageUnavailable, match="ends here"):
        await store.blobs.put("b", pieces_of(bytes(blobs.PIECE_BYTES + 1)))
    await other.blobs.drop_loose()
    (piece, _) = pieces = [key for key in await keys_of(url, store) if key.startswith("ml:{blob.")]
    assert len(pieces) == 2, "it may still be under way"
    assert await other.engine.connection.command("TTL", piece) == -1
    monkeypatch.setattr(blobs, "ORPHAN_SECONDS", -1)
    await other.blobs.drop_loose()
    assert await keys_of(url, store) == before


async def test_a_blob_whose_chunks_were_removed_as_orphans_is_an_error(
    url: str, store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, run = await keys_of(url, store), store.engine.connection.run

    async def slow(script: Any, *words: Any, **options: Any) -> Any:
        if script is blobs._CLAIM:
            with monkeypatch.context() as patch:
                patch.setattr(blobs, "ORPHAN_SECONDS", -1)
                patch.setattr(other.engine.connection, "command", nothing)
                with pytest.raises(StorageUnavailable):
                    await other.blobs.drop_loose()  # the other process dies too, before it has removed any piece
        return await run(script, *words, **options)

    async def nothing(*_: object) -> None:
        raise StorageUnavailable("the process ends here", heals=False)

    monkeypatch.setattr(store.engine.connection, "run", slow)
    with pytest.raises(StorageUnavailable, match="took too long"):
        await store.blobs.put("b", pieces_of(b"late"))
    assert await store.engine.connection.command("ZCARD", LOOSE) == 0
    assert await keys_of(url, store) == before


async def test_a_creation_whose_process_died_is_undone(
    url: str, store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await keys_of(url, other)

    async def die(*_: object) -> None:
        raise StorageUnavailable("the process ends here", heals=False)

    with monkeypatch.context() as patch:
        patch.setattr(store.models, "_name", die)
        patch.setattr(store.models, "_discard", die)
        for name, state in (("early", None), ("late", bytes(100))):
            with pytest.raises(StorageUnavailable, match="ends here"):
                await store.models.create(name, b"", state)
    assert await other.models.all() == []
    await other.models.purge_all()
    assert await other.engine.connection.command("HLEN", STAGED) == 2, "it may still be under way"
    monkeypatch.setattr(models, "STAGED_SECONDS", -1)
    await other.models.purge_all()
    assert await keys_of(url, other) - {"{ml:models}:last", "ml:{documents}:last"} == before
    assert await other.models.create("late", b"") in await store.models.all()


async def test_a_creation_that_takes_too_long_is_an_error(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = store.models._name

    async def slow(successions: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(models, "STAGED_SECONDS", -1)
            await other.models.purge_all()
        await found(successions)

    monkeypatch.setattr(store.models, "_name", slow)
    for state in (None, b"state"):
        with pytest.raises(StorageUnavailable, match="too long"):
            await store.models.create("m", b"", state)
    assert await store.models.all() == []
    assert await other.engine.connection.command("HLEN", GONE) == 0
    assert await other.blobs.keys() == []


async def test_a_deletion_that_was_interrupted_is_finished_by_another_process(url: str, store: RedisStore) -> None:
    before = await keys_of(url, store)
    record = await store.models.create("m", b"", b"seed")
    await store.logs.append(record, [b"x"], SEED)
    await store.predictions.put(record, {"p": b"x"}, 3600.0, 10)
    # The first of its two steps, as `Models.delete` does it.
    await store.models._unname(record)
    assert await store.models.all() == []
    async with opened_redis(url) as heir:

        async def cleaned() -> bool:
            return (
                await keys_of(url, heir) - {"{ml:models}:deletions", "{ml:models}:last", "ml:{documents}:last"}
                == before
            )

        await eventually_async(cleaned)
    with pytest.raises(ModelGone):
        await store.logs.append(record, [b"late"], SEED)


# -- callers that give up -------------------------------------------------------------------------


async def test_cancelled_calls_do_not_mix_up_replies(store: RedisStore) -> None:
    """Each reply names its request, so a reply to another request would be noticed."""
    names = [f"m{i}" for i in range(8)]
    records = {name: await store.models.create(name, name.encode()) for name in names}
    for name, record in records.items():
        await store.logs.append(record, [name.encode()] * 20, START)
        await store.snapshots.put(record, START, name.encode() * 1000)
        await store.predictions.put(record, {"id": name.encode()}, 600.0, 10)
    chooser = random.Random(11)

    async def ask(name: str) -> None:
        record = records[name]
        match chooser.randrange(4):
            case 0:
                assert await store.models.find(name) == record
            case 1:
                assert {e.payload for e in await store.logs.read(record, START, 10)} == {name.encode()}
            case 2:
                assert await store.snapshots.get(record, START) == name.encode() * 1000
            case _:
                assert await store.predictions.get(record, ["id"]) == [name.encode()]

    for _ in range(15):
        tasks = [asyncio.create_task(ask(chooser.choice(names))) for _ in range(60)]
        for task in tasks:
            if chooser.random() < 0.5:
                await asyncio.sleep(chooser.choice((0, 0, 0.0005, 0.002)))  # callers give up at any moment
                task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(o is None or isinstance(o, asyncio.CancelledError) for o in outcomes), outcomes
        assert any(o is None for o in outcomes)
