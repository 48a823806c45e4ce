"""Processes that share a store: their descriptions, and which of them have died."""

import time
import types
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.waiting import eventually_async

from manylabel_service.models import membership
from manylabel_service.models.membership import KIND, Membership
from manylabel_service.storage import Address, Store
from manylabel_service.storage.redis import RedisStore


@pytest.fixture
async def shared(shared_redis: Callable[[], str]) -> Any:
    """A store that several processes may have open."""
    store = RedisStore(Address.parse(shared_redis()))
    await store.open()
    yield store
    await store.close()


async def joined(store: Store) -> Membership:
    one = Membership(store, "server")
    await one.join()
    return one


def ids(one: Membership) -> list[str]:
    return [member.id for member in one.members]


async def test_members_see_each_other_until_they_leave(shared: Store) -> None:
    one, other = await joined(shared), await joined(shared)
    await one._beat()
    assert ids(one) == ids(other) == [one.id, other.id]
    await other.leave()
    await one._beat()
    assert ids(one) == [one.id]


async def test_a_process_that_hung_is_removed_and_registers_again(
    shared: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(membership, "time", types.SimpleNamespace(monotonic=lambda: now, time_ns=time.time_ns))
    hung, one = await joined(shared), await joined(shared)
    for _ in range(2):
        now += membership.MAX_PASSED_SECONDS
        await one._beat()
        assert hung.id in ids(one), "it may only be slow"
    await hung._beat()
    for _ in range(3):
        now += 100 * membership.MAX_PASSED_SECONDS  # this process stood still, so it cannot know about the other
        await one._beat()
    assert hung.id in ids(one)
    now += membership.MAX_PASSED_SECONDS
    await one._beat()
    assert ids(one) == [one.id]
    await hung._beat()
    await one._beat()
    assert hung.id in ids(one)


async def test_time_without_the_store_does_not_count(shared: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(membership, "time", types.SimpleNamespace(monotonic=lambda: now, time_ns=time.time_ns))
    other, one = await joined(shared), await joined(shared)
    for _ in range(10):
        now += membership.MAX_PASSED_SECONDS
        one._looked_at = 0.0  # as after StorageUnavailable
        await one._beat()
    assert other.id in ids(one)


@pytest.mark.usefixtures("quick_expiry")
@for_each("value", [b"???", b'{"format": 2, "release": "9.9"}'])
async def test_an_unreadable_member_is_ignored_once_it_is_silent_and_stays(shared: Store, value: bytes) -> None:
    name = value.hex()
    await shared.documents.put(KIND, name, value, revision=None)
    one = await joined(shared)
    assert name in ids(one)

    async def ignored() -> bool:
        await one._beat()
        return name not in ids(one)

    await eventually_async(ignored)
    assert [each.value for each in await shared.documents.all(KIND) if each.name == name] == [value]


async def test_a_member_registers_again_in_an_emptied_store(shared: Store) -> None:
    one = await joined(shared)
    (document,) = await shared.documents.all(KIND)
    await shared.documents.delete(KIND, document.name, revision=document.revision)
    await one._beat()
    assert [each.name for each in await shared.documents.all(KIND)] == [one.id]
