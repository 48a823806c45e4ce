"""A model that is restored without some examples is as if it had never seen them."""

import random
from typing import Any

import pytest
from tests.service.archive.origin import Make, opened, same_state, start_origin
from tests.service.fleet import Fleet
from tests.service.online.forgetting.test_forgetting import (
    REF,
    features_of,
    forgotten,
    named,
    never_seen,
    refs_of,
    some_named,
)
from tests.service.online.history.test_history import entries_of, lived
from tests.support.crashes import crash_at_every_step

from manylabel_service.archive.restoring import Without, restore
from manylabel_service.archive.store_documents import RESTORE, check_complete
from manylabel_service.errors import PositionNotFound, StoreUnusable
from manylabel_service.models.forgetting import Forgetter
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.online.successor.rewriter import Selection
from manylabel_service.settings import Settings
from manylabel_service.storage.places.files import FilePlace

__all__ = ["some_named"]

NAMED = Without(refs=frozenset([REF]))


@pytest.mark.usefixtures("some_named")
@pytest.mark.parametrize(
    ("source", "target", "algorithms"),
    [("sqlite", "redis", ["falt", "kernel_salt"]), ("redis", "sqlite", ["salt", "kernel_passive_aggressive"])],
)
async def test_a_restored_model_is_as_if_it_had_never_seen_the_examples(
    source: str, target: str, algorithms: list[str], place: FilePlace, new_store: Make
) -> None:
    """With labels in parts, labels renamed, retired, paused, described and grouped, and rollbacks."""
    origin = await start_origin(new_store(source), place)
    rng, expected, through = random.Random(11), {}, {}
    for algorithm in algorithms:
        replica = await origin.registry.create(Fleet.spec(algorithm, algorithm=algorithm, window=20))
        await lived(replica, rng, 60)
        entries = await entries_of(replica)
        through[algorithm] = entries[-1].position
        expected[algorithm] = never_seen(replica.spec, entries)
    await origin.shipper.ship()
    await origin.fleet.end()

    make = new_store(target)
    store = await opened(make)
    for algorithm in expected:
        restored = await restore(place, store, Settings(), model=algorithm, without=NAMED)
        assert restored.models[algorithm][0] == through[algorithm]
        assert restored.receipt is not None
        assert restored.receipt.examples > 5
    await store.close()
    other = await start_origin(make, place)
    for algorithm, states in expected.items():
        copy = await other.replica(algorithm)
        assert same_state(copy.model, states[through[algorithm]])
        assert REF not in refs_of(await entries_of(copy))
        for position in rng.sample(sorted(states), 3):
            assert same_state(await copy.state_at(position), states[position])
        assert (await copy.verify()).equal
        (receipt,) = await Forgetter(other.registry.successions).receipts(algorithm)
        assert (receipt.status, receipt.archive) == ("done", "pending")
        await lived(copy, rng, 5)
        entries = await entries_of(copy)
        assert same_state(copy.model, never_seen(copy.spec, entries, Selection())[entries[-1].position])


async def test_examples_are_named_by_position(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    replica = await origin.registry.create(Fleet.spec())
    for n in range(40):
        await replica.update([named(None, f"l{n % 3}", a=n % 4, b=1)])
    entries = await entries_of(replica)
    some = frozenset(entry.position for entry in entries[4:20:3])
    expected = never_seen(replica.spec, entries, Selection(positions=some))
    await origin.shipper.ship()
    until = entries[30].position
    assert not same_state(expected[until], await replica.state_at(until))

    make = new_store("sqlite")
    store = await opened(make)
    with pytest.raises(PositionNotFound):
        await restore(place, store, Settings(), model="m", without=Without(positions=frozenset([*some, "999"])))
    await check_complete(store)
    assert await store.models.all() == []
    settings = Settings(history_bytes=0)
    await restore(place, store, settings, model="m", until=until, without=Without(positions=some))
    assert await store.blobs.keys("history/") == []
    await store.close()
    other = await start_origin(make, place, history_bytes=0)
    assert same_state((await other.replica()).model, expected[until])
    await other.fleet.end()

    store = await opened(new_store("sqlite"))
    none = await restore(place, store, Settings(), model="m", without=Without(refs=frozenset(["unknown"])))
    assert none.receipt is not None
    assert (none.receipt.status, none.receipt.examples, none.receipt.since) == ("done", 0, "0")


async def test_all_lines_of_an_entry_of_a_stream_are_left_out(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    replica = await origin.registry.create(Fleet.spec())
    await replica.update([named(None, b=1)])
    for line in (1, 2):
        await replica.update([named(REF, a=line)], stream=StreamPart("s", (line,)))
    await origin.shipper.ship()
    make = new_store("sqlite")
    store = await opened(make)
    restored = await restore(place, store, Settings(), model="m", without=NAMED)
    assert restored.receipt is not None
    assert restored.receipt.examples == 2
    await store.close()
    copy = await (await start_origin(make, place)).replica()
    assert (await copy.update([named(None, a=1)], stream=StreamPart("s", (2,)))).replayed
    assert (copy.model.updates, features_of(copy)) == (1, "b")


@pytest.mark.usefixtures("some_named")
@pytest.mark.parametrize("done", [False, True], ids=["not made", "answer lost"])
async def test_a_failure_at_any_step_restores_nothing(done: bool, place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await lived(await origin.registry.create(Fleet.spec()), random.Random(5), 20)
    await origin.shipper.ship()
    store = await opened(new_store("sqlite"))

    async def restored(failing: Any, calls: int) -> None:
        assert (await restore(place, failing, Settings(), model="m", without=NAMED)).receipt is not None

    marked = []

    async def check(calls: int) -> None:
        if await store.documents.revisions(RESTORE):
            marked.append(calls)
            with pytest.raises(StoreUnusable):
                await check_complete(store)
        else:
            assert (await store.models.all(), await store.blobs.keys()) == ([], [])

    crashes = await crash_at_every_step(store, restored, check, done=done, lasting=False)
    assert crashes > 10
    assert len(marked) < crashes / 2, "a mark is left only while it is set, or while remnants of a marked store go"
    await check_complete(store)
    assert len(await store.models.all()) == 1


async def test_examples_that_the_store_no_longer_has_are_forgotten_from_the_archive(
    place: FilePlace, new_store: Make
) -> None:
    """The archive has the whole log; the history of the store begins later, so the model cannot forget by itself."""
    origin = await start_origin(new_store("sqlite"), place, history_bytes=0, archive=f"file://{place._root}")
    replica = await origin.registry.create(Fleet.spec())
    for ref in (REF, None, None, None):  # older snapshots go, and the log before them
        await replica.update([named(ref, a=1), named(b=1)])
        await origin.snapshot()
        await origin.shipper.ship()
    receipt = await forgotten(origin.registry)
    assert receipt.examples == 0
    assert "restore --without" in str(receipt.beyond_reach)
    position = (await origin.replica()).position
    await origin.fleet.end()
    store = await opened(new_store("sqlite"))
    restored = await restore(place, store, Settings(), model="m", without=NAMED)
    assert restored.receipt is not None
    assert restored.receipt.examples == 1
    assert restored.models["m"][0] == position
