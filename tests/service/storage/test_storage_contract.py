"""The contract of storage/protocol.py, checked for every store."""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.service.stores import StoreUnderTest, payloads_of, read_all
from tests.support.cases import for_each
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_service.errors import (
    LogLost,
    LogTrimmed,
    ModelExists,
    ModelGone,
    ModelNotFound,
    PredictionsFull,
    StorageUnavailable,
)
from manylabel_service.storage import (
    SEED,
    START,
    Entry,
    LogExtent,
    ModelMeta,
    Store,
    pieces_of,
    position_key,
)
from manylabel_service.storage.blob_collection import BlobCollection

NewStore = Callable[[], Store]


async def append(store: Store, record: ModelMeta, *payloads: bytes, after: str = START) -> list[Entry]:
    return await store.logs.append(record, payloads, after)


def assert_ascending(entries: list[Entry]) -> None:
    keys = [position_key(entry.position) for entry in entries]
    assert all(a < b for a, b in itertools.pairwise(keys))
    assert not keys or position_key(START) < keys[0]


# -- positions ------------------------------------------------------------------------------------


def test_position_key_orders_by_number() -> None:
    positions = ["1700-3", "12", "1700-12", START, "9", "1700", "2000"]
    ordered = [START, "9", "12", "1700", "1700-3", "1700-12", "2000"]
    assert sorted(positions, key=position_key) == ordered


@for_each("text", ["", "-", "1-", "-1", "a", "1.5", "+1", " 1", "1\n", "1_0", "٣", "../1"])
def test_position_key_refuses_what_is_no_position(text: str) -> None:
    with pytest.raises(ValueError, match="position"):
        position_key(text)


# -- models ---------------------------------------------------------------------------------------


CALLS: dict[str, Callable[[Store, ModelMeta], Awaitable[object]]] = {
    "append": lambda store, record: store.logs.append(record, [b"x"], START),
    "read": lambda store, record: store.logs.read(record, START, 10),
    "trim": lambda store, record: store.logs.trim(record, "1"),
    "put_snapshot": lambda store, record: store.snapshots.put(record, "1", b"x"),
    "snapshots": lambda store, record: store.snapshots.all(record),
    "get_snapshot": lambda store, record: store.snapshots.get(record, "1"),
    "read_snapshot": lambda store, record: anext(store.snapshots.read(record, "1")),
    "delete_snapshot": lambda store, record: store.snapshots.retain(record, "1", drop="recent"),
    "pin_snapshot": lambda store, record: store.snapshots.retain(record, "1", add="pin"),
    "unpin_snapshot": lambda store, record: store.snapshots.retain(record, "1", drop="pin"),
    "put_predictions": lambda store, record: store.predictions.put(record, {"p": b"x"}, 60.0, 10),
    "put no predictions": lambda store, record: store.predictions.put(record, {}, 60.0, 10),
    "get_predictions": lambda store, record: store.predictions.get(record, ["p"]),
    "get no predictions": lambda store, record: store.predictions.get(record, []),
    "ids of predictions": lambda store, record: store.predictions.ids(record, 10),
    "delete_model": lambda store, record: store.models.delete(record),
}


@pytest.mark.parametrize("recreated", [False, True])
@pytest.mark.parametrize("reopened", [False, True])
async def test_a_deleted_record_reaches_nothing(new_store: NewStore, recreated: bool, reopened: bool) -> None:
    store = new_store()
    await store.open()
    old = await store.models.create("m", b"old")
    entries = await append(store, old, b"1", b"2")
    await append(store, old, b"3", after=entries[-1].position)
    await store.snapshots.put(old, entries[0].position, b"snapshot")
    await store.predictions.put(old, {"p": b"kept"}, 60.0, 10)
    await store.models.delete(old)
    assert await store.models.all() == []
    new = await store.models.create("m", b"new") if recreated else None
    if reopened:
        await store.close()
        store = new_store()
        await store.open()
    for name, call in CALLS.items():
        (outcome,) = await asyncio.gather(call(store, old), return_exceptions=True)
        assert isinstance(outcome, ModelGone), name
        assert isinstance(outcome, ModelNotFound)
        assert (outcome.name, outcome.incarnation) == ("m", old.incarnation)
    if new:
        assert await store.models.all() == [new]
        assert await store.models.find("m") == new
        assert await read_all(store, new) == []
        assert await store.predictions.get(new, ["p"]) == [None]
        assert await store.snapshots.all(new) == []
    await store.close()


# -- append and read ------------------------------------------------------------------------------


async def test_appends_of_any_size_are_read_in_order(store: Store) -> None:
    record = await store.models.create("m", b"")
    written: list[Entry] = []
    for size in (1, 3, 64, 65, 200):
        payloads = [b"%d-%d" % (size, i) for i in range(size)]
        after = written[-1].position if written else START
        written += await append(store, record, *payloads, after=after)
        assert payloads_of(written[-size:]) == payloads
    assert_ascending(written)
    assert await read_all(store, record) == written


