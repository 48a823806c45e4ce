"""Damage on the disk of a store is reported, and damaged data is never returned."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import structlog
from tests.service.stores import REAL, STORES, StoreUnderTest, read_all

from manylabel_service.errors import (
    BlobDamaged,
    DocumentDamaged,
    LogTrimmed,
    ModelDamaged,
    StorageError,
    StoreDamaged,
    StoreUnusable,
)
from manylabel_service.storage import START, Entry, ModelMeta, SQLiteStore, Store, blob_bytes, pieces_of
from manylabel_service.storage.redis import RedisStore
from manylabel_service.storage.redis.keys import MODELS, Keys, piece_keys
from manylabel_service.storage.sqlite.tables import NUMBER_BITS

Edit = Callable[[list[Any]], list[Any]]
"""Makes other rows of (position, payload, link) of those of a log."""


@pytest.fixture(params=REAL)
def stores_in(request: pytest.FixtureRequest) -> Callable[[Path], StoreUnderTest]:
    """Stores of the contract suite whose bytes can be damaged."""
    return lambda place: STORES[request.param](request, place)


def edit_log(store: Store, record: ModelMeta, edit: Edit) -> None:
    """Change the entries of a log behind the store's back."""
    if isinstance(store, SQLiteStore):
        connection = store.engine.tables.connection
        rows = [list(row) for row in connection.execute("SELECT * FROM entries WHERE payload NOT NULL ORDER BY key")]
        mine = [row for row in rows if row[0] >> NUMBER_BITS == record.incarnation]
        connection.executemany("DELETE FROM entries WHERE key = ?", [row[:1] for row in mine])
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", edit(mine))
        return
    with client_of(store) as client:
        key = Keys.of(record).log
        rows = [[id, value[:-4], int.from_bytes(value[-4:], "little")] for id, value in values_of(client.xrange(key))]
        client.delete(key)
        for id, payload, link in edit(rows):
            client.xadd(key, {"p": payload + link.to_bytes(4, "little")}, id=id)


def values_of(entries: list[Any]) -> list[tuple[bytes, bytes]]:
    return [(id, fields[b"p"]) for id, fields in entries]


def client_of(store: Store) -> Any:
    assert isinstance(store, RedisStore)
    address = store.address
    if store.engine.connection.is_cluster:
        return redis.RedisCluster(host=address.host, port=address.port)
    return redis.Redis(address.host, address.port, address.database)


def flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def changed(rows: list[Any]) -> list[Any]:
    rows[4][1] = flip(rows[4][1])
    return rows


def lost(rows: list[Any]) -> list[Any]:
    return rows[:4] + rows[5:]


def first_lost(rows: list[Any]) -> list[Any]:
    return rows[1:]


def last_lost(rows: list[Any]) -> list[Any]:
    return rows[:-1]


def swapped(rows: list[Any]) -> list[Any]:
    rows[3][1:], rows[4][1:] = rows[4][1:], rows[3][1:]
    return rows


def repeated(rows: list[Any]) -> list[Any]:
    rows[4][1:] = rows[3][1:]
    return rows


def link_changed(rows: list[Any]) -> list[Any]:
    rows[4][2] = int(rows[4][2]) ^ 1
    return rows


DAMAGES = [changed, lost, first_lost, last_lost, swapped, repeated, link_changed]


async def filled(store: Store, name: str, others: Store | None = None) -> tuple[ModelMeta, list[Entry]]:
    """A model with nine entries, appended by two stores in turn where there are two."""
    record, entries = await store.models.create(name, b"{}"), []
    for number in range(9):
        by = others if others is not None and number % 2 else store
        after = entries[-1].position if entries else START
        entries += await by.logs.append(record, [b"%d of %s" % (number, name.encode())], after)
    return record, entries


@pytest.mark.parametrize("edit", DAMAGES)
async def test_a_damaged_entry_is_an_error_and_other_logs_are_read(new_store: Callable[[], Store], edit: Edit) -> None:
    store = new_store()
    await store.open()
    record, entries = await filled(store, "m")
    other, intact = await filled(store, "other")
    edit_log(store, record, edit)
    await store.close()

    store = new_store()
    await store.open()
    for limit in (1, 3, 1000):
        with pytest.raises(ModelDamaged, match=r"'m' is damaged \(.* at position"):
            await read_all(store, record, limit=limit)
    if edit is not last_lost or isinstance(store, RedisStore):
        with pytest.raises(ModelDamaged):
            await store.logs.append(record, [b"more"], START)
    assert await read_all(store, other, limit=3) == intact
    intact += await store.logs.append(other, [b"more"], intact[-1].position)
    assert await read_all(store, other) == intact
    await store.models.delete(record)
    assert await store.models.all() == [other]
    assert [entry.position for entry in entries]
    await store.close()


