"""The keyring of a process follows the store, also after an outage."""

from typing import Any, NamedTuple

import pytest
from tests.support.waiting import eventually_async

from manylabel_service.access import keyring as module
from manylabel_service.access.key import Key, KeyStore, new_key
from manylabel_service.access.keyring import Keyring
from manylabel_service.access.rates import RateLimits
from manylabel_service.errors import DocumentNewer, KeyInvalid, KeyRequired, NotReady, StorageFull, StorageUnavailable
from manylabel_service.storage import Document, collection

MAX_KEYS = 2


class Kept(NamedTuple):
    """A key in the store; None if it is damaged."""

    id: str
    revision: int
    key: Key | None


class Store:
    """A store whose documents a test sets."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.away = self.full = False
        self.asked_after: list[int] = []

    async def all(self, kind: str, after: int = 0) -> list[Document]:
        self.asked_after.append(after)
        if self.away:
            raise StorageUnavailable("no answer", heals=True)
        return [document for each in self.kept if (document := written(each)).revision > after]

    def changes(self, kind: str) -> None:
        return

    async def revisions(self, kind: str) -> dict[str, int]:
        return {document.name: document.revision for document in await self.all(kind)}

    async def get(self, kind: str, name: str) -> Document | None:
        return next((written(each) for each in self.kept if each.id == name), None)

    async def put(self, kind: str, name: str, value: bytes, *, revision: int | None, urgent: bool = False) -> int:
        if self.full:
            raise StorageFull("no room")
        new = 1 + max((each.revision for each in self.kept), default=0)
        others = [each for each in self.kept if each.id != name]
        self.kept = [*others, Kept(name, new, Key.model_validate_json(value))]
        return new


def written(kept: Kept) -> Document:
    return Document(kept.id, kept.revision, b"" if kept.key is None else kept.key.model_dump_json().encode())


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def keyring(store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
    keyring = Keyring(KeyStore(store, MAX_KEYS), None)
    await keyring.start()
    yield keyring
    await keyring.stop()


def opens(keyring: Keyring, text: str) -> bool:
    access = keyring.access(text)
    return access.key_id is not None and access.allows("read")


async def test_an_older_document_does_not_undo_a_revocation(keyring: Keyring) -> None:
    key, text = new_key("n", ["read"])
    keyring._note({key.id: key.at(3)})
    revoked = key.model_copy(update={"revoked_unix_ms": 1})
    keyring._note({key.id: revoked.at(7)})
    keyring._note({key.id: key.at(3)})
    assert not opens(keyring, text)


async def test_only_changed_keys_are_read(keyring: Keyring, store: Store) -> None:
    key, text = new_key("n", ["read"])
    assert keyring.access(None).allows("admin")
    store.kept.append(Kept(key.id, 41, key))
    await eventually_async(lambda: not keyring.access(None).allows("read"))
    assert opens(keyring, text)
    n_asked = len(store.asked_after)
    await eventually_async(lambda: len(store.asked_after) > n_asked + 2)
    assert store.asked_after[-1] == 41


async def test_all_keys_are_read_after_an_outage(keyring: Keyring, store: Store) -> None:
    lost, stays = new_key("lost", ["read"]), new_key("stays", ["read"])
    store.kept += [Kept(lost[0].id, 1, lost[0]), Kept(stays[0].id, 2, stays[0])]
    await eventually_async(lambda: opens(keyring, stays[1]))
    store.away = True
    n_asked = len(store.asked_after)
    await eventually_async(lambda: len(store.asked_after) > n_asked + 1)
    assert opens(keyring, lost[1])
    del store.kept[0]
    store.away = False
    await eventually_async(lambda: not opens(keyring, lost[1]))
    assert opens(keyring, stays[1])


async def test_removed_keys_are_forgotten(keyring: Keyring, store: Store) -> None:
    keys = [new_key(f"{number}", ["read"])[0] for number in range(5)]
    for revision, key in enumerate(keys, 1):
        store.kept = [Kept(key.id, revision, key)]  # the store no longer has the other keys
        await eventually_async(lambda id=key.id: id in keyring._holders)
    await eventually_async(lambda: len(keyring._holders) <= 2 * MAX_KEYS)
    assert keys[-1].id in keyring._holders


async def test_a_rate_limiter_survives_changes_of_its_key(keyring: Keyring) -> None:
    key, text = new_key("n", ["read"], rates=RateLimits(max_concurrent_requests=1))
    keyring._note({key.id: key.at(1)})
    before = keyring.access(text).limits
    keyring._note({key.id: key.model_copy(update={"note": "other"}).at(2)})
    assert keyring.access(text).limits is before
    keyring._note({key.id: key.model_copy(update={"rates": RateLimits(max_concurrent_requests=2)}).at(3)})
    assert keyring.access(text).limits is not before


async def test_a_running_request_notices_that_its_key_has_expired(keyring: Keyring) -> None:
    key, text = new_key("n", ["read"])
    keyring._note({key.id: key.at(1)})
    access = keyring.access(text)
    access.check()
    keyring._note({key.id: key.model_copy(update={"expires_unix_ms": 1}).at(2)})
    with pytest.raises(KeyInvalid, match="has expired"):
        access.check()


async def test_a_running_request_without_a_key_ends_with_the_first_key(keyring: Keyring, store: Store) -> None:
    access = keyring.access(None)
    access.check()
    key, _ = new_key("first", ["admin"])
    store.kept.append(Kept(key.id, 1, key))
    await eventually_async(lambda: not keyring.access(None).allows("read"))
    with pytest.raises(KeyRequired):
        access.check()


async def test_a_repeated_start_does_not_open_a_server_with_keys(keyring: Keyring, store: Store) -> None:
    key, _ = new_key("first", ["admin"])
    store.kept.append(Kept(key.id, 1, key))
    await eventually_async(lambda: not keyring.access(None).allows("read"))
    await keyring.start()  # as if the store had been lost between the keys and the models
    assert not keyring.access(None).allows("read")


async def test_a_whole_poll_finds_deleted_keys(keyring: Keyring, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (gone, text), (stays, _) = new_key("gone", ["read"]), new_key("stays", ["read"])
    store.kept = [Kept(gone.id, 41, gone), Kept(stays.id, 42, stays)]
    await eventually_async(lambda: opens(keyring, text))
    del store.kept[0]
    n_asked = len(store.asked_after)
    await eventually_async(lambda: len(store.asked_after) > n_asked + 2)
    assert opens(keyring, text), "a deletion has no revision"
    monkeypatch.setattr(collection, "WHOLE_SECONDS", 0.0)
    await eventually_async(lambda: not opens(keyring, text))


async def test_a_server_whose_keys_are_lost_is_not_ready(keyring: Keyring, store: Store) -> None:
    key, text = new_key("n", ["read"])
    store.kept.append(Kept(key.id, 1, key))
    await eventually_async(lambda: opens(keyring, text))
    keyring.check_ready()
    store.away = True
    n_asked = len(store.asked_after)
    await eventually_async(lambda: len(store.asked_after) > n_asked + 1)
    keyring.check_ready()
    store.kept, store.away = [], False
    await eventually_async(lambda: not opens(keyring, text))
    for shown in (text, None):
        with pytest.raises(NotReady):
            keyring.access(shown).require(["read"])
    with pytest.raises(NotReady):
        keyring.check_ready()
    store.kept.append(Kept(key.id, 2, key))
    await eventually_async(lambda: opens(keyring, text))
    keyring.check_ready()


async def test_a_revocation_holds_before_a_full_store_accepts_it(keyring: Keyring, store: Store) -> None:
    (admin, admin_text), (key, text) = new_key("admin", ["admin"]), new_key("n", ["read"])
    store.kept = [Kept(admin.id, 1, admin), Kept(key.id, 2, key)]
    await eventually_async(lambda: opens(keyring, text))
    access = keyring.access(admin_text)
    store.full = True
    for _ in range(2):
        unstored = await keyring.revoke(key.id, access)
        assert unstored is not None
        assert unstored.revoked_unix_ms is not None
        assert not opens(keyring, text)
    assert await keyring.get(key.id, access) == unstored
    assert unstored in (await keyring.list(access))[0]
    renamed = key.model_copy(update={"name": "changed by another server"})
    store.kept[1] = Kept(key.id, 3, renamed)
    await eventually_async(lambda: keyring._holders[key.id].key.revision == 3)
    assert not opens(keyring, text)
    store.full = False
    await eventually_async(lambda: store.kept[-1].key is not None and store.kept[-1].key.revoked_unix_ms is not None)
    assert store.kept[-1].key == renamed.model_copy(update={"revoked_unix_ms": unstored.revoked_unix_ms})
    await eventually_async(lambda: not keyring._unstored)
    assert await keyring.revoke(key.id, access) is None


def later(key: Key) -> Key:
    """The key in a format of a later release."""
    return key.model_copy(update={"format": Key.FORMAT + 1})


async def test_a_revocation_that_cannot_be_stored_does_not_delay_others(keyring: Keyring, store: Store) -> None:
    (admin, admin_text), (one, _), (other, text) = (
        new_key("a", ["admin"]),
        new_key("n", ["read"]),
        new_key("o", ["read"]),
    )
    store.kept = [Kept(admin.id, 1, admin), Kept(one.id, 2, one), Kept(other.id, 3, other)]
    await eventually_async(lambda: opens(keyring, text))
    store.full = True
    for key in (one, other):
        await keyring.revoke(key.id, keyring.access(admin_text))
    store.kept[1] = Kept(one.id, 4, later(one))
    await eventually_async(lambda: one.id in keyring._newer)
    store.full = False
    await eventually_async(lambda: list(keyring._unstored) == [one.id])
    store.kept = [each if each.id != one.id else Kept(one.id, 9, one) for each in store.kept]
    await eventually_async(lambda: not keyring._unstored)
    assert all(each.key and each.key.revoked_unix_ms for each in store.kept if each.id != admin.id)


async def test_the_caller_with_a_newer_key_is_unknown(keyring: Keyring, store: Store) -> None:
    key, text = new_key("n", ["read"])
    store.kept = [Kept(key.id, 2, later(key))]
    await eventually_async(lambda: key.id in keyring._newer)
    access = keyring.access(text[:-1] + ("a" if text[-1] != "a" else "b"))
    assert access.key_id is None  # the audit log must not name a key whose secret was not checked
    with pytest.raises(DocumentNewer):
        access.require(["read"])


async def test_an_older_document_does_not_make_a_newer_key_valid(keyring: Keyring, store: Store) -> None:
    key, text = new_key("n", ["read"])
    store.kept = [Kept(key.id, 3, later(key))]
    await eventually_async(lambda: key.id in keyring._newer)
    keyring._note({key.id: key.model_copy().at(2)})
    assert not opens(keyring, text)
    store.kept = [Kept(key.id, 4, key)]
    await eventually_async(lambda: opens(keyring, text))
