"""Events of logs: those of the model in memory and those read from the log again are the same."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.service.online.folds import DRIFTING_LENGTH, drifting
from tests.service.online.forgetting.test_forgetting import forgotten
from tests.support.waiting import eventually_async

from manylabel_service import ulid
from manylabel_service.clock import now_ms
from manylabel_service.errors import ReplayMismatch
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.models.garbage import collect_garbage
from manylabel_service.models.membership import Member
from manylabel_service.models.registry import Registry
from manylabel_service.online.history.lineage import Lineage
from manylabel_service.online.replica import Replica
from manylabel_service.online.successor.rewriter import Selection
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.settings import Settings
from manylabel_service.storage import START, ModelMeta, position_key
from manylabel_service.storage.document_pages import check_document
from manylabel_service.webhooks import sources
from manylabel_service.webhooks.sources import Sources
from manylabel_service.webhooks.webhook import (
    MAX_DELIVERIES,
    MAX_QUEUED,
    STATES,
    Delivery,
    DeliveryState,
    Message,
    Webhook,
    message_of,
)

DEFINITION = Webhook(id="w", url="", secret="", events=["drift", "label"], models=["*"], created_unix_ms=0)


class NoJobs:
    """Jobs of a server that has none."""

    def changed_since(self, revision: int) -> list[Any]:
        return []


class Reader:
    """A webhook that reads the sources of a registry."""

    def __init__(self, fleet: Any, registry: Registry, state: DeliveryState | None = None) -> None:
        self.state = state or DeliveryState(positions={}, jobs=0, versions=0, predictions_unix_ms=0)
        self.sources = Sources(fleet.store(registry), Settings(), registry, NoJobs())  # type: ignore[arg-type]

    async def poll(self) -> None:
        await self.sources.poll([(DEFINITION, self.state)])

    async def look(self) -> None:
        await self.sources.look([(DEFINITION, self.state)])

    @property
    def queued(self) -> list[tuple[str, str]]:
        """Ids and bodies without their times."""
        return [(each.id, without_time(each)) for each in self.state.queue]


def without_time(message: Message) -> str:
    return message.body.split('"data":')[1]


def labelled(*labels: str) -> Example:
    return Example(Features(("a",), None, labelled.values), Labels.all_of(labels))  # type: ignore[attr-defined]


labelled.values = drifting(0).x.values[:1]  # type: ignore[attr-defined]


async def hosted(fleet: Any, **spec: Any) -> tuple[Registry, Replica]:
    registry = await fleet.start(snapshot_every_updates=100)
    await registry.create(fleet.spec(**spec))
    return registry, await registry.get("m")


async def test_events_read_from_the_log_equal_those_in_memory(any_fleet: Any) -> None:
    registry, replica = await hosted(any_fleet, params={"drift": "adwin"})
    live, positions, snapshot = Reader(any_fleet, registry), list[str](), None
    for start in range(0, DRIFTING_LENGTH, 40):
        await live.poll()
        receipt = await replica.update([drifting(i) for i in range(start, start + 40)])
        if start % 200 == 0:
            snapshot = await replica.take_snapshot() if start == 200 else snapshot
            await replica.update([labelled(f"new{start}", f"newer{start}")])
        if snapshot is not None and start == 400:
            await replica.rollback(snapshot.position)
        positions.append(receipt.position)
    await live.poll()
    assert {each.type for each in live.state.queue} == {"drift", "label"}
    late = Reader(any_fleet, registry)
    await late.poll()
    assert late.queued == live.queued
    for position in positions[::5]:  # wherever a server died
        state = DeliveryState(positions={}, jobs=0, versions=0, predictions_unix_ms=0)
        state.positions[str(replica.record.incarnation)] = position
        again = Reader(any_fleet, registry, state)
        await again.poll()
        after = position_key(position)
        later = [
            each.id for each in live.state.queue if position_key(json.loads(each.body)["data"]["position"]) > after
        ]
        assert [id for id, _ in again.queued] == later
        past = await ModelFiles(replica.record, any_fleet.store(registry)).events(position, replica.position)
        assert all(position_key(event.position) > after for event in past or ())
        assert state.position(replica.record) == live.state.position(replica.record)
    last = await ModelFiles(replica.record, any_fleet.store(registry)).events(replica.position, replica.position)
    assert last == []


class OneAtATime:
    """Slices of one example: between any two, other tasks run."""

    examples = 1

    def observe(self, examples: int, seconds: float) -> None:
        pass


async def test_no_event_is_missed_while_the_model_is_learning(lone_fleet: Any) -> None:
    """Polls in the middle of a group of entries find each label once; so do readers that begin there."""
    registry, replica = await hosted(lone_fleet)
    replica._replayer._slice = OneAtATime()  # type: ignore[assignment]
    readers, done = [Reader(lone_fleet, registry)], False

    async def poll() -> None:
        while not done:
            for reader in tuple(readers):
                await reader.poll()
            await asyncio.sleep(0)

    polling = asyncio.create_task(poll())
    for number in range(30):
        learning = asyncio.gather(*(replica.update([labelled(f"{number}-{i}")]) for i in range(5)))
        if number in (10, 20):
            before = replica.position
            await eventually_async(lambda before=before: replica.position != before)  # type: ignore[misc]
            readers[-1].sources.close()
            readers.append(Reader(lone_fleet, registry, readers[-1].state.model_copy(deep=True)))
            del readers[0]
        await learning
    done = True
    await polling
    await readers[-1].poll()
    told = "".join(body for _, body in readers[-1].queued)
    assert [told.count(f'"{number}-{i}"') for number in range(30) for i in range(5)] == [1] * 150
    assert len({id for id, _ in readers[-1].queued}) == len(readers[-1].queued)


async def test_no_event_is_lost_when_a_model_is_evicted(lone_fleet: Any) -> None:
    registry, replica = await hosted(lone_fleet)
    reader = Reader(lone_fleet, registry)
    await reader.poll()
    await replica.update([labelled("a")])
    await replica.cover()
    registry._evict(replica)
    await reader.poll()
    assert [body for _, body in reader.queued if '"a"' in body]
    again = await registry.get("m")
    assert isinstance(again, Replica)
    await again.update([labelled("b")])
    await reader.poll()
    assert len(reader.queued) == 2
    assert '"b"' in reader.queued[1][1]


async def test_a_trimmed_log_is_reported_as_dropped_events(lone_fleet: Any) -> None:
    registry, replica = await hosted(lone_fleet)
    receipts = [await replica.update([labelled(label)]) for label in "abcd"]
    record, store = replica.record, lone_fleet.store(registry)
    await replica.take_snapshot()
    await eventually_async(lambda: _listed(store, record))
    for snapshot in (await store.snapshots.all(record))[1:]:
        await store.snapshots.retain(record, snapshot.position, drop="recent")
    await store.logs.trim(record, replica.position)
    state = DeliveryState(
        positions={str(record.incarnation): receipts[0].position}, jobs=0, versions=0, predictions_unix_ms=0
    )
    reader = Reader(lone_fleet, registry, state)
    assert await ModelFiles(record, store).events(receipts[0].position, replica.position) is None
    await reader.poll()
    assert [(each.type, without_time(each)) for each in state.queue] == [("dropped", '{"model":"m","count":null}}')]
    await replica.update([labelled("e")])
    await reader.poll()
    assert '"e"' in reader.queued[1][1]


async def _listed(store: Any, record: Any) -> bool:
    return bool(await store.snapshots.all(record))


async def test_events_beyond_the_memory_limit_are_read_from_the_log(
    lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_WAITING", 10)
    registry, replica = await hosted(lone_fleet)
    reader = Reader(lone_fleet, registry)
    await reader.poll()
    for number in range(35):
        await replica.update([labelled(f"l{number}")])
    await reader.poll()
    assert len(reader.queued) == 35
    assert [f'"l{n}"' in body for n, (_, body) in enumerate(reader.queued)] == [True] * 35


async def test_events_of_other_servers_are_found(fleet: Any) -> None:
    _, replica = await hosted(fleet)
    other = await fleet.start(preload=False)
    reader = Reader(fleet, other)
    reader.state.positions, _ = await reader.sources.positions(DEFINITION)
    assert not other.resident()
    await replica.update([labelled("a")])
    await reader.poll()
    assert not reader.queued, "the model is not in memory there"
    await reader.look()
    await eventually_async(_until(reader, 1))
    await replica.update([labelled("b")])
    await eventually_async(_until(reader, 2))
    assert position_key(reader.state.position(replica.record)) > position_key(START)


def _until(reader: Reader, number: int) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        await reader.poll()
        return len(reader.queued) == number

    return holds


async def test_a_webhook_forgets_models_that_are_gone(lone_fleet: Any) -> None:
    registry, replica = await hosted(lone_fleet)
    reader = Reader(lone_fleet, registry)
    await replica.update([labelled("a")])
    await reader.poll()
    assert reader.state.positions
    await registry.delete("m")
    await reader.look()
    assert reader.state.positions == {}


async def test_predictions_that_were_examined_load_no_model(any_fleet: Any) -> None:
    registry = await any_fleet.start()
    ids = {}
    for name in ("a", "b"):
        replica = await registry.create(any_fleet.spec(name))
        await replica.update([labelled("p"), labelled("q")])
        xs = [labelled("p").x]
        ids[name] = ulid.make(now_ms() - 10_000, name.encode() * ulid.N_RANDOM_BYTES)
        await replica.keep([ids[name]], xs, (await replica.predict(xs)).predictions)
    await any_fleet.stop(registry)
    registry = await any_fleet.start(preload=False)
    webhook = DEFINITION.model_copy(update={"events": ["review"]})
    later = DeliveryState(positions={}, jobs=0, versions=0, predictions_unix_ms=ulid.timestamp_of(ids["b"]))
    reader = Reader(any_fleet, registry, later)
    await reader.sources.look([(webhook, later)])
    assert registry.resident() == []
    assert later.predictions_unix_ms > ulid.timestamp_of(ids["b"])
    earlier = later.model_copy(update={"predictions_unix_ms": 0})
    await reader.sources.look([(webhook, earlier)])
    assert [model.name for model in registry.resident()] == ["a", "b"]


@pytest.fixture
def soon_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model counts as unchanged soon after its last recorded use."""
    monkeypatch.setattr(sources, "LATELY_MS", 60)
    monkeypatch.setattr(sources, "UNCHANGED_MS", 30)