async def test_the_checksums_of_a_log_of_two_processes_survive_trims(
    new_store: Callable[[], Store], request: pytest.FixtureRequest
) -> None:
    store = new_store()
    await store.open()
    others = None if isinstance(store, SQLiteStore) else new_store()
    if others is not None:
        await others.open()
    record, entries = await filled(store, "m", others)
    for through in (2, 5, 8):
        await store.logs.trim(record, entries[through].position)
        with pytest.raises(LogTrimmed):
            await store.logs.read(record, START, 1)
        assert await read_all(store, record, entries[through].position, limit=2) == entries[through + 1 :]
    entries += await store.logs.append(record, [b"x", b"y"] * 50, entries[-1].position)
    assert await read_all(others or store, record, entries[8].position, limit=7) == entries[9:]
    for each in (store, others):
        if each is not None:
            await each.close()
    store = new_store()
    await store.open()
    assert await read_all(store, record, entries[8].position, limit=7) == entries[9:]
    await store.close()


def edit_values(store: Store, table: str, column: str, keys: list[str]) -> None:
    """Flip a bit at the end of the values at some keys, behind the store's back."""
    if isinstance(store, SQLiteStore):
        connection = store.engine.tables.connection
        for rowid, value in connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (flip(value), rowid))
        return
    with client_of(store) as client:
        for key in keys:
            if client.type(key) == b"hash":
                client.hset(key, mapping={name: flip(value) for name, value in client.hgetall(key).items()})
            else:
                client.set(key, flip(client.get(key)), keepttl=True)


async def test_a_damaged_record_is_listed_and_can_only_be_deleted(store: Store) -> None:
    record, _ = await filled(store, "m")
    edit_values(store, "models", "spec", [MODELS])
    other, intact = await filled(store, "other")
    (found, alive) = await store.models.all()
    assert (found.name, found.incarnation, found.damaged, alive) == ("m", record.incarnation, True, other)
    assert await store.models.find("m") == found
    with pytest.raises(ModelDamaged, match=r"'m' is damaged \(its record"):
        found.check()
    assert await read_all(store, other) == intact
    await store.models.delete(found)
    assert await store.models.all() == [other]
    await store.models.create("m", b"{}")


async def test_a_damaged_document_is_named_and_the_others_are_listed(store: Store) -> None:
    revision = await store.documents.put("jobs", "a", b'{"a": 1}', revision=None)
    edit_values(store, "documents", "value", ["ml:{documents}:values:jobs"])
    await store.documents.put("jobs", "b", b'{"b": 1}', revision=None)
    with pytest.raises(DocumentDamaged, match="'a' of jobs"):
        await store.documents.get("jobs", "a")
    assert [(each.name, each.value, each.damaged) for each in await store.documents.all("jobs")] == [
        ("a", b"", True),
        ("b", b'{"b": 1}', False),
    ]
    await store.documents.delete("jobs", "a", revision=revision)


async def test_a_damaged_list_of_snapshots_stays_and_the_blobs_are_listed(store: Store) -> None:
    record, entries = await filled(store, "m")
    for entry in entries[3:5]:
        await store.snapshots.put(record, entry.position, b"at " + entry.position.encode())
    edit_values(store, "documents", "value", ["ml:{documents}:values:snapshots"])
    with structlog.testing.capture_logs() as lines:
        listed = await store.snapshots.all(record)
    assert [line["event"] for line in lines] == ["snapshots_damaged"]
    assert [(each.position, each.size_bytes) for each in listed] == [
        (entry.position, 3 + len(entry.position)) for entry in entries[4:2:-1]
    ]
    (damaged,) = await store.documents.all("snapshots")
    for change in (
        store.snapshots.retain(record, listed[0].position, drop="recent"),
        store.snapshots.put(record, entries[5].position, b"at the end"),
        store.snapshots.retain(record, listed[0].position, add="pin"),
    ):
        with pytest.raises(DocumentDamaged):
            await change
    await store.snapshots.collect_garbage([record], before_ms=2**47)
    assert await store.documents.all("snapshots") == [damaged], "it stays"
    assert await store.snapshots.all(record) == listed
    for each in listed:
        assert await store.snapshots.get(record, each.position) == b"at " + each.position.encode()


async def test_a_damaged_prediction_is_logged_and_not_returned(store: Store) -> None:
    record = await store.models.create("m", b"{}")
    await store.predictions.put(record, {"a": b"one"}, 60, 10)
    prediction = Keys.of(record).prediction("a")
    if isinstance(store, SQLiteStore):
        store.engine.tables.connection.execute("UPDATE predictions SET payload = x'00112233445566778899'")
    else:
        edit_values(store, "", "", [prediction])
    await store.predictions.put(record, {"b": b"two"}, 60, 10)
    with structlog.testing.capture_logs() as lines:
        assert await store.predictions.get(record, ["a", "b", "c"]) == [None, b"two", None]
    assert [(line["event"], line["model"], line["prediction"]) for line in lines] == [("prediction_damaged", "m", "a")]


