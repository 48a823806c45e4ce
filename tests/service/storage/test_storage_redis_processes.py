"""Several processes on one Redis, and the remains of killed ones."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.service.models.test_log_watcher import Server
from tests.service.stores import opened_redis, read_all
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.errors import ModelGone, StorageUnavailable
from manylabel_service.models import log_watcher
from manylabel_service.storage import SEED, START, Entry, LogChanges, pieces_of
from manylabel_service.storage.redis import RedisStore, blobs, logs, models
from manylabel_service.storage.redis import watcher as changes_of
from manylabel_service.storage.redis.keys import CHANGES, GONE, LOOSE, STAGED, Keys


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


@pytest.fixture
async def pair(shared_redis: Callable[[], str]) -> AsyncIterator[tuple[RedisStore, RedisStore]]:
    """Stores of two processes on a Redis that is no cluster."""
    url = str(shared_redis())
    async with opened_redis(url) as store, opened_redis(url) as other:
        yield store, other


async def waiting(store: RedisStore, cursor: str) -> "asyncio.Task[LogChanges]":
    """Begin to wait for changes, and return once Redis has got the command that waits."""
    sent, wait = asyncio.Event(), store.engine.connection.wait

    async def noted(*words: Any) -> Any:
        sent.set()
        return await wait(*words)

    store.engine.connection.wait = noted  # type: ignore[method-assign]
    task = asyncio.create_task(store.logs.changed(cursor, 2 * DEADLINE_SECONDS))
    await asyncio.wait_for(sent.wait(), DEADLINE_SECONDS)
    store.engine.connection.wait = wait  # type: ignore[method-assign]
    await store.logs.changed(cursor, 0.05)
    return task


async def test_an_entry_or_a_deletion_by_another_process_ends_a_wait(pair: tuple[RedisStore, RedisStore]) -> None:
    store, other = pair
    records = [await store.models.create(name, b"") for name in "abc"]
    cursor = (await store.logs.changed("", 0.0)).cursor
    for turn in range(6):
        record = records[turn % 3]
        task = await waiting(store, cursor)
        answer = await other.logs.append(record, [bytes(100_000)], START)
        changes = await asyncio.wait_for(task, DEADLINE_SECONDS)
        assert (changes.ends, changes.complete) == ({record.incarnation: answer[-1].position}, True)
        cursor = changes.cursor
    task = await waiting(store, cursor)
    await other.models.delete(records[0])
    changes = await asyncio.wait_for(task, DEADLINE_SECONDS)
    assert (changes.ends, changes.complete) == ({records[0].incarnation: None}, True)


async def test_a_wait_after_an_empty_stream_misses_nothing(pair: tuple[RedisStore, RedisStore]) -> None:
    store, other = pair
    record = await store.models.create("m", b"")
    cursor = (await store.logs.changed("", 0.0)).cursor
    (entry,) = await other.logs.append(record, [b"x"], START)
    assert (await store.logs.changed(cursor, 0.0))[1:] == ({record.incarnation: entry.position}, True)
    many = "for i = 1, 10000 do redis.call('XADD', KEYS[1], '*', 'i', '7', 'e', '8-' .. i) end"
    await other.engine.connection.command("EVAL", many, 1, CHANGES)
    assert not (await store.logs.changed(cursor, 0.0)).complete, "the first ones may have been trimmed"


async def test_a_busy_log_hides_no_other_one(
    pair: tuple[RedisStore, RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_of, "READ_AT_ONCE", 10)
    store, other = pair
    busy, quiet = [await store.models.create(name, b"") for name in ("busy", "quiet")]
    cursor, last, expected = (await store.logs.changed("", 0.0)).cursor, START, ""
    for turn in range(35):
        last = (await other.logs.append(busy, [b"x"], last))[-1].position
        if turn == 22:
            expected = (await other.logs.append(quiet, [b"x"], START))[-1].position
    found = list[LogChanges]()
    while not found or found[-1].ends:
        found.append(await store.logs.changed(cursor, 0.0))
        cursor = found[-1].cursor
    assert len(found) == 5, "of 36 entries, 10 at a time"
    assert all(changes.complete for changes in found)
    assert [changes.ends[quiet.incarnation] for changes in found if quiet.incarnation in changes.ends] == [expected]
    assert found[3].ends == {busy.incarnation: last}


async def test_a_cursor_whose_entry_is_gone_or_another_is_incomplete(pair: tuple[RedisStore, RedisStore]) -> None:
    store, other = pair
    command = other.engine.connection.command
    record = await store.models.create("m", b"")
    last = (await other.logs.append(record, [b"x"], START))[-1].position

    async def changed_after(cursor: str) -> tuple[bool, dict[int, str | None]]:
        changes = await store.logs.changed(cursor, 0.0)
        after = await store.logs.changed(changes.cursor, 0.0)
        assert (after.ends, after.complete) == ({}, True)
        return changes.complete, dict(changes.ends)

    cursor = (await store.logs.changed("", 0.0)).cursor
    assert await changed_after(cursor) == (True, {})
    last = (await other.logs.append(record, [b"x"], last))[-1].position
    assert await changed_after(cursor) == (True, {record.incarnation: last})
    await command("XTRIM", CHANGES, "MAXLEN", 1)
    assert await changed_after(cursor) == (False, {})
    cursor = (await store.logs.changed("", 0.0)).cursor
    id = cursor.split(" ")[1]
    # As after a failover to a server that lacks the entry, and whose clock is behind.
    await command("DEL", CHANGES)
    await command("XADD", CHANGES, id, "i", record.incarnation, "e", "7-7")
    await other.logs.append(record, [b"x"], last)
    assert await changed_after(cursor) == (False, {})


async def test_the_stream_of_changes_is_bounded(pair: tuple[RedisStore, RedisStore]) -> None:
    store, other = pair
    connection = other.engine.connection
    record = await store.models.create("m", b"")
    many = "for i = 1, 9900 do redis.call('XADD', KEYS[1], '*', 'i', '7', 'e', '8-' .. i) end"
    for _ in range(2):
        await connection.command("EVAL", many, 1, CHANGES)
    await other.logs.append(record, [b"x"], START)
    assert 10_000 <= await connection.command("XLEN", CHANGES) <= 10_200, "whole nodes go, of 100 entries"
    await connection.command("EVAL", many, 1, CHANGES)
    await other.models.delete(record)
    assert 10_000 <= await connection.command("XLEN", CHANGES) <= 10_200


async def test_a_cluster_cannot_tell_what_has_changed(url: str, store: RedisStore, other: RedisStore) -> None:
    record = await store.models.create("m", b"")
    cursor = (await store.logs.changed("", 0.0)).cursor
    await other.logs.append(record, [b"x"], START)
    changes = await store.logs.changed(cursor, DEADLINE_SECONDS)
    is_cluster = store.engine.connection.is_cluster
    assert changes.complete is not is_cluster
    assert bool(changes.ends) is not is_cluster


async def test_the_models_that_others_have_changed_are_polled(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_watcher, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(log_watcher, "RESTING", 0)
    server = Server(store, other)
    models = [await server.model(name) for name in "abc"]
    await server.follow()
    for turn in range(6):
        changed = models[turn % 2]
        end = await server.append(changed)
        expected = [int(model is changed) for model in models]
        assert await server.follow(*models) == expected
        again = expected if store.engine.connection.is_cluster else [0] * 3
        assert await server.follow(*models) == again
        changed.log_position = end
    await other.models.delete(models[2].record)
    assert await server.follow(*models) == [0, 0, 1]


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
    assert await keys_of(url, store) - {CHANGES, "ml:{documents}:last"} == before
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
            return await keys_of(url, heir) - {CHANGES, "{ml:models}:last", "ml:{documents}:last"} == before

        await eventually_async(cleaned)
    with pytest.raises(ModelGone):
        await store.logs.append(record, [b"late"], SEED)


async def test_the_log_of_a_deletion_that_was_interrupted_has_no_end(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        raise StorageUnavailable("the process ends here", heals=False)

    record = await store.models.create("m", b"")
    monkeypatch.setattr(store.models, "_unlink", die)
    with pytest.raises(StorageUnavailable, match="ends here"):
        await store.models._unname(record)
    assert await other.engine.connection.command("EXISTS", Keys.of(record).head) == 1
    assert await other.logs.ends([record]) == {record.incarnation: None}


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