async def learnt(registry: Registry, names: str, label: str) -> None:
    """Have models learn a new label, and record that they were used."""
    for name in names:
        await (await registry.get(name)).update([labelled(f"{label}{name}")])
    await registry.uses.record()


def labels_in(reader: Reader) -> list[str]:
    return sorted(label for _, body in reader.queued for label in json.loads(body[:-1])["labels"])


async def test_positions_of_unchanged_models_are_dropped_and_no_event_is_lost_or_repeated(
    any_fleet: Any, monkeypatch: pytest.MonkeyPatch, soon_unchanged: None
) -> None:
    monkeypatch.setattr(sources, "MAX_POSITIONS", 0)
    registry = await any_fleet.start()
    for name in "abcde":
        await registry.create(any_fleet.spec(name))
    reader = Reader(any_fleet, registry)
    await learnt(registry, "abcde", "first")
    await reader.poll()

    async def dropped() -> bool:
        await reader.look()
        return not reader.state.positions

    await eventually_async(dropped)
    assert reader.state.since_unix_ms
    await learnt(registry, "ad", "second")
    await reader.poll()
    assert len(reader.state.positions) == 2
    found = [f"first{name}" for name in "abcde"] + ["seconda", "secondd"]
    assert labels_in(reader) == found
    await any_fleet.stop(registry)

    registry = await any_fleet.start(preload=False)
    reader = Reader(any_fleet, registry, DeliveryState.model_validate_json(reader.state.to_bytes()))
    await learnt(registry, "b", "third")
    await reader.poll()
    await reader.look()
    await reader.poll()
    assert labels_in(reader) == [*found, "thirdb"]
    gone = str((await registry.get("b")).record.incarnation)
    assert gone in reader.state.positions
    await registry.delete("b")
    await reader.look()
    assert gone not in reader.state.positions


