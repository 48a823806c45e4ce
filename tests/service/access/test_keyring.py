"""What a process knows of the keys: never older than it was, and no more than the store has once that was away."""

from typing import Any

import pytest
from tests.support.waiting import eventually_async

from manylabel_service.access import keyring as module
from manylabel_service.access.grant import ANYONE
from manylabel_service.access.key import Rates, new_key
from manylabel_service.access.key_store import KeptKey
from manylabel_service.access.keyring import Keyring
from manylabel_service.errors import KeyInvalid, StorageGone


class Store:
    """What `KeyStore` is to a keyring, with answers that a test gives it."""

    max_keys = 2

    def __init__(self) -> None:
        self.kept: list[KeptKey] = []
        self.away = False
        self.asked_after: list[int] = []

    async def changed(self, after: int = 0) -> list[KeptKey]:
        self.asked_after.append(after)
        if self.away:
            raise StorageGone("no answer", heals=True)
        return [kept for kept in self.kept if kept.revision > after]


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def keyring(store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    keyring = Keyring(store, None)
    await keyring.start()
    yield keyring
    await keyring.stop()


def opens(keyring: Keyring, text: str) -> bool:
    return keyring.access(text, "").allows("read")


async def test_a_revocation_is_not_undone_by_what_was_read_before_it(keyring: Keyring) -> None:
    key, text = new_key("n", ["read"])
    keyring._note([KeptKey(key.id, 3, key)])
    revoked = key.model_copy(update={"revoked_unix_ms": 1})
    keyring._note([KeptKey(key.id, 7, revoked)])
    keyring._note([KeptKey(key.id, 3, key)])
    assert not opens(keyring, text)


async def test_only_what_has_changed_is_read(keyring: Keyring, store: Store) -> None:
    key, text = new_key("n", ["read"])
    assert keyring.access(None, "") is ANYONE
    store.kept.append(KeptKey(key.id, 41, key))
    await eventually_async(lambda: keyring.access(None, "") is not ANYONE)
    assert opens(keyring, text)
    n_asked = len(store.asked_after)
    await eventually_async(lambda: len(store.asked_after) > n_asked + 2)
    assert store.asked_after[-1] == 41


async def test_a_store_that_was_away_is_read_anew(keyring: Keyring, store: Store) -> None:
    lost, stays = new_key("lost", ["read"]), new_key("stays", ["read"])
    store.kept += [KeptKey(lost[0].id, 1, lost[0]), KeptKey(stays[0].id, 2, stays[0])]
    await eventually_async(lambda: opens(keyring, stays[1]))
    store.away = True
    n_asked = len(store.asked_after)
    await eventually_async(lambda: len(store.asked_after) > n_asked + 1)
    assert opens(keyring, lost[1])
    del store.kept[0]
    store.away = False
    await eventually_async(lambda: not opens(keyring, lost[1]))
    assert opens(keyring, stays[1])


async def test_keys_that_made_room_for_others_are_forgotten(keyring: Keyring, store: Store) -> None:
    keys = [new_key(f"{number}", ["read"])[0] for number in range(5)]
    for revision, key in enumerate(keys, 1):
        store.kept = [KeptKey(key.id, revision, key)]  # the others are gone by now
        await eventually_async(lambda id=key.id: id in keyring._holders)
    await eventually_async(lambda: len(keyring._holders) <= 2 * store.max_keys)
    assert keys[-1].id in keyring._holders


async def test_what_is_left_of_a_rate_is_kept_when_the_key_changes(keyring: Keyring) -> None:
    key, text = new_key("n", ["read"], rates=Rates(requests_at_a_time=1))
    keyring._note([KeptKey(key.id, 1, key)])
    before = keyring.access(text, "").limits
    keyring._note([KeptKey(key.id, 2, key.model_copy(update={"note": "other"}))])
    assert keyring.access(text, "").limits is before
    keyring._note([KeptKey(key.id, 3, key.model_copy(update={"rates": Rates(requests_at_a_time=2)}))])
    assert keyring.access(text, "").limits is not before


async def test_what_goes_on_hears_that_its_key_is_gone(keyring: Keyring) -> None:
    key, text = new_key("n", ["read"])
    keyring._note([KeptKey(key.id, 1, key)])
    access = keyring.access(text, "")
    access.check()
    keyring._note([KeptKey(key.id, 2, key.model_copy(update={"expires_unix_ms": 1}))])
    with pytest.raises(KeyInvalid, match="has expired"):
        access.check()
    ANYONE.check()
