"""Events of a model: ordered, resumable on any server, limited, and with a count of those dropped."""

import asyncio
import gc
from typing import Any, get_args

import pytest
from tests.service.online.folds import DRIFTING_LENGTH as LENGTH
from tests.service.online.folds import drifting
from tests.support.waiting import eventually_async

from manylabel_service.errors import TooManyWatchers
from manylabel_service.hosting import events as events_module
from manylabel_service.hosting.events import Event, Events, Kind
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import position_key

KINDS = get_args(Kind)


@pytest.fixture
async def replica(lone_fleet: Any) -> Any:
    registry = await lone_fleet.start()
    return await registry.create(lone_fleet.spec())


async def taken(subscription: Any, number: int, kinds: tuple[str, ...] = ("update", "rollback", "dropped")) -> Any:
    """Return the next events of these kinds."""
    events: list[Event] = []
    async with asyncio.timeout(120):
        while len(events) < number:
            event = await anext(subscription)
            events += [event] if event.kind in kinds else []
    return events


class TestOfAReplica:
    async def test_each_update_and_rollback_is_one_event(self, replica: Any, lone_fleet: Any) -> None:
        watched = replica.events.subscribe()
        answers = [await replica.update([lone_fleet.example(i)] * (i + 1)) for i in range(3)]
        target = await replica.take_snapshot()
        await replica.update([lone_fleet.example(9)])
        rolled = await replica.rollback(target.position)
        events = await taken(watched, 5)
        assert [(event.kind, event.data) for event in events[:3]] == [
            ("update", {"position": a.position, "updates": a.updates, "examples": i + 1}) for i, a in enumerate(answers)
        ]
        assert events[4] == Event(
            "rollback", rolled.position, {"position": rolled.position, "updates": 6, "to": target.position}
        )
        assert [event.position for event in events] == sorted(event.position for event in events)

    async def test_replayed_examples_are_no_events(self, replica: Any, lone_fleet: Any) -> None:
        from manylabel_service.online.state.stream_offsets import StreamPart

        watched = replica.events.subscribe()
        part = StreamPart("s", (1, 2))
        examples = [lone_fleet.example(0), lone_fleet.example(1)]
        await replica.update(examples, stream=part)
        await replica.update(examples, stream=part)
        last = await replica.update(examples, stream=StreamPart("s", (2, 3)))
        first, second = await taken(watched, 2)
        assert (first.data["examples"], second.data["examples"]) == (2, 1)
        assert second.position == last.position

    async def test_drift_comes_before_its_update(self, lone_fleet: Any) -> None:
        registry = await lone_fleet.start()
        replica = await registry.create(lone_fleet.spec(params={"drift": "adwin"}))
        kinds = ("update", "drift")
        watched = replica.events.subscribe()
        updates = [
            await replica.update([drifting(i) for i in range(start, start + 50)]) for start in range(0, LENGTH, 50)
        ]
        drift = replica.measures()["drift"]
        n_alarms = drift["alarms"] + sum(label["alarms"] for label in drift["labels"].values())
        assert n_alarms >= 2
        events = await taken(watched, len(updates) + n_alarms, kinds)
        behind = "0"
        for update in updates:
            alarms = [event for event in events if event.kind == "drift" and event.position == update.position]
            of_update = [event for event in events if event.position == update.position]
            assert [event.kind for event in of_update] == ["drift"] * len(alarms) + ["update"]
            for event in alarms:
                assert event.resume == behind
                assert event.data["position"] == update.position
                assert update.updates - 50 < event.data["updates"] <= update.updates
                assert event.data["label"] in (None, "first", "second")
            behind = update.position
        alarmed = [event.data["updates"] for event in events if event.kind == "drift"]
        assert (len(alarmed), alarmed) == (n_alarms, sorted(alarmed))
        # A subscription after any event gets all later events, and the update that a drift belongs to.
        for place, event in enumerate(events):
            seen = event.resume or event.position
            due = [one for one in events if position_key(one.position) > position_key(seen)]
            assert due[len(due) - len(events) + place + 1 :] == events[place + 1 :]
            assert await taken(replica.events.subscribe(seen), len(due), kinds) == due

    async def test_events_end_with_the_model(self, replica: Any, lone_fleet: Any) -> None:
        watched = replica.events.subscribe()
        await replica.update([lone_fleet.example(0)])
        reading = asyncio.create_task(_all(watched))
        await asyncio.sleep(0)
        await replica.drop()
        assert "update" in [event.kind for event in await asyncio.wait_for(reading, 120)]
        assert await _all(replica.events.subscribe()) == []

    async def test_metrics_come_at_once_and_then_once_a_second(
        self, replica: Any, lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events_module, "METRICS_SECONDS", 0.2)
        watched = replica.events.subscribe()
        (first,) = await taken(watched, 1, ("metrics",))
        assert first.data["updates"] == 0
        for i in range(10):
            await replica.update([lone_fleet.example(i)])
        await taken(watched, 10)
        (second,) = await taken(watched, 1, ("metrics",))
        assert second.position == replica.model.position
        assert second.data == {"position": second.position, "updates": 10, **replica.measures()}
        with pytest.raises(TimeoutError):  # nothing has changed
            await asyncio.wait_for(anext(watched), 0.5)

    async def test_a_timeout_loses_no_event(self, replica: Any, lone_fleet: Any) -> None:
        watched = replica.events.subscribe()
        await taken(watched, 1, ("metrics",))
        for i in range(5):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(watched), 0.01)
            await replica.update([lone_fleet.example(i)])
            (event,) = await taken(watched, 1)
            assert event.data["updates"] == i + 1

    async def test_only_requested_kinds_are_sent(
        self, replica: Any, lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events_module, "METRICS_SECONDS", 0.05)
        rollbacks, measures = (replica.events.subscribe(kinds=[kind]) for kind in ("rollback", "metrics"))
        assert [event.kind for event in await taken(measures, 1, KINDS)] == ["metrics"]
        target = await replica.take_snapshot()
        waiting = asyncio.create_task(anext(rollbacks))
        await asyncio.sleep(0)
        woken, wake = [], rollbacks._wake.set
        monkeypatch.setattr(rollbacks._wake, "set", lambda: woken.append(wake()))
        for i in range(5):
            await replica.update([lone_fleet.example(i)])
        await asyncio.sleep(0)
        assert not waiting.done()
        assert woken == [], "nobody is woken for what is not asked for"
        rolled = await replica.rollback(target.position)
        assert await asyncio.wait_for(waiting, 120) == replica.events._ring[-1]
        while (event := await asyncio.wait_for(anext(measures), 120)).position != rolled.position:
            assert event.kind == "metrics"
        update = await replica.update([lone_fleet.example(9)])
        resumed = replica.events.subscribe(rolled.position, ["update"])
        assert [(event.kind, event.position) for event in await taken(resumed, 1, KINDS)] == [
            ("update", update.position)
        ]
        await replica.drop()
        assert await asyncio.wait_for(_all(rollbacks), 120) == []

    async def test_no_event_is_kept_without_subscribers(self, replica: Any, lone_fleet: Any) -> None:
        await replica.update([lone_fleet.example(0)])
        assert len(replica.events._ring) == 0