async def test_entries_have_the_time_of_the_store_which_never_goes_back(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    await store.open()
    record = await store.models.create("m", b"")
    before_ms = time.time_ns() // 1_000_000
    written = await append(store, record, b"1", b"2")
    # A millisecond more for each append, of a store whose positions are times.
    assert before_ms <= written[0].time_ms == written[1].time_ms <= time.time_ns() // 1_000_000 + 1
    now_ns = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: now_ns() - 3_600 * 10**9)
    for _ in range(3):
        written += await append(store, record, b"earlier", after=written[-1].position)
    await store.close()
    store = new_store()
    await store.open()
    for _ in range(3):
        written += await append(store, record, b"earlier", b"again", after=written[-1].position)
    times = [entry.time_ms for entry in written]
    assert times == sorted(times)
    assert times[0] == written[0].time_ms
    assert await read_all(store, record) == written
    await store.logs.trim(record, written[3].position)
    assert await read_all(store, record, written[3].position) == written[4:]
    await store.close()


async def test_concurrent_appends_lose_nothing_and_agree_on_one_order(stores: list[Store]) -> None:
    record, other = [await stores[0].models.create(name, b"") for name in ("m", "other")]

    async def caller(who: int) -> list[Entry]:
        store, seen = stores[who % len(stores)], list[Entry]()
        for turn in range(8):
            own = [b"%d-%d-%d" % (who, turn, i) for i in range(who % 4 + 1)]
            after = seen[-1].position if seen else START
            answer = await append(store, record, *own, after=after)
            assert payloads_of(answer[-len(own) :]) == own
            seen += answer
            await append(store, other, *own)
        return seen

    views = await asyncio.gather(*(caller(who) for who in range(16)))
    whole = await read_all(stores[-1], record)
    assert_ascending(whole)
    assert all(view == whole[: len(view)] for view in views)
    expected = {b"%d-%d-%d" % (w, t, i) for w in range(16) for t in range(8) for i in range(w % 4 + 1)}
    assert len(whole) == len(expected)
    assert set(payloads_of(whole)) == expected
    assert set(payloads_of(await read_all(stores[-1], other))) == expected
    # The entries of one append have no other entries between them.
    for who, turn in ((3, 0), (7, 5), (15, 7)):
        index = payloads_of(whole).index(b"%d-%d-0" % (who, turn))
        assert payloads_of(whole[index : index + 4]) == [b"%d-%d-%d" % (who, turn, i) for i in range(4)]


async def test_payloads_come_back_byte_for_byte(store: Store) -> None:
    record = await store.models.create("m", b"")
    chooser = random.Random(7)
    payloads = [
        b"",
        b"\x00",
        bytes(range(256)),
        "Gemüse 🥕".encode(),
        *(chooser.randbytes(size) for size in (1, 4095, 4096, 4097, 70_000, 5_000_000)),
        b"\x00" * 100_000,
    ]
    answer = await append(store, record, *payloads)
    assert payloads_of(answer) == payloads
    assert await read_all(store, record) == answer


async def test_entries_after_a_position_are_counted(store: Store) -> None:
    """A scrape asks this for all models at once; those that are gone do not count."""
    some, other, gone = [await store.models.create(name, b"") for name in ("some", "other", "gone")]
    entries = await append(store, some, *(b"x" * 300 for _ in range(1_500)))
    await append(store, gone, b"x")
    await store.models.delete(gone)

    async def counted(after: str, most: int = 10_000) -> int:
        return (await store.logs.entries_after({some: after}, most))[some]

    assert await counted(START) == 1_500, "of more than one page"
    assert await counted(entries[-1].position) == 0
    assert await counted(entries[-4].position) == 3
    assert await counted(entries[-4].position, most=2) in (2, 3)
    positions = {some: entries[0].position, other: START, gone: START}
    assert await store.logs.entries_after(positions, 10_000) == {some: 1_499, other: 0}
    assert await store.logs.entries_after({}, 1) == {}


WRONG_APPENDS: list[tuple[list[bytes], str, str]] = [
    ([], START, "payload"),
    ([b"x"], "", "position"),
    ([b"x"], "latest", "position"),
    ([b"x"], "-1", "position"),
]


async def test_invalid_arguments_are_refused_and_change_nothing(store: Store) -> None:
    record = await store.models.create("m", b"")
    written = await append(store, record, b"before")
    for payloads, after, message in WRONG_APPENDS:
        with pytest.raises(ValueError, match=message):
            await store.logs.append(record, payloads, after)
    for after, limit in (("x", 1), ("", 1), (START, 0), (START, -1)):
        with pytest.raises(ValueError, match="position" if limit > 0 else "limit"):
            await store.logs.read(record, after, limit)
    with pytest.raises(ValueError, match="position"):
        await store.logs.trim(record, "all")
    assert await read_all(store, record) == written