async def test_a_new_webhook_has_seen_models_that_have_not_changed_lately(any_fleet: Any, soon_unchanged: None) -> None:
    registry = await any_fleet.start()
    for name in "ab":
        await registry.create(any_fleet.spec(name))
    await learnt(registry, "ab", "before")
    reader = Reader(any_fleet, registry)

    async def unchanged() -> bool:
        reader.state.positions, reader.state.since_unix_ms = await reader.sources.positions(DEFINITION)
        return not reader.state.positions

    await eventually_async(unchanged)
    await reader.poll()
    assert not reader.queued
    await learnt(registry, "a", "after")
    await reader.poll()
    assert labels_in(reader) == ["aftera"]


async def test_a_model_changed_by_a_server_that_died_is_found(
    fleet: Any, monkeypatch: pytest.MonkeyPatch, quick_expiry: None
) -> None:
    """The use before the last change was not recorded, and is long ago."""
    monkeypatch.setattr(sources, "LATELY_MS", -1_000_000)
    monkeypatch.setattr(sources, "MAX_POSITIONS", 0)
    dying, replica = await hosted(fleet)
    other = await fleet.start(preload=False)
    reader = Reader(fleet, other)
    for _ in range(2):
        await reader.look()
    await replica.update([labelled("a")])
    await reader.look()
    assert other.resident() == []
    await fleet.kill(dying)

    async def found() -> bool:
        await other.membership.look()
        await reader.look()
        await reader.poll()
        return bool(reader.queued)

    await eventually_async(found)