class TestResuming:
    async def test_resume_on_the_same_server(self, replica: Any, lone_fleet: Any) -> None:
        watched = replica.events.subscribe()
        positions = [(await replica.update([lone_fleet.example(i)])).position for i in range(10)]
        await taken(watched, 4)
        await watched.aclose()
        resumed = replica.events.subscribe(after=positions[3])
        assert [event.position for event in await taken(resumed, 6)] == positions[4:]

    async def test_resume_on_another_server(self, fleet: Any) -> None:
        registries = await fleet.start_several(2)
        one = await registries[0].create(fleet.spec())
        other = await registries[1].get("m")
        first, elsewhere = one.events.subscribe(), other.events.subscribe()
        positions = [(await one.update([fleet.example(i)])).position for i in range(10)]
        assert [event.position for event in await taken(first, 5)] == positions[:5]
        resumed = other.events.subscribe(after=positions[4])
        assert [event.position for event in await taken(resumed, 5)] == positions[5:]
        assert [event.position for event in await taken(elsewhere, 10)] == positions

    async def test_resume_on_a_server_that_lags(self, fleet: Any) -> None:
        registries = await fleet.start_several(2)
        one = await registries[0].create(fleet.spec())
        behind = await registries[1].get("m")
        registries[1]._tasks[0].cancel()
        positions = [(await one.update([fleet.example(i)])).position for i in range(5)]
        resumed = behind.events.subscribe(after=positions[2])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(resumed), 0.05)
        behind.poll()
        assert [event.position for event in await taken(resumed, 2)] == positions[3:]

    async def test_resume_before_the_known_events(self, replica: Any, lone_fleet: Any) -> None:
        await replica.update([lone_fleet.example(0)])
        resumed = replica.events.subscribe(after="0")
        (event,) = await taken(resumed, 1)
        assert (event.kind, event.position, event.data) == ("dropped", "1", {"count": None})
        again = replica.events.subscribe(after=event.position)
        await replica.update([lone_fleet.example(0)])
        assert [event.kind for event in await taken(again, 1)] == ["update"]

    async def test_resume_at_a_bad_position(self, replica: Any) -> None:
        with pytest.raises(ValueError, match="latest"):
            replica.events.subscribe(after="latest")