async def test_a_cancelled_append_is_whole_or_absent(store: Store) -> None:
    record = await store.models.create("m", b"")
    gone: list[bytes] = []
    after, seen = START, []
    for turn in range(30):
        own = [b"%d-%d" % (turn, i) for i in range(3)]
        task = asyncio.create_task(append(store, record, *own, after=after))
        for _ in range(turn % 4):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        gone += own
        answer = await append(store, record, b"kept", after=after)
        between = payloads_of(answer[:-1])
        assert between in ([], own)
        seen += answer
        after = answer[-1].position
    assert await read_all(store, record) == seen
    assert payloads_of(seen).count(b"kept") == 30


# -- trim -----------------------------------------------------------------------------------------


async def test_the_error_for_a_trimmed_entry_names_the_positions(store: Store) -> None:
    record = await store.models.create("m", b"")
    written = await append(store, record, *(b"%d" % i for i in range(100)))
    cut = written[59].position
    await store.logs.trim(record, cut)
    for early in (START, written[58].position):
        with pytest.raises(LogTrimmed, match="snapshot") as caught:
            await store.logs.read(record, early, 10)
        assert (caught.value.name, caught.value.after) == ("m", early)
        assert position_key(caught.value.trimmed) == position_key(cut)


async def test_positions_continue_after_a_trim_of_the_whole_log_and_a_restart(new_store: NewStore) -> None:
    store = new_store()
    await store.open()
    record = await store.models.create("m", b"")
    last = (await append(store, record, b"1", b"2", b"3"))[-1].position
    await store.logs.trim(record, last)
    await store.close()
    store = new_store()
    await store.open()
    assert await store.logs.read(record, last, 10) == []
    answer = await append(store, record, b"4", after=last)
    assert payloads_of(answer) == [b"4"]
    assert position_key(answer[0].position) > position_key(last)
    assert await read_all(store, record, last) == answer
    await store.close()


async def test_a_trim_to_an_earlier_position_changes_nothing(store: Store) -> None:
    record = await store.models.create("m", b"")
    written = await append(store, record, *(b"%d" % i for i in range(10)))
    for through in (written[4].position, written[2].position, START):
        await store.logs.trim(record, through)
        assert await read_all(store, record, written[4].position) == written[5:]
        with pytest.raises(LogTrimmed):
            await store.logs.read(record, written[3].position, 10)


async def test_trim_beyond_the_end_ends_at_the_end(store: Store) -> None:
    record = await store.models.create("m", b"")
    last = (await append(store, record, b"1", b"2"))[-1]
    beyond = "-".join(str(part + 5) for part in position_key(last.position))
    await store.logs.trim(record, beyond)
    answer = await append(store, record, b"3", after=last.position)
    assert payloads_of(answer) == [b"3"]
    assert await read_all(store, record, last.position) == answer


async def test_trim_while_others_append(store: Store) -> None:
    record = await store.models.create("m", b"")
    written = await append(store, record, *(b"%d" % i for i in range(3000)))

    async def appender() -> None:
        for i in range(40):
            written.extend(await append(store, record, b"new-%d" % i, after=written[-1].position))

    await asyncio.gather(appender(), *(store.logs.trim(record, written[i].position) for i in range(99, 3000, 400)))
    assert payloads_of(written[3000:]) == [b"new-%d" % i for i in range(40)]
    cut = written[2899]
    assert await read_all(store, record, cut.position) == written[2900:]


# -- snapshots ------------------------------------------------------------------------------------


async def test_snapshots_have_their_size_and_time(store: Store) -> None:
    record = await store.models.create("m", b"")
    assert await store.snapshots.all(record) == []
    written = await append(store, record, *(b"%d" % i for i in range(12)))
    chooser = random.Random(1)
    data = {written[i].position: chooser.randbytes(1000 + i) for i in (9, 1, 11)}  # 10, 2, 12: not as text
    data[START] = b""
    before_ms = time.time_ns() // 1_000_000
    for position, content in data.items():
        await store.snapshots.put(record, position, content)
    after_ms = time.time_ns() // 1_000_000
    listed = await store.snapshots.all(record)
    assert [s.position for s in listed] == [written[11].position, written[9].position, written[1].position, START]
    assert [s.size_bytes for s in listed] == [1011, 1009, 1001, 0]
    assert all(before_ms <= s.created_unix_ms <= after_ms for s in listed)
    for position, content in data.items():
        assert b"".join([piece async for piece in store.snapshots.read(record, position)]) == content
    assert await store.snapshots.total_bytes() == sum(map(len, data.values()))


