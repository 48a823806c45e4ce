"""State of a newer release is refused in plain words, and makes the server not ready."""

import asyncio
import json
from typing import Any

import msgpack
import pytest
from tests.support.cases import for_each
from tests.support.waiting import eventually_async

from manylabel_core.state import State
from manylabel_service.errors import ReleaseTooOld
from manylabel_service.online.spec.trained import read_spec
from manylabel_service.release import FORMAT

NEWER = FORMAT + 1


async def test_an_entry_of_a_newer_format_stops_its_model_alone(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    for name in ("m", "other"):
        await registry.create(lone_fleet.spec(name))
    replica = await registry.get("m")
    await replica.update([lone_fleet.example(0)])
    log = lone_fleet.store(registry).logs
    await log.append(replica.record, [msgpack.packb([NEWER, "whatever"])], replica.position)
    with pytest.raises(ReleaseTooOld, match=f"format {NEWER}; .*run the newer release"):
        await replica.update([lone_fleet.example(1)])
    for use in (replica.update([lone_fleet.example(1)]), replica.predict([lone_fleet.example(1).x])):
        with pytest.raises(ReleaseTooOld):
            await use
    with pytest.raises(ReleaseTooOld, match="another release must serve 1 of the models"):
        registry.check_compatible()
    other = await registry.get("other")
    assert (await other.update([lone_fleet.example(1)])).updates == 1
    await lone_fleet.stop(registry)
    again = await lone_fleet.start()
    with pytest.raises(ReleaseTooOld):
        again.check_compatible()
    assert (await again.get("other")).model.updates == 1


async def test_an_idle_replica_notices_an_entry_of_a_newer_format(fleet: Any) -> None:
    registry = await fleet.start()
    await registry.create(fleet.spec())
    replica = await registry.get("m")
    log = fleet.store(registry).logs
    await log.append(replica.record, [msgpack.packb([NEWER, "whatever"])], replica.position)
    await eventually_async(lambda: replica.incompatible == "release_too_old")


async def test_a_snapshot_of_a_newer_format_is_not_damaged(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    await registry.create(lone_fleet.spec())
    replica = await registry.get("m")
    await replica.update([lone_fleet.example(0)])
    arrays, header = State.from_bytes(replica.model.to_bytes())
    newer = State(arrays, {**header, "version": NEWER}).to_bytes()
    await lone_fleet.store(registry).snapshots.put(replica.record, replica.position, newer)
    await lone_fleet.kill(registry)
    again = await lone_fleet.start()
    assert (await again.get("m")).incompatible == "release_too_old"


NEWER_SPECS: dict[str, dict[str, Any]] = {
    "algorithm": {"algorithm": "newer"},
    "parameter": {"params": {"newer": 1}},
    "value of a parameter": {"params": {"update": "newer"}},
    "scaling": {"scaling": "newer"},
    "field": {"newer": True},
    "text option": {"text": {"newer": 1}},
    "tokeniser": {"text": {"tokeniser": 2}},
    "limit": {"limits": {"newer": None}},
    "policy": {"limits": {"labels": {"most": 9, "policy": "newer"}}},
    "field of a trained model": {"algorithm": "trained", "newer": True},
}


async def test_a_spec_of_a_newer_release_is_not_damaged(lone_fleet: Any) -> None:
    registry = await lone_fleet.start()
    names = {change: f"newer-{number}" for number, change in enumerate(NEWER_SPECS)}
    for change, name in names.items():
        spec = {"name": name, "algorithm": "falt", **NEWER_SPECS[change]}
        await lone_fleet.store(registry).models.create(name, json.dumps(spec).encode())
    await registry.create(lone_fleet.spec("m"))
    results = await asyncio.gather(*(registry.get(name) for name in names.values()), return_exceptions=True)
    found = {change: type(result) for change, result in zip(names, results, strict=True)}
    assert found == dict.fromkeys(NEWER_SPECS, ReleaseTooOld)
    listed, damaged = await registry.list()
    assert ([status["name"] for status in listed], damaged) == (["m"], [])
    assert registry.failed == []
    await lone_fleet.stop(registry)
    assert (await (await lone_fleet.start()).get("m")).serving


@for_each("spec", [b"", b"[]", b"{}", b"null", b'{"name": "m"}', b'{"algorithm": "falt"}', b"\xff"])
def test_a_damaged_spec_is_not_of_a_newer_release(spec: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):  # of JSON, of its encoding, or of pydantic
        read_spec(spec)
