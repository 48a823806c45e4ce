"""Processes of several releases on one store write only what each of them can read."""

import json
import time
import types
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.waiting import eventually_async

from manylabel_service.errors import ReleaseTooOld, StoreUnusable
from manylabel_service.models import membership
from manylabel_service.models.membership import IN_USE, KIND, Membership
from manylabel_service.online.spec.release import ClusterVersion, Versions
from manylabel_service.storage import Address, Store
from manylabel_service.storage.redis import RedisStore

OLD, NEW = Versions(1, 1), Versions(2, 2)


@pytest.fixture
async def shared(shared_redis: Callable[[], str]) -> Any:
    """A store that several processes may have open."""
    store = RedisStore(Address.parse(shared_redis()))
    await store.open()
    yield store
    await store.close()


def member(store: Store, last: Versions, first: Versions = OLD) -> Membership:
    return Membership(store, "server", ClusterVersion(), known=(first, last))


async def joined(store: Store, last: Versions) -> Membership:
    one = member(store, last)
    await one.join()
    return one


def in_use(one: Membership) -> Versions:
    return one._in_use.versions


async def stored(store: Store) -> Versions:
    (document,) = await store.documents.all(IN_USE)
    used = json.loads(document.value)
    return Versions(used["format_version"], used["replay_version"])


async def test_later_versions_are_in_use_once_all_know_them(shared: Store) -> None:
    old = await joined(shared, OLD)
    new = await joined(shared, NEW)
    await old._beat()
    assert in_use(old) == in_use(new) == await stored(shared) == OLD
    assert [one.id for one in new.members] == [old.id, new.id]
    await old.leave()
    await new._beat()
    assert in_use(new) == await stored(shared) == NEW
    newer = await joined(shared, Versions(3, 2))
    assert in_use(newer) == NEW, "the other does not know form 3"


async def test_an_old_release_that_starts_too_late_is_refused(store: Store) -> None:
    new = await joined(store, NEW)
    assert in_use(new) == NEW
    with pytest.raises(
        ReleaseTooOld, match="format version 2 and replay version 2; this release supports up to format version 1"
    ) as refused:
        await member(store, OLD).join()
    assert "run the newer release" in str(refused.value)
    assert len(await store.documents.all(KIND)) == store.shared, "it leaves no trace"
    await new.leave()
    with pytest.raises(ReleaseTooOld):
        await member(store, OLD).join()


async def test_a_release_that_skips_versions_is_refused(shared: Store) -> None:
    old = await joined(shared, OLD)
    with pytest.raises(StoreUnusable, match="upgrade to a release in between first"):
        await member(shared, NEW, first=NEW).join()
    assert [one.name for one in await shared.documents.all(KIND)] == [old.id]


@pytest.mark.parametrize("first", [OLD, NEW], ids=["old", "new"])
async def test_two_processes_that_join_at_once_see_each_other(
    shared: Store, monkeypatch: pytest.MonkeyPatch, first: Versions
) -> None:
    """The second process joins completely when the first is about to write the versions in use."""
    put = shared.documents.put
    await (await joined(shared, OLD)).leave()  # the store has been used before
    one, other = member(shared, first), member(shared, NEW if first == OLD else OLD)
    done: list[str] = []

    async def put_late(kind: str, *args: Any, **kwargs: Any) -> int:
        if kind == IN_USE and not done:
            done.append(kind)
            await other.join()
        return await put(kind, *args, **kwargs)

    monkeypatch.setattr(shared.documents, "put", put_late)
    await one.join()
    assert done
    assert in_use(one) == in_use(other) == await stored(shared) == OLD