@pytest.mark.parametrize("size", [10, 5 << 20])
async def test_a_damaged_blob_is_an_error_before_its_end(store: Store, size: int, tmp_path: Path) -> None:
    await store.blobs.put("a", pieces_of(bytes(size)))
    await store.blobs.put("b", pieces_of(b"other"))
    if isinstance(store, SQLiteStore):
        for file in (tmp_path / "data" / "blobs").iterdir():
            if file.stat().st_size == size:
                file.write_bytes(bytes(size - 1) + b"1")
    else:
        with client_of(store) as client:
            token = client.hget("ml:{blobs}:heads", "a").split()[0].decode()
        edit_values(store, "", "", piece_keys(token, 1 + size // (4 << 20))[-1:])
    received = 0

    async def receive() -> None:
        nonlocal received
        async for piece in store.blobs.read("a"):
            received += len(piece)

    with pytest.raises(BlobDamaged, match="'a' does not match"):
        await receive()
    assert received < size
    assert await blob_bytes(store.blobs, "b") == b"other"
    await store.blobs.delete("a")


# -- any byte of the file -------------------------------------------------------------------------

FLIPS = 12  # for each example


async def contents(directory: Path) -> dict[str, Any]:
    """Return the results of a store, or the error instead of a result; only the error, if it cannot be opened."""
    store = SQLiteStore(directory)
    try:
        await store.open()
    except (StoreDamaged, StoreUnusable) as error:
        return {"": error}
    found: dict[str, Any] = {}

    async def ask(what: str, question: Any) -> Any:
        try:
            found[what] = await question
        except StorageError as error:
            found[what] = error
        return found[what]

    try:
        models = await ask("models", store.models.all())
        if isinstance(models, list) and any(record.damaged for record in models):
            found["models"] = ModelDamaged("", "")
        for record in [record for record in models if not record.damaged] if isinstance(models, list) else []:
            await ask(f"log of {record.name}", read_all(store, record, AFTER.get(record.name, START), limit=100))
            await ask(f"predictions of {record.name}", store.predictions.get(record, ["p", "q"]))
        documents = await ask("documents", store.documents.all("jobs"))
        if isinstance(documents, list) and any(document.damaged for document in documents):
            found["documents"] = DocumentDamaged("jobs", "")
        await ask("blob", blob_bytes(store.blobs, "blob"))
    finally:
        await store.close()
    return found


AFTER = {"seeded": "1"}


async def make(directory: Path) -> None:
    store = SQLiteStore(directory)
    await store.open()
    for name in ("a", "seeded", "b", "trimmed"):
        seed = bytes(100) if name == "seeded" else None
        record = await store.models.create(name, b'{"name": "%s"}' % name.encode(), seed)
        last = AFTER.get(name, START)
        for number in range(40):
            entries = await store.logs.append(record, [bytes([number]) * (20 + 13 * number)], last)
            last = entries[-1].position
        await store.predictions.put(record, {"p": b"prediction of " + name.encode()}, 10**6, 10)
        if name == "trimmed":
            await store.snapshots.put(record, "20", b"snapshot")
            await store.logs.trim(record, "20")
    for name in ("one", "two"):
        await store.documents.put("jobs", name, b'{"job": "%s"}' % name.encode() * 20, revision=None)
    await store.blobs.put("blob", pieces_of(b"blob" * 100))
    await store.close()


def silent(was: dict[str, Any], now: dict[str, Any], lines: list[Any]) -> list[str]:
    """Return the answers that differ from before although no damage was reported."""
    if "" in now or any(line["log_level"] in ("error", "warning") for line in lines):
        return []
    named = isinstance(now["models"], StorageError)
    absent = now["models"] if named else None  # data of a model that is reported as damaged
    changed = [
        what for what in was if not isinstance(now.get(what, absent), StorageError) and now.get(what) != was[what]
    ]
    # A prediction whose id is damaged is under an id that is never requested: it counts as expired.
    return [what for what in changed if not (what.startswith("predictions") and now.get(what) == [None, None])]


async def test_no_flipped_byte_goes_unnoticed(tmp_path: Path, n_examples: int) -> None:
    await make(tmp_path / "whole")
    AFTER["trimmed"] = "20"
    before = await contents(tmp_path / "whole")
    assert len(before["log of a"]) == 40
    data = (tmp_path / "whole" / "manylabel.sqlite3").read_bytes()
    used = [place for place in range(100, len(data)) if data[place]]
    chooser = random.Random(14)
    noticed = 0
    for trial in range(FLIPS * n_examples):
        shutil.rmtree(tmp_path / "flipped", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "flipped")
        place = chooser.choice(used) if trial % 4 else chooser.randrange(len(data))
        flipped = data[place] ^ (1 << chooser.randrange(8)) if trial % 2 else chooser.randrange(256)
        file = tmp_path / "flipped" / "manylabel.sqlite3"
        file.write_bytes(data[:place] + bytes([flipped]) + data[place + 1 :])
        with structlog.testing.capture_logs() as lines:
            after = await contents(tmp_path / "flipped")
        assert silent(before, after, lines) == [], f"byte {place}: {data[place]} -> {flipped}"
        noticed += after != before
    assert noticed > FLIPS * n_examples // 4
