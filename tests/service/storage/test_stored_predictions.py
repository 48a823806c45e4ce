"""The cost of calls on stored predictions, which share a thread with appends, is bounded."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.service.stores import REAL
from tests.support.waiting import eventually_async

from manylabel_service.errors import PredictionsFull
from manylabel_service.storage import ModelMeta, SQLiteStore, Store
from manylabel_service.storage.redis import RedisStore
from manylabel_service.storage.redis.keys import Keys
from manylabel_service.storage.redis.predictions import SWEPT_AT_ONCE
from manylabel_service.storage.redis.scripts import DROP_PREDICTIONS
from manylabel_service.storage.redis.store import UPKEEP_SECONDS
from manylabel_service.storage.sqlite.predictions import MIN_EXPIRED

MANY = 2_000


async def n_rows(store: Any, record: ModelMeta) -> int:
    """The predictions of a model that the store has, expired ones included."""
    if not isinstance(store, SQLiteStore):
        return int(await store.engine.connection.command("ZCARD", Keys.of(record).due))
    engine = store.engine
    query = "SELECT count(*) FROM predictions WHERE incarnation = ?"
    (count,) = await engine.threads.write(
        lambda: engine.tables.connection.execute(query, (record.incarnation,)).fetchone()
    )
    return int(count)


async def expired(store: Store, record: ModelMeta, number: int = MANY) -> None:
    """Leave one live prediction, without which Redis removes all at once, and some that have expired."""
    ids = [f"old{i}" for i in range(number)]
    await store.predictions.put(record, {"live": b"x"}, 600.0, number + 1)
    await store.predictions.put(record, dict.fromkeys(ids, b"x"), 0.05, number + 1)

    async def over() -> bool:
        return not any(await store.predictions.get(record, ids))

    assert await eventually_async(over)


@pytest.mark.parametrize("stores_in", REAL, indirect=True)
async def test_expired_predictions_are_removed_in_steps(store: Store) -> None:
    record = await store.models.create("m", b"")
    await expired(store, record)
    before = await n_rows(store, record)
    await store.predictions.put(record, {"new": b"x"}, 600.0, 2 * MANY)
    after = await n_rows(store, record)
    assert before - 2 - MIN_EXPIRED <= after - 1 < before, "some of them"
    for number in range(MANY // MIN_EXPIRED + 1):
        await store.predictions.put(record, {"new": b"%d" % number}, 600.0, 2 * MANY)
    assert await n_rows(store, record) == 2


@pytest.mark.parametrize(("most", "most_bytes"), [(MANY + 1, 2**40), (2 * MANY, 40 * MANY)], ids=["number", "bytes"])
async def test_expired_predictions_make_room_for_new_ones(store: Store, most: int, most_bytes: int) -> None:
    record = await store.models.create("m", b"")
    await expired(store, record)
    new = {f"new{i}": bytes(20) for i in range(1_000)}
    await store.predictions.put(record, new, 600.0, most, most_bytes)
    assert await store.predictions.get(record, ["new0", "new999", "old0"]) == [bytes(20), bytes(20), None]
    assert sorted(await store.predictions.ids(record, 2 * MANY)) == sorted([*new, "live"])
    with pytest.raises(PredictionsFull):
        await store.predictions.put(record, dict.fromkeys("abc", b"x"), 600.0, 1_003)
    await store.predictions.put(record, dict.fromkeys("ab", b"x"), 600.0, 1_003)


@pytest.mark.parametrize("stores_in", ["sqlite"], indirect=True)  # Redis removes these in upkeep; see below
async def test_expired_predictions_of_an_unused_model_are_removed(store: Store) -> None:
    record, other = [await store.models.create(name, b"") for name in ("m", "other")]
    await expired(store, record, 100)
    for number in range(2):
        await store.predictions.put(other, {f"{number}": b"x"}, 600.0, 10)
    assert await n_rows(store, record) == 1


@pytest.mark.parametrize("stores_in", ["redis", "cluster"], indirect=True)
async def test_redis_never_removes_all_predictions_of_a_model_in_one_step(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis frees a collection that expires in one step, and its clients wait; so it has to be empty by then."""
    assert isinstance(store, RedisStore)
    connection = store.engine.connection
    record, idle = [await store.models.create(name, b"") for name in ("m", "idle")]
    keys = Keys.of(record)
    await store.predictions.put(record, {"live": b"x"}, 600.0, 10)
    expiry = [await connection.command("PTTL", key) for key in (keys.prediction("live"), keys.due, keys.sizes)]
    assert expiry[0] + 1000 * UPKEEP_SECONDS < expiry[1] < expiry[2], "upkeep comes first, and one after the other"
    for each in (record, idle):
        await expired(store, each, 2 * SWEPT_AT_ONCE + 1)
    calls: list[int] = []
    run = connection.run

    async def noted(script: Any, keys: Any, *arguments: Any) -> Any:
        answer = await run(script, keys, *arguments)
        if script is DROP_PREDICTIONS:
            calls.append(int(answer[1]))
        return answer

    monkeypatch.setattr(connection, "run", noted)
    await store.predictions.drop_expired()
    assert [await n_rows(store, each) for each in (record, idle)] == [1, 1]
    assert calls == [SWEPT_AT_ONCE, SWEPT_AT_ONCE, 1] * 2
    await store.predictions.drop_expired()
    assert len(calls) == 6, "the live ones expire later"