async def test_an_unchanged_lineage_is_read_once(any_fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, replica = await hosted(any_fleet)
    await replica.update([labelled("p")._replace(ref="r"), labelled("q")])
    await forgotten(registry, Selection(refs=frozenset(["r"])))
    reader, parsed, read = Reader(any_fleet, registry), 0, Lineage.model_validate_json

    def counted(value: bytes) -> Lineage:
        nonlocal parsed
        parsed += 1
        return read(value)

    await reader.poll()
    await registry.successions.look()
    monkeypatch.setattr(Lineage, "model_validate_json", counted)
    for _ in range(5):
        await reader.poll()
        await reader.look()
        await registry.successions.look()
        await collect_garbage(any_fleet.store(registry))
    assert parsed == 0
    await forgotten(registry, Selection(refs=frozenset(["unknown"])))
    await reader.poll()
    assert parsed > 0


def test_the_state_of_a_webhook_fits_in_a_document_with_the_most_positions() -> None:
    positions = {str(2**31 + n): "1700000000000-1000000" for n in range(sources.MAX_POSITIONS)}
    state = DeliveryState(positions=positions, jobs=2**40, versions=2**40, predictions_unix_ms=2**41)
    for n in range(MAX_QUEUED):
        state.add(message_of("label", {"labels": ["\u20ac" * 80]}, n))
    for n in range(MAX_DELIVERIES):
        facts: dict[str, Any] = {"event": f"evt_{n:032}", "type": "label", "unix_ms": 2**41, "attempt": n}
        state.note(Delivery(**facts, milliseconds=9, status=500, error="status"))
    check_document(STATES, "id", state.to_bytes())


async def test_the_description_of_a_server_fits_in_a_document(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    for n in range(2_000):
        model = Replica(ModelMeta(name := f"{n:064}", n + 10, lone_fleet.spec(name).to_bytes()), registry._shared)
        model.withhold(ReplayMismatch("for the test"))
        registry._replicas.add(model)
    described = registry._standing()
    assert not described["ready"]
    assert len(described["withheld"]) == 100
    check_document("replicas", "id", Member(id="0" * 16, **described).to_bytes())
    for model in list(registry._replicas.values()):
        registry._replicas.remove(model)