async def test_a_snapshot_whose_blob_was_lost_before_it_is_listed_replaces_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens if Redis fails over after the blob is stored and before the document names it."""
    record = await store.models.create("m", b"spec")
    (entry,) = await append(store, record, b"1")
    position = entry.position
    await store.snapshots.put(record, START, b"first")
    change = BlobCollection.change

    async def changed(files: Any, *args: Any, **options: Any) -> Any:
        for key in await store.blobs.keys(f"snapshots/{record.incarnation}/{position}"):
            await store.blobs.delete(key)
        return await change(files, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(BlobCollection, "change", changed)
        with pytest.raises(StorageUnavailable, match="has lost snapshots/"):
            await store.snapshots.put(record, position, b"second")
    assert [each.position for each in await store.snapshots.all(record)] == [START]
    assert bytes((await store.snapshots.get(record, START)) or b"") == b"first"
    await store.snapshots.put(record, position, b"second")
    assert bytes((await store.snapshots.get(record, position)) or b"") == b"second"


async def test_a_missing_snapshot_is_none(store: Store) -> None:
    record = await store.models.create("m", b"")
    for position in (START, "1", "99999"):
        assert await store.snapshots.get(record, position) is None
        assert [piece async for piece in store.snapshots.read(record, position)] == []
    for call in (store.snapshots.get, store.snapshots.retain):
        with pytest.raises(ValueError, match="position"):
            await call(record, "../../etc")
    with pytest.raises(ValueError, match="position"):
        await store.snapshots.put(record, "../../etc", b"")


async def test_large_snapshots_of_several_models_are_stored_concurrently(store: Store) -> None:
    chooser = random.Random(2)
    records = [await store.models.create(name, b"") for name in "abc"]
    data = [chooser.randbytes(6_000_000 + i) for i in range(3)]
    await asyncio.gather(*(store.snapshots.put(r, START, d) for r, d in zip(records, data, strict=True)))
    assert await asyncio.gather(*(store.snapshots.get(record, START) for record in records)) == data
    assert await store.snapshots.total_bytes() == sum(map(len, data))
    pieces = [piece async for piece in store.snapshots.read(records[1], START)]
    assert (len(pieces), b"".join(pieces)) == (2, data[1])
    reading = store.snapshots.read(records[1], START)
    assert data[1].startswith(await anext(reading))
    await store.snapshots.retain(records[1], START, drop="recent")
    assert [piece async for piece in reading] in ([], pieces[1:]), "pieces may stay for some time"
    found = await store.snapshots.get(records[0], START)
    assert found is not None
    found[:] = bytes(len(found))
    assert await store.snapshots.get(records[0], START) == data[0]


async def test_a_replaced_or_deleted_snapshot_leaves_no_blob(store: Store, under_test: StoreUnderTest) -> None:
    record = await store.models.create("m", b"")
    before = under_test.n_blobs()
    await store.snapshots.put(record, START, b"one")
    once = under_test.n_blobs()
    assert once > before
    await store.snapshots.put(record, START, b"two")
    await store.erased()
    assert under_test.n_blobs() == once
    await store.snapshots.retain(record, START, drop="recent")
    await store.erased()
    assert under_test.n_blobs() == before


async def test_a_snapshot_that_is_stored_and_deleted_concurrently_is_whole_or_absent(store: Store) -> None:
    record = await store.models.create("m", b"")
    for turn in range(20):
        calls = [
            store.snapshots.put(record, START, bytes([turn])),
            store.snapshots.retain(record, START, drop="recent"),
        ]
        await asyncio.gather(*(calls if turn % 2 else calls[::-1]))
        listed = bool(await store.snapshots.all(record))
        assert await store.snapshots.get(record, START) == (bytes([turn]) if listed else None)


async def test_appends_to_other_models_do_not_wait_for_a_large_snapshot(store: Store) -> None:
    record, other = await store.models.create("m", b""), await store.models.create("other", b"")
    written = await append(store, other, b"before")
    putting = asyncio.create_task(store.snapshots.put(record, START, bytes(20_000_000)))
    while not putting.done():
        written += await append(store, other, b"meanwhile", after=written[-1].position)
    await putting
    assert len(written) > 4
    assert await read_all(store, other) == written


@pytest.mark.parametrize("size", [0, 5_000_000])
async def test_a_model_can_begin_with_a_state(new_store: NewStore, size: int) -> None:
    state = random.Random(3).randbytes(size)
    store = new_store()
    await store.open()
    record = await store.models.create("m", b"spec", state)
    assert await store.models.find("m") == record
    assert position_key(START) < position_key(SEED)
    for _ in range(2):
        assert [(s.position, s.size_bytes, s.pinned) for s in await store.snapshots.all(record)] == [
            (SEED, size, False)
        ]
        assert await store.snapshots.get(record, SEED) == state
        assert await store.logs.read(record, SEED, 10) == []
        for call in (store.logs.read(record, START, 10), append(store, record, b"not added")):
            with pytest.raises(LogTrimmed, match="snapshot"):
                await call
        await store.close()
        store = new_store()
        await store.open()
    written = await append(store, record, b"1", b"2", after=SEED)
    assert payloads_of(written) == [b"1", b"2"]
    assert position_key(SEED) < position_key(written[0].position)
    assert await read_all(store, record, SEED) == written
    await store.close()


async def test_only_one_of_concurrent_creations_succeeds(stores: list[Store]) -> None:
    states = [bytes([i]) * 1000 if i % 3 else None for i in range(18)]
    calls = [stores[i % len(stores)].models.create("m", b"", state) for i, state in enumerate(states)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    (record,) = created = [outcome for outcome in outcomes if isinstance(outcome, ModelMeta)]
    assert sum(isinstance(outcome, ModelExists) for outcome in outcomes) == 17
    assert await stores[-1].models.all() == created
    assert await stores[-1].snapshots.get(record, SEED) == states[outcomes.index(record)]


async def test_a_replaced_snapshot_stays_pinned(store: Store) -> None:
    record = await store.models.create("m", b"")
    assert not await store.snapshots.retain(record, START, add="pin")
    await store.snapshots.put(record, START, b"one")
    assert await store.snapshots.retain(record, START, add="pin")
    await store.snapshots.put(record, START, b"replaced")
    await store.snapshots.retain(record, START, drop="recent")
    assert [(s.position, s.pinned) for s in await store.snapshots.all(record)] == [(START, True)]
    assert await store.snapshots.get(record, START) == b"replaced"
    assert await store.snapshots.retain(record, START, drop="pin")
    assert await store.snapshots.all(record) == []


async def test_a_pin_stays_if_the_snapshot_was_pinned_again(store: Store) -> None:
    record = await store.models.create("m", b"", b"state")
    (first,) = await store.snapshots.retain(record, SEED, add="pin")
    await store.snapshots.put(record, SEED, b"state")
    (second,) = await store.snapshots.retain(record, SEED, add="pin")
    assert second.pins > first.pins
    (left,) = await store.snapshots.retain(record, SEED, drop="pin", pins=first.pins)
    assert left.pinned
    (left,) = await store.snapshots.retain(record, SEED, drop="pin", pins=second.pins)
    assert not left.pinned


async def test_a_snapshot_stays_while_there_is_a_reason(store: Store) -> None:
    record = await store.models.create("m", b"")
    positions = [entry.position for entry in await append(store, record, b"1", b"2")]
    await store.snapshots.put(record, positions[0], b"one", LogExtent(7, 70), reasons=("history",))
    await store.snapshots.put(record, positions[1], b"two", LogExtent(8, 80))
    assert await store.snapshots.total_bytes() == 3, "a state of a history counts elsewhere"
    assert await store.snapshots.retain(record, *positions, add="history")
    assert await store.snapshots.retain(record, positions[1], drop="recent")
    assert not await store.snapshots.retain(record, positions[1], "77", add="pin")
    assert [(s.position, s.reasons, s.extent) for s in await store.snapshots.all(record)] == [
        (positions[1], ("history", "pin"), (8, 80)),
        (positions[0], ("history",), (7, 70)),
    ]
    assert await store.snapshots.retain(record, *positions, drop="history")
    assert [s.reasons for s in await store.snapshots.all(record)] == [("pin",)]
    assert await store.snapshots.get(record, positions[0]) is None
    keys = await store.blobs.keys(f"snapshots/{record.incarnation}/")
    assert [key.split("/")[2] for key in keys] == [positions[1]]


async def test_a_position_beyond_the_log_is_reported_as_lost(store: Store) -> None:
    record, other = await store.models.create("m", b""), await store.models.create("other", b"")
    for _ in range(3):
        last = (await append(store, other, b"x", b"y"))[-1].position
    first = (await append(store, record, b"1"))[-1].position
    beyond = "-".join(str(part + 9) for part in position_key(max(first, last, key=position_key)))
    for call in (
        append(store, record, b"not added", after=beyond),
        store.logs.read(record, beyond, 10),
        store.snapshots.put(record, beyond, b"of another log"),
    ):
        with pytest.raises(LogLost, match="'m'") as caught:
            await call
        assert (caught.value.name, caught.value.position) == ("m", beyond)
    assert payloads_of(await read_all(store, record)) == [b"1"]
    assert await store.snapshots.all(record) == []


# -- stored predictions -----------------------------------------------------------------------------


async def test_many_predictions_are_returned_in_the_order_of_their_ids(store: Store) -> None:
    record, other = await store.models.create("m", b""), await store.models.create("other", b"")
    kept = {f"id{i}": b"%d" % i for i in range(1200)}
    await store.predictions.put(record, kept, 600.0, 2000)
    await store.predictions.put(other, {"id1": b"of the other"}, 600.0, 2000)
    ids = ["unknown", *reversed(kept), "id7", "id7"]
    assert await store.predictions.get(record, ids) == [kept.get(id) for id in ids]
    assert await store.predictions.get(other, ["id2", "id1"]) == [None, b"of the other"]
    assert await store.predictions.get(record, []) == []


async def test_prediction_ids_are_listed_newest_first(store: Store) -> None:
    record, other = await store.models.create("m", b""), await store.models.create("other", b"")
    for number in range(5):
        await store.predictions.put(record, {f"id{number}": b""}, 600.0, 10)
    await store.predictions.put(other, {"of the other": b""}, 600.0, 10)
    assert await store.predictions.ids(record, 10) == ["id4", "id3", "id2", "id1", "id0"]
    assert await store.predictions.ids(record, 2) == ["id4", "id3"]
    assert await store.predictions.ids(record, 2, "id3") == ["id2", "id1"]
    assert await store.predictions.ids(record, 2, "id0") == []


async def test_the_size_of_stored_predictions_is_returned(store: Store) -> None:
    record, other = await store.models.create("m", b""), await store.models.create("other", b"")
    sealed = await store.predictions.put(other, {"a": bytes(1_000)}, 600.0, 10)
    assert 1_000 <= sealed < 1_100
    assert await store.predictions.put(record, {"a": bytes(1_000)}, 600.0, 10) == sealed
    assert await store.predictions.put(record, {"b": bytes(1_000), "c": bytes(1_000)}, 600.0, 10) == 3 * sealed


async def test_the_bytes_of_stored_predictions_are_limited(store: Store) -> None:
    record, other = await store.models.create("m", b""), await store.models.create("other", b"")
    kept, limits = bytes(1_000), (600.0, 10, 3_500)
    await store.predictions.put(other, {"a": kept}, *limits)
    await store.predictions.put(record, {"a": kept}, 0.3, 10, 3_500)
    await store.predictions.put(record, {"b": kept, "c": kept}, *limits)
    for new in ({"d": kept}, {"a": kept, "d": kept}, {"b": bytes(2_000)}):
        with pytest.raises(PredictionsFull) as caught:
            await store.predictions.put(record, new, *limits)
        assert (caught.value.name, caught.value.limit) == ("m", "3,500 bytes of predictions")
    assert await store.predictions.get(record, list("bcd")) == [kept, kept, None]
    await store.predictions.put(record, {"b": kept, "c": b""}, *limits)  # in place of the others
    await store.predictions.put(record, {"d": kept}, *limits)

    async def ended() -> bool:
        return not any(await store.predictions.get(record, ["a"]))

    await eventually_async(ended)
    await store.predictions.put(record, {"e": kept}, *limits)
    with pytest.raises(PredictionsFull):
        await store.predictions.put(record, {"f": kept}, *limits)
    assert await store.predictions.get(record, list("abcdef")) == [None, kept, b"", kept, kept, None]


# -- changes --------------------------------------------------------------------------------------


async def test_a_wait_for_changes_times_out(store: Store) -> None:
    record = await store.models.create("m", b"")
    await append(store, record, b"1")
    cursor = (await store.logs.changed("", 0.0)).cursor
    for seconds in (0.0, 0.1):
        changes = await store.logs.changed(cursor, seconds)
        assert (changes.cursor, changes.ends) == (cursor, {})


async def test_each_changed_log_is_reported_once_with_its_end(stores: list[Store], under_test: StoreUnderTest) -> None:
    store, other = stores[0], stores[-1]
    records = [await store.models.create(name, b"") for name in "abcd"]
    await append(store, records[0], b"1")
    first = await store.logs.changed("", 0.0)
    assert first.ends == {}
    ends: dict[int, str | None] = {}
    for record in (*records[:3], records[1]):
        ends[record.incarnation] = (await append(other, record, b"2"))[-1].position
    await other.models.delete(records[2])
    ends[records[2].incarnation] = None
    second = await store.logs.changed(first.cursor, DEADLINE_SECONDS if under_test.announces else 0.0)
    third = await store.logs.changed(second.cursor, 0.0)
    assert third.ends == {}
    if under_test.announces:
        assert (first.complete, second.complete, third.complete) == (False, True, True)
        assert second.ends == ends
    else:
        assert second.ends == ({records[2].incarnation: None} if under_test.is_shared else {})
        assert second.complete is not under_test.is_shared, "no other process can write to the embedded store"


async def test_the_ends_of_logs(store: Store) -> None:
    records = [await store.models.create(name, b"") for name in ("empty", "one", "deleted", "replaced")]
    assert await store.logs.ends(records) == dict.fromkeys((record.incarnation for record in records), START)
    ends = {record.incarnation: (await append(store, record, b"1"))[-1].position for record in records[1:]}
    successor = await store.models.stage(records[3], START)
    await store.models.replace([(records[3], successor)])
    await store.models.delete(records[2])
    expected = {**ends, records[0].incarnation: START, successor.incarnation: START}
    expected |= {records[2].incarnation: None, records[3].incarnation: None}
    assert await store.logs.ends([*records, successor]) == expected
    assert await store.logs.ends([]) == {}


async def test_closing_ends_a_wait_for_changes(new_store: NewStore) -> None:
    store = new_store()
    await store.open()

    async def wait() -> None:
        while True:
            cursor = (await store.logs.changed("", 0.0)).cursor
            await store.logs.changed(cursor, 300.0)

    waiting = asyncio.create_task(wait())
    cursor = (await store.logs.changed("", 0.0)).cursor
    await store.logs.changed(cursor, 0.05)  # it began later, so the other waits by now
    await asyncio.wait_for(store.close(), DEADLINE_SECONDS)
    with pytest.raises(StorageUnavailable):  # and no result, as at the end of the time
        await asyncio.wait_for(waiting, DEADLINE_SECONDS)


async def test_a_wait_for_changes_can_be_cancelled(store: Store, under_test: StoreUnderTest) -> None:
    record = await store.models.create("m", b"")
    cursor = (await store.logs.changed("", 0.0)).cursor
    for turn in range(50):
        waiting = asyncio.create_task(store.logs.changed(cursor, 300.0))
        for _ in range(turn % 10):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    entries = await append(store, record, b"1")
    assert payloads_of(entries) == [b"1"]
    ends = {record.incarnation: entries[0].position} if under_test.announces else {}
    assert (await store.logs.changed(cursor, 0.0)).ends == ends


# -- deletion under way, closing ------------------------------------------------------------------


async def test_calls_during_a_deletion_complete_before_it_or_raise(store: Store) -> None:
    for _ in range(10):
        record = await store.models.create("m", b"")
        position = (await append(store, record, b"1"))[-1].position
        outcomes = await asyncio.gather(
            append(store, record, b"2", after=position),
            store.snapshots.put(record, position, bytes(100_000)),
            store.snapshots.get(record, START),
            store.models.delete(record),
            store.logs.trim(record, position),
            append(store, record, b"3", after=position),
            store.snapshots.put(record, position, bytes(100_001)),
            store.snapshots.all(record),
            store.models.delete(record),
            return_exceptions=True,
        )
        assert all(isinstance(o, ModelGone) for o in outcomes if isinstance(o, BaseException))
        assert sum(o is None for o in (outcomes[3], outcomes[8])) == 1  # one of them deleted it
        successor = await store.models.create("m", b"")
        assert await read_all(store, successor) == []
        assert await store.snapshots.all(successor) == []
        assert await store.snapshots.get(successor, position) is None
        await store.models.delete(successor)


async def test_close_waits_for_calls_in_progress(new_store: NewStore) -> None:
    store = new_store()
    await store.open()
    record = await store.models.create("m", b"")
    for _ in range(10):  # wait until the tasks of the opening have ended
        await store.models.all()
    calls = [asyncio.create_task(append(store, record, b"%d" % i)) for i in range(50)]
    calls.append(asyncio.create_task(store.snapshots.put(record, START, bytes(3_000_000))))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await store.close()
    assert all(call.done() and call.exception() is None for call in calls)
    store = new_store()
    await store.open()
    assert sorted(payloads_of(await read_all(store, record))) == sorted(b"%d" % i for i in range(50))
    assert await store.snapshots.get(record, START) == bytes(3_000_000)
    await store.close()


async def test_a_closed_store_refuses_every_call(new_store: NewStore) -> None:
    store = new_store()
    await store.open()
    record = await store.models.create("m", b"")
    await store.close()
    await store.close()
    for call in CALLS.values():
        with pytest.raises(StorageUnavailable, match="not open"):
            await call(store, record)
    for refused in (
        store.models.all(),
        store.models.create("n", b""),
        store.models.create("n", b"", b"state"),
        store.models.find("m"),
        store.logs.changed("", 0.01),
        store.logs.ends([record]),
    ):
        with pytest.raises(StorageUnavailable, match="not open"):
            await refused


async def test_successors_replace_their_models_atomically(store: Store) -> None:
    records = [await store.models.create(name, b"old") for name in ("one", "two", "three")]
    staged = [await store.models.stage(record, START) for record in records[:2]]
    assert await store.models.all() == records
    successors = [
        *(ModelMeta(record.name, record.incarnation, b"new") for record in staged),
        ModelMeta("three", records[2].incarnation, b"changed"),
    ]
    gone = ModelMeta("two", staged[1].incarnation + 1_000, b"new")
    for second in (gone, ModelMeta("two", records[0].incarnation, b"new")):
        with pytest.raises(ModelGone):
            await store.models.replace([(records[0], successors[0]), (records[1], second)])
        assert await store.models.all() == records
    await store.logs.append(records[2], [b"kept"], START)
    await store.models.replace(list(zip(records, successors, strict=True)))
    assert sorted(await store.models.all(), key=lambda record: record.name) == sorted(
        successors, key=lambda record: record.name
    )
    for record in records[:2]:
        with pytest.raises(ModelGone):
            await store.logs.read(record, START, 10)
    assert [entry.payload for entry in await read_all(store, successors[2])] == [b"kept"]
    discarded = await store.models.stage(successors[0], START)
    await store.snapshots.put(discarded, START, b"copy")
    assert await store.snapshots.total_bytes() == 4
    await store.models.discard(discarded)
    assert await store.snapshots.total_bytes() == 0
    with pytest.raises(ModelGone):
        await store.models.replace([(successors[0], discarded)])


# -- lists of models ------------------------------------------------------------------------------


async def names_of(store: Store, prefix: str, limit: int) -> list[str]:
    """The names with a prefix, read page by page."""
    names, after = list[str](), ""
    while page := await store.models.page(prefix, after, limit):
        assert len(page) <= limit
        names += [record.name for record in page]
        after = names[-1]
    return names


async def recent_names(store: Store, limit: int) -> list[str]:
    names, before = list[str](), None
    while page := await store.models.recent(before, limit):
        assert len(page) <= limit
        names += [use.record.name for use in page]
        before = page[-1].unix_ms, page[-1].record.name
    return names


async def test_models_are_listed_by_prefix_in_pages(stores: list[Store]) -> None:
    names = ["b", "a-2", "a-10", "a", "a-1", "c", "a.b"]
    for n, name in enumerate(names):
        await stores[n % len(stores)].models.create(name, name.encode())
    store = stores[-1]
    assert await store.models.count() == len(names)
    for limit in (1, 2, 100):
        assert await names_of(store, "", limit) == sorted(names)
        assert await names_of(store, "a-", limit) == ["a-1", "a-10", "a-2"]
        assert await names_of(store, "x", limit) == []
    assert [record.spec for record in await store.models.page("a-1", "a", 10)] == [b"a-1", b"a-10"]
    assert await store.models.page("a-", "b", 10) == []
    assert await store.models.existing(set()) == {}
    found = await stores[0].models.find("a-1")
    assert found is not None
    replacing = await stores[0].models.stage(found, START)
    assert await store.models.count() == len(names), "a successor has no name yet"
    both, unknown = {found.incarnation, replacing.incarnation}, {2**40}
    assert (await stores[0].models.existing(both | unknown)).keys() == both
    await store.models.replace([(found, replacing)])
    assert await store.models.existing(both | unknown) == {replacing.incarnation: "a-1"}
    await store.models.delete(replacing)
    assert await store.models.existing(both) == {}
    assert await names_of(store, "a-", 100) == ["a-10", "a-2"]
    assert await store.models.count() == len(names) - 1


async def test_models_are_listed_by_their_last_use(stores: list[Store]) -> None:
    records = [await stores[0].models.create(name, b"") for name in "abcdef"]
    store = stores[-1]
    assert all(0 <= use.age_ms < 60_000 for use in await store.models.recent(None, 100)), "a new model counts as used"
    await store.models.use(dict.fromkeys(["a", "b", "c", "d", "nobody"], -10_000_000))
    await store.models.use({"c": -20_000_000, "a": 1_000})
    await store.models.use({})
    first, *_, last = await store.models.recent(None, 100)
    assert first.record == records[2]
    assert first.unix_ms - last.unix_ms > 10_000_000
    for limit in (1, 2, 100):
        names = await recent_names(store, limit)
        assert (names[0], set(names[1:4]), len(names)) == ("c", set("abd"), 6)
    successor = await store.models.stage(records[2], START)
    await store.models.replace([(records[2], successor)])
    (found,) = await store.models.recent(None, 1)
    assert (found.record, found.unix_ms) == (successor, first.unix_ms), "the model is the same to its users"
    await store.models.delete(records[3])
    assert set((await recent_names(store, 2))[:3]) == set("abc")
    await store.models.create("d", b"")
    assert set((await recent_names(store, 2))[:3]) == set("abc"), "another model of the same name"


def following(leader: ModelMeta) -> bytes:
    return b'{"follow": {"model": "%s", "incarnation": %d}}' % (leader.name.encode(), leader.incarnation)


async def test_the_followers_of_a_model_are_found(stores: list[Store]) -> None:
    one, other = [await stores[0].models.create(name, b'a spec without "follow"') for name in ("one", "other")]
    first, second = [await stores[0].models.create(name, following(one)) for name in ("z", "a")]
    store = stores[-1]
    assert await store.models.followers(one) == [first, second]
    assert await store.models.followers(other) == []
    staged = await store.models.stage(first, START)
    assert await store.models.followers(one) == [first, second], "a successor has no name yet"
    await store.models.replace([(first, ModelMeta("z", staged.incarnation, following(other)))])
    assert [each.name for each in await store.models.followers(other)] == ["z"]
    assert await store.models.followers(one) == [second]
    await store.models.replace([(second, ModelMeta("a", second.incarnation, b"its own log"))])
    assert await store.models.followers(one) == []
    for record in await store.models.followers(other):
        await store.models.delete(record)
    assert await store.models.followers(other) == []


async def test_keys_of_blobs_are_listed_in_pages(stores: list[Store]) -> None:
    keys = ["a/1", "a/10", "a/2", "b", "b/1"]
    for n, key in enumerate(keys):
        await stores[n % len(stores)].blobs.put(key, pieces_of(b"data"))
    store = stores[-1]
    assert await store.blobs.keys() == keys
    assert await store.blobs.keys("a/", limit=2) == keys[:2]
    assert await store.blobs.keys("a/", after="a/10") == keys[2:3]
    assert await store.blobs.keys(after="a/10", limit=2) == keys[2:4]
    await store.blobs.delete("a/10")
    await store.blobs.put("a/1", pieces_of(b"other"))
    assert await store.blobs.keys("a/") == ["a/1", "a/2"]