async def test_an_old_release_that_joins_while_versions_are_raised_is_refused(
    shared: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new process has read all members before the old one is registered."""
    new, old = await joined(shared, OLD), member(shared, OLD)
    new._last = NEW
    tell = old._tell

    async def tell_late() -> bool:
        await new._beat()
        return await tell()

    monkeypatch.setattr(old, "_tell", tell_late)
    with pytest.raises(ReleaseTooOld):
        await old.join()
    assert in_use(new) == NEW


async def test_a_process_that_hung_is_refused_when_it_resumes(shared: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(membership, "time", types.SimpleNamespace(monotonic=lambda: now, time_ns=time.time_ns))
    old, new = await joined(shared, OLD), await joined(shared, NEW)
    for _ in range(2):
        now += membership.MAX_PASSED_SECONDS
        await new._beat()
        assert in_use(new) == OLD, "it may only be slow"
    await old._beat()
    for _ in range(3):
        now += 100 * membership.MAX_PASSED_SECONDS  # this process stood still, so it cannot know about the other
        await new._beat()
    assert in_use(new) == OLD
    now += membership.MAX_PASSED_SECONDS
    await new._beat()
    assert in_use(new) == NEW
    with pytest.raises(ReleaseTooOld):
        await old._beat()


async def test_time_without_the_store_does_not_count(shared: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(membership, "time", types.SimpleNamespace(monotonic=lambda: now, time_ns=time.time_ns))
    await joined(shared, OLD)
    new = await joined(shared, NEW)
    for _ in range(10):
        now += membership.MAX_PASSED_SECONDS
        new._looked_at = 0.0  # as after StorageUnavailable
        await new._beat()
    assert in_use(new) == OLD


async def test_an_unreadable_member_counts_as_the_oldest_release(shared: Store) -> None:
    await shared.documents.put(KIND, "x", b"???", revision=None)
    described = {
        "format": 1,
        "release": "9.9",
        "id": "y",
        "formats": [1, 7],
        "replay_versions": [1, 7],
        "colour": "blue",
    }
    await shared.documents.put(KIND, "y", json.dumps(described).encode(), revision=None)
    new = await joined(shared, NEW)
    assert in_use(new) == OLD
    assert {one.id: one.formats for one in new.members} == {new.id: (1, 2), "x": (1, 1), "y": (1, 7)}


@pytest.mark.usefixtures("quick_expiry")
@for_each("value", [b"???", b'{"format": 2, "release": "9.9"}'])
async def test_an_unreadable_member_that_is_silent_is_ignored_and_stays(shared: Store, value: bytes) -> None:
    name = value.hex()
    await shared.documents.put(KIND, name, value, revision=None)
    new = await joined(shared, NEW)

    async def ignored() -> bool:
        await new._beat()
        return name not in {one.id for one in new.members}

    await eventually_async(ignored)
    assert in_use(new) == NEW
    assert [one.value for one in await shared.documents.all(KIND) if one.name == name] == [value]


async def test_damaged_versions_in_use_stay(shared: Store) -> None:
    await shared.documents.put(IN_USE, IN_USE, b"???", revision=None)
    new = await joined(shared, NEW)
    assert in_use(new) == NEW
    old = await joined(shared, OLD)
    await new._beat()
    assert (in_use(new), in_use(old)) == (OLD, OLD)
    assert [one.value for one in await shared.documents.all(IN_USE)] == [b"???"]


async def test_versions_in_use_of_a_newer_format_are_refused_and_stay(shared: Store) -> None:
    value = b'{"format": 2, "release": "9.9", "format_version": 1}'
    await shared.documents.put(IN_USE, IN_USE, value, revision=None)
    with pytest.raises(ReleaseTooOld, match=r"written by release 9\.9"):
        await joined(shared, NEW)
    assert [one.value for one in await shared.documents.all(IN_USE)] == [value]


async def test_a_member_registers_again_in_an_emptied_store(shared: Store) -> None:
    new = await joined(shared, NEW)
    for kind in (KIND, IN_USE):
        (document,) = await shared.documents.all(kind)
        await shared.documents.delete(kind, document.name, revision=document.revision)
    await new._beat()
    assert await stored(shared) == NEW
    assert [one.name for one in await shared.documents.all(KIND)] == [new.id]