class TestBounds:
    async def test_a_slow_subscriber_gets_the_number_of_dropped_events(
        self, replica: Any, lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events_module, "RECENT_EVENTS", 4)
        # Later updates add no label, which would be one more event.
        await replica.update([lone_fleet.example(i) for i in range(10)])
        slow, quick = replica.events.subscribe(), replica.events.subscribe()
        positions = []
        for i in range(10):
            positions.append((await replica.update([lone_fleet.example(i)])).position)
            assert (await taken(quick, 1))[0].position == positions[-1]
        dropped, *rest = await taken(slow, 5)
        assert (dropped.kind, dropped.data, dropped.position) == ("dropped", {"count": 6}, positions[5])
        assert [event.position for event in rest] == positions[6:]
        assert len(replica.events._ring) == 4
        resumed = replica.events.subscribe(after=positions[4])
        assert [event.data.get("count", 0) for event in await taken(resumed, 5)] == [None, 0, 0, 0, 0]

    def test_the_number_of_subscribers_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events_module, "MAX_SUBSCRIBERS", 2)
        model = OnlineModel(ModelSpec.model_validate({"name": "m", "algorithm": "falt"}))
        events = Events("m", lambda: model)
        kept = [events.subscribe(), events.subscribe()]
        with pytest.raises(TooManyWatchers, match="watch the events"):
            events.subscribe()
        kept.pop()
        gc.collect()
        events.subscribe()

    async def test_few_subscribers_are_woken_at_once(self) -> None:
        model = OnlineModel(ModelSpec.model_validate({"name": "m", "algorithm": "falt"}))
        events = Events("m", lambda: model)
        watchers = [events.subscribe() for _ in range(3 * events_module.WOKEN_AT_ONCE + 1)]
        waiting = [asyncio.create_task(taken(watcher, 1)) for watcher in watchers]
        await eventually_async(lambda: all(watcher._wake._waiters for watcher in watchers))
        events.record(Event("update", "1", {}))
        events.notify()
        ready = [sum(watcher._wake.is_set() for watcher in watchers)]
        while ready[-1] and len(ready) < 100:
            await asyncio.sleep(0)
            ready.append(sum(watcher._wake.is_set() for watcher in watchers))
        assert 0 < max(ready) <= 2 * events_module.WOKEN_AT_ONCE
        assert await asyncio.gather(*waiting) == [[Event("update", "1", {})]] * len(watchers)

    async def test_a_closed_subscription_is_removed(self, replica: Any) -> None:
        watched = replica.events.subscribe()
        reading = asyncio.create_task(_all(watched))
        await eventually_async(lambda: replica.events.subscribers == 1)
        await watched.aclose()
        assert {event.kind for event in await asyncio.wait_for(reading, 120)} <= {"metrics"}
        assert replica.events.subscribers == 0


async def _all(subscription: Any) -> list[Event]:
    return [event async for event in subscription]


async def test_events_are_not_recorded_long_after_the_last_subscriber(
    replica: Any, lone_fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = replica.events.subscribe()
    await replica.update([lone_fleet.example(0)])
    (event,) = await taken(watched, 1)
    await watched.aclose()
    await replica.update([lone_fleet.example(1)])
    resumed = replica.events.subscribe(event.position)  # soon: nothing was missed
    (second,) = await taken(resumed, 1)
    assert second.data["updates"] == 2
    monkeypatch.setattr(events_module, "UNREAD_SECONDS", 0.0)
    await replica.update([lone_fleet.example(2)])
    assert replica.events, "it is read"
    await resumed.aclose()
    await replica.update([lone_fleet.example(3)])
    assert not replica.events
    assert len(replica.events._ring) == 0
    late = replica.events.subscribe(second.position)
    assert (await taken(late, 1))[0].kind == "dropped"
    await replica.update([lone_fleet.example(4)])
    assert (await taken(late, 1))[0].data["updates"] == 5