async def test_limits_hold_after_a_refusal_a_replacement_and_a_restart(
    sqlite_store: SQLiteStore,
) -> None:
    store = sqlite_store
    record = await store.models.create("m", b"")
    sealed = await store.predictions.put(record, {"a": b"1"}, 600.0, 3)
    with pytest.raises(PredictionsFull):
        await store.predictions.put(record, dict.fromkeys("bcd", b"1"), 600.0, 3)
    assert await store.predictions.put(record, {"a": b"2", "b": b"1"}, 600.0, 3) == 2 * sealed
    await store.close()
    again = SQLiteStore(store.engine.directory)
    await again.open()
    assert await again.predictions.put(record, {"c": b"1"}, 600.0, 3) == 3 * sealed
    with pytest.raises(PredictionsFull):
        await again.predictions.put(record, {"d": b"1"}, 600.0, 3)
    await again.close()


@pytest.mark.parametrize(("stored", "most"), [("live", 1_000), ("expired", 100 * MIN_EXPIRED)])
async def test_a_put_costs_the_same_with_many_stored_predictions(
    sqlite_store: SQLiteStore, stored: str, most: int
) -> None:
    """Work is counted in instructions of SQLite's virtual machine."""
    engine = sqlite_store.engine
    record = await sqlite_store.models.create("m", b"")

    async def instructions(put: Callable[[], Any]) -> int:
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        await engine.threads.write(engine.tables.connection.set_progress_handler, count, 100)
        await put()
        await engine.threads.write(engine.tables.connection.set_progress_handler, None, 100)
        return 100 * steps

    async def put_one() -> None:
        await sqlite_store.predictions.put(record, {"new": b"x"}, 600.0, 10 * MANY)

    if stored == "live":
        ids = [f"{i:06d}" for i in range(MANY)]
        await sqlite_store.predictions.put(record, dict.fromkeys(ids, b"x"), 600.0, MANY)
    else:
        await expired(sqlite_store, record)
    assert await instructions(put_one) <= most
    if stored == "live":
        with pytest.raises(PredictionsFull):
            await sqlite_store.predictions.put(record, {"more": b"x"}, 600.0, MANY + 1)


async def test_the_predictions_of_a_deleted_model_are_removed_in_steps(
    sqlite_store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sqlite_store.predictions
    forget, pieces = rows.forget, []

    def counted(incarnation: int, *most: int) -> Any:
        pieces.append(most)
        return forget(incarnation, *most)

    monkeypatch.setattr(rows, "forget", counted)
    record = await sqlite_store.models.create("m", b"")
    await sqlite_store.predictions.put(record, {f"{i}": b"x" for i in range(MANY)}, 600.0, MANY)
    await sqlite_store.models.delete(record)
    await sqlite_store.cleaned()
    assert await n_rows(sqlite_store, record) == 0
    assert len(pieces) > 2
