"""Archives that are full, away or ahead of the store, and refused restores: nothing is lost silently."""

import asyncio
import errno
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import ValidationError
from tests.service.archive.origin import (
    AWAY,
    QUIET,
    Make,
    Origin,
    learn,
    next_millisecond,
    opened,
    shipper,
    start_origin,
    stored_state,
)
from tests.service.fleet import Fleet
from tests.support.crashes import Failing
from tests.support.forked_server import finished
from tests.support.waiting import eventually_async

from manylabel_service.archive import layout
from manylabel_service.archive.restoring import RestoreRefused, Without, restore
from manylabel_service.archive.service import ArchiveService
from manylabel_service.archive.shipping import Shipper
from manylabel_service.settings import Settings
from manylabel_service.storage import pieces_of
from manylabel_service.storage.places.files import PARTIAL, FilePlace
from manylabel_service.storage.places.place import PlaceUnavailable


def last_state(origin: Origin) -> bytes:
    return list(origin.states.values())[-1]


async def restored_state(place: FilePlace, new_store: Make, until: int | None = None) -> bytes:
    store = await opened(new_store("sqlite"))
    await restore(place, store, Settings(), until=until)
    return await stored_state(store)


async def test_a_full_disk_is_reported_and_caught_up_with(
    place: FilePlace, new_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(3)
    await origin.shipper.ship()
    before, state = await next_millisecond(), last_state(origin)
    await origin.learn(20)

    def full(descriptor: int) -> None:
        if "archive" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(descriptor)

    synced = os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        settings = Settings(archive_seconds=0.01)
        service = ArchiveService(origin.store, origin.registry, place, settings)
        service.start()
        await eventually_async(lambda: service.status.error is not None)
        assert "No space left" in str(service.status.error)
        await origin.learn(2)
        assert list((place._root / PARTIAL).iterdir()) == []
        assert await restored_state(place, new_store, before) == state, "what is there can be restored"
    await eventually_async(lambda: service.status.error is None)
    await service.stop()
    assert await restored_state(place, new_store) == last_state(origin)


async def test_an_archive_that_was_away_longer_than_the_history(place: FilePlace, new_store: Make) -> None:
    """A new timeline begins with a stored state; what was archived before can still be restored."""
    origin = await start_origin(new_store("sqlite"), place, history_bytes=2_000)
    await origin.registry.create(Fleet.spec())
    await origin.learn(10)
    failing: Any = Failing(place, 10**9, done=False, error=AWAY)
    passes = shipper(origin.store, failing)
    await passes.ship()
    reached, state = await next_millisecond(), last_state(origin)
    failing.left = 0
    for _ in range(6):
        await origin.learn(15)
        await origin.snapshot()
        with pytest.raises(PlaceUnavailable):
            await passes.ship()
    failing.left = 10**9
    await passes.ship()
    assert len({layout.timeline_of(key) for key in await place.keys(layout.models_prefix(passes._id))}) == 2
    assert await restored_state(place, new_store) == last_state(origin)
    assert await restored_state(place, new_store, reached) == state
    await origin.learn(5)
    await passes.ship()
    assert await restored_state(place, new_store) == last_state(origin)


async def test_an_archive_that_is_not_mounted_gets_no_gap(place: FilePlace, new_store: Make) -> None:
    """The directory of an archive that is not mounted is empty, or has another archive of the same store."""
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(3)
    await origin.shipper.ship()
    mounted = place._root.rename(place._root.with_name("mounted"))
    await origin.learn(3)
    with pytest.raises(PlaceUnavailable, match="mount the volume"):
        await origin.shipper.ship()
    assert not place._root.exists()
    passes = shipper(origin.store, place)  # a server that starts without the volume begins another archive
    await passes.ship()
    place._root.rename(place._root.with_name("local"))
    mounted.rename(place._root)
    await origin.learn(3)
    with pytest.raises(PlaceUnavailable):
        await passes.ship()
    await origin.shipper.ship()
    assert await restored_state(place, new_store) == last_state(origin)
    await origin.learn(3)
    await shipper(origin.store, place).ship()
    assert await restored_state(place, new_store) == last_state(origin)


async def roll_back(origin: Origin, to: str) -> None:
    replica = await origin.replica()
    await replica.rollback(to)
    origin.states[replica.position] = replica.model.to_bytes()
    await origin.snapshot()


async def learn_later(origin: Origin) -> None:
    """Learn two examples after a rollback, whose keys are not those of earlier ones."""
    replica = await origin.replica()
    for _ in range(2):
        await learn(replica, origin.rng, 1, "later")
        origin.states[replica.position] = replica.model.to_bytes()


@pytest.mark.parametrize("target", ["sqlite", "redis"])
async def test_a_timeline_has_the_earlier_states_to_which_rollbacks_return(
    target: str, place: FilePlace, new_store: Make
) -> None:
    origin = await start_origin(new_store("sqlite"), place, history_bytes=0)
    await origin.registry.create(Fleet.spec())
    for _ in range(2):
        await origin.learn(3)
        await origin.snapshot()
    await roll_back(origin, "3")
    assert await (await origin.replica()).history().begin() == "6"
    await origin.shipper.ship()
    await learn_later(origin)
    await origin.shipper.ship()
    await origin.fleet.end()

    make = new_store(target)
    store = await opened(make)
    at = (await restore(place, store, Settings())).models["m"][1]
    assert await stored_state(store) == last_state(origin)
    await store.close()
    other = await start_origin(make, place)
    for position in list(origin.states)[5:]:
        assert (await (await other.replica()).state_at(position)).to_bytes() == origin.states[position]
    await other.shipper.ship()
    store = await opened(new_store("sqlite"))
    assert (await restore(place, store, Settings())).models["m"][0] == at, "the restored store is archived too"


async def test_a_timeline_that_begins_again_has_the_earlier_states_too(
    place: FilePlace, new_store: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted pass began the timeline before the state to which a rollback returns."""
    monkeypatch.setitem(QUIET, "snapshot_retention_count", 4)
    origin = await start_origin(new_store("sqlite"), place, history_bytes=0)
    await origin.registry.create(Fleet.spec())
    for _ in range(4):
        await origin.learn(3)
        await origin.snapshot()
    await roll_back(origin, "9")
    with monkeypatch.context() as patch:
        patch.setattr(Shipper, "_put_catalogue", AsyncMock(side_effect=AWAY))
        with pytest.raises(PlaceUnavailable):
            await origin.shipper.ship()
    for _ in range(2):
        await learn_later(origin)
        await origin.snapshot()
    await shipper(origin.store, place).ship()
    begins = {part.after for part in layout.log_parts(await place.keys(""))}
    assert begins == {"6", "13"}, "the rollback is in a part of the interrupted pass"
    assert await (await origin.replica()).history().begin() == "12"
    assert await restored_state(place, new_store) == last_state(origin)


async def test_a_timeline_begins_after_a_rollback_whose_state_is_lost(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place, history_bytes=0)
    await origin.registry.create(Fleet.spec())
    for _ in range(2):
        await origin.learn(3)
        await origin.snapshot()
    await roll_back(origin, "3")
    await learn_later(origin)
    record = (await origin.replica()).record
    await origin.store.snapshots.retain(record, "3", drop="pin")
    await origin.store.snapshots.retain(record, "3", drop="recent")
    await origin.shipper.ship()
    assert await restored_state(place, new_store) == last_state(origin)
    await learn_later(origin)
    await origin.shipper.ship()
    assert await restored_state(place, new_store) == last_state(origin)


@pytest.mark.usefixtures("shared_redis")
async def test_a_store_that_is_not_empty_is_refused_unchanged(place: FilePlace, new_store: Make) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(3)
    await origin.shipper.ship()
    for kind in ("sqlite", "redis"):
        make = new_store(kind)
        other = await start_origin(make, place)
        await other.registry.create(Fleet.spec("own"))
        await other.learn(2, "own")
        await other.fleet.end()
        store = await opened(make)
        with pytest.raises(RestoreRefused, match="not empty, it has 'own'"):
            await restore(place, store, Settings())
        await restore(place, store, Settings(), model="m")
        assert sorted(record.name for record in await store.models.all()) == ["m", "own"]
        await store.close()
    store = await opened(new_store("sqlite"))
    await store.documents.put("webhooks", "hook", b"{}", revision=None)
    with pytest.raises(RestoreRefused, match="hook"):
        await restore(place, store, Settings())


@pytest.mark.usefixtures("shared_redis")
async def test_temporary_files_are_written_to_the_data_directory(
    place: FilePlace, new_store: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The usual directory of temporary files may be small, or in memory."""
    origin = await start_origin(new_store("sqlite"), place)
    await origin.store.blobs.put("datasets/a/rows", pieces_of(b"rows"))
    await origin.store.documents.put("datasets", "a", b"{}", revision=None)
    store = await opened(new_store("redis"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    data_dir = tmp_path / "data"
    await shipper(origin.store, place, data_dir=data_dir).ship()
    await restore(place, store, Settings(data_dir=data_dir))
    assert await store.blobs.keys() == ["datasets/a/rows"]
    assert list((data_dir / "scratch").iterdir()) == []


@pytest.mark.usefixtures("programs")
async def test_the_program_fails_and_names_a_model_that_was_not_restored(
    place: FilePlace, new_store: Make, tmp_path: Path
) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    for name in ("bad", "good"):
        await origin.registry.create(Fleet.spec(name))
        await origin.learn(3, name)
    await origin.shipper.ship()
    bad = (await origin.replica("bad")).record.incarnation
    (part,) = [key for key in await place.keys("") if f"/models/{bad}/" in key]
    await place.delete(part)
    await place.put(part, b"")
    await origin.fleet.end()
    flags = ["--from", f"file://{place._root}", "--data-dir", str(tmp_path / "restored")]
    done = await asyncio.to_thread(finished, "manylabel_service.archive", "restore", *flags)
    assert done.returncode == 1
    told = r"restored the state of (\S+) from .*\nmodel good: position 3 of \S+Z\n0 datasets, 0 keys, as of \1\n"
    assert re.match(told, done.stdout)
    assert f"model 'bad' was not restored: {part} is damaged" in done.stderr


@pytest.mark.usefixtures("programs")
async def test_the_program_reads_the_examples_to_forget_from_a_file(
    place: FilePlace, new_store: Make, tmp_path: Path
) -> None:
    origin = await start_origin(new_store("sqlite"), place)
    await origin.registry.create(Fleet.spec())
    await origin.learn(3)
    await origin.shipper.ship()
    await origin.fleet.end()
    file = tmp_path / "examples.json"

    def run(text: str, *flags: str) -> Any:
        file.write_text(text)
        data = ["--data-dir", str(tmp_path / "restored"), "--without", str(file)]
        return finished("manylabel_service.archive", "restore", "--from", f"file://{place._root}", *data, *flags)

    for text, told in (
        ("customer-4711", 'must be JSON such as {"refs"'),
        ('{"positions": ["first"]}', "positions.0: "),
        ("{}", "names no example"),
    ):
        done = await asyncio.to_thread(run, text, "--model", "m")
        assert (done.returncode, told in done.stderr) == (1, True), done.stderr
    for text in ('{"ref": ["a"]}', '{"refs": ["' + "a" * 129 + '"]}'):
        with pytest.raises(ValidationError):
            Without.model_validate_json(text)
    done = await asyncio.to_thread(run, '{"positions": ["2"]}')
    assert (done.returncode, "--model" in done.stderr) == (1, True)
    done = await asyncio.to_thread(run, '{"refs": ["customer-4711"], "positions": ["2"]}', "--model", "m")
    assert done.returncode == 0, done.stderr
    assert "examples forgotten: 1, in entries of the log: 1 " in done.stdout
    assert "its history begins at position 0" in done.stdout
