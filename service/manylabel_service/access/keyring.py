"""Authentication by the keys known to this process."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from manylabel_service.access import key_text
from manylabel_service.access.grant import ADMIN, ANY, SCOPES, Access
from manylabel_service.access.key import Key, KeyStore
from manylabel_service.access.rates import NO_RATES, RateLimiter
from manylabel_service.clock import now_ms
from manylabel_service.environment import time
from manylabel_service.errors import (
    BeyondOwnKey,
    CannotServeOpenly,
    DocumentDamaged,
    DocumentNewer,
    InvalidField,
    KeyInvalid,
    KeyNotFound,
    KeyRequired,
    NotReady,
    StorageError,
    StorageUnavailable,
)
from manylabel_service.storage import Unreadable, intact

RETRY_SECONDS = 1.0
"""Interval in seconds between two attempts to store a revocation."""

_BACK = "restore the store from a backup, or create a key with `manylabel keys init`"

POLL_SECONDS = 0.25
"""Interval in seconds between polls for keys that other processes changed, because no store notifies of changes."""

log = structlog.get_logger()


class _Holder:
    """Stored key with the values that each request needs."""

    __slots__ = ("access", "digest", "key", "limits", "until_unix_ms")

    def __init__(self, key: Key, limits: RateLimiter | None, access: Access) -> None:
        self.key, self.limits, self.access = key, limits, access
        self.digest = bytes.fromhex(key.digest)
        self.until_unix_ms = key.usable_until_unix_ms

    def refusal(self) -> KeyInvalid | None:
        """Return why the key is rejected; None if it is valid."""
        if time.time() * 1000 < self.until_unix_ms:
            return None
        return KeyInvalid("was revoked" if self.key.revoked_unix_ms is not None else "has expired")


class Keyring:
    """Authentication of requests by the keys of a store.

    `start` reads the keys; changes by other processes apply here within a second. While the store is unavailable, known
    keys stay valid.

    Parameters
    ----------
    key_store : store of the keys.
    reached_at : address of the server if other machines can reach it, so that it must not run without keys. None:
        without keys, every client has full access.
    """

    def __init__(self, key_store: KeyStore, reached_at: str | None) -> None:
        self._key_store = key_store
        self._reached_at = reached_at
        self._holders: dict[str, _Holder] = {}
        self._newer: dict[str, DocumentNewer] = {}
        """Errors of the keys that a newer release wrote, by id; this server rejects them."""
        self._anyone = Access(None, SCOPES, (ANY,), standing=lambda: None if self._open else KeyRequired())
        self._open = False
        self._known = False
        self._lost = False
        self._unstored: dict[str, int] = {}
        """Milliseconds of Unix time of revocations that are not stored yet, by id of the key."""
        self._retried_at = 0.0
        self._following: asyncio.Task[None] | None = None

    # -- lifecycle --------------------------------------------------------------------------------

    async def start(self, *, check: bool = True) -> None:
        """Read the keys, and follow their changes from now on; may be called again.

        Raises CannotServeOpenly or StorageError. Without `check`, CannotServeOpenly is not raised, because another
        process of the server does the check.
        """
        async with self._key_store.changes(whole=True) as (found, ids):
            if check and not ids and self._reached_at is not None:
                raise CannotServeOpenly(self._reached_at)
            if not self._known:  # a repeated start finds only what has changed
                self._open, self._known = self._reached_at is None, True
            self._note(found)
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name="keys")

    async def stop(self) -> None:
        """Stop following the keys."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            await self._store_revocations()
            if self._unstored:
                log.error("revocations_lost", keys=sorted(self._unstored), action="revoke these keys again")

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self._poll()
                if self._unstored and time.monotonic() - self._retried_at >= RETRY_SECONDS:
                    await self._store_revocations()
            except StorageError:
                continue  # the next poll that succeeds reads all keys
            except Exception:  # otherwise this process would never see a revocation again
                log.exception("keys_not_followed")

    async def _poll(self) -> None:
        known = self._holders.keys() | self._newer.keys()
        async with self._key_store.changes(whole=len(known) > 2 * self._key_store.max_keys) as (found, ids):
            if ids is not None:
                for id in known - ids:
                    self._holders.pop(id, None)
                    self._newer.pop(id, None)
                if known and not ids:
                    self._lost = True
                    log.error("keys_lost", action=_BACK)
            self._note(found)

    async def _store_revocations(self) -> None:
        """Store the revocations that failed because the store was full or unavailable."""
        self._retried_at = time.monotonic()
        for id, unix_ms in list(self._unstored.items()):
            try:
                await self._revoke(id, unix_ms, lambda key: None)
            except KeyNotFound:
                del self._unstored[id]
            except DocumentNewer:
                continue  # the key is rejected, and the revocation is stored once this release can read it
            except StorageError:
                return
            else:
                log.info("revocation_stored", key=id)

    def _note(self, found: Mapping[str, Key | Unreadable]) -> None:
        """Add keys read from the store, unless this process knows a newer revision."""
        for id, key in found.items():
            known, newer = self._holders.get(id), self._newer.get(id)
            if newer is not None and key.revision < newer.revision:
                continue
            if isinstance(key, DocumentNewer):
                log.error("key_unreadable", key=id, error=str(key), action="it is rejected with 503")
                self._holders.pop(id, None)
                self._newer[id] = key
                continue
            self._newer.pop(id, None)
            if isinstance(key, DocumentDamaged):
                log.error("key_damaged", key=id, action="create another key instead of it")
                self._holders.pop(id, None)
            elif known is None or known.key.revision < key.revision:
                self._holders[id] = self._holder(key, known)
        if found:
            self._open = self._lost = False  # permanently: if keys are lost, the server must not become open

    def _holder(self, key: Key, known: _Holder | None) -> _Holder:
        key = self._current(key)
        limits = None if key.rates == NO_RATES else RateLimiter(key.rates)
        if limits is not None and known is not None and known.limits is not None and known.key.rates == key.rates:
            limits = known.limits
        access = Access(key.id, key.scopes, key.models, limits=limits, standing=lambda: self._standing(key.id))
        return _Holder(key, limits, access)

    def _current(self, key: Key) -> Key:
        """Return the effective state of a stored key, including a revocation that is not stored yet."""
        unix_ms = self._unstored.get(key.id)
        if unix_ms is None or key.revoked_unix_ms is not None:
            return key
        return key.model_copy(update={"revoked_unix_ms": unix_ms})

    def _standing(self, id: str) -> KeyInvalid | DocumentNewer | None:
        holder = self._holders.get(id)
        return self._newer.get(id, KeyInvalid()) if holder is None else holder.refusal()

    # -- callers ----------------------------------------------------------------------------------

    def access(self, text: str | None) -> Access:
        """Return the permissions of the caller with this key; None means no key."""
        if self._open:
            return self._anyone
        if not self._known:
            return Access(None, refusal=NotReady("the server is starting"))
        if self._lost:
            return Access(None, refusal=self._keys_lost())
        if text is None:
            return Access(None, refusal=KeyRequired())
        return self._by_key(text) or Access(None, refusal=KeyInvalid())

    def _by_key(self, text: str) -> Access | None:
        """Return the permissions of the key with this text; None if there is no such key."""
        parts = key_text.parse(text) or key_text.NO_KEY
        if (newer := self._newer.get(parts.id)) is not None:
            return Access(None, refusal=newer)  # the secret cannot be checked, so the caller may be someone else
        holder = self._holders.get(parts.id)
        is_right = key_text.is_secret(parts.secret, key_text.DIGEST_OF_NONE if holder is None else holder.digest)
        if not is_right or holder is None:
            return None
        refusal = holder.refusal()
        return holder.access if refusal is None else Access(holder.key.id, refusal=refusal)

    # -- keys -------------------------------------------------------------------------------------

    def check_ready(self) -> None:
        """Raise NotReady if the store has lost all its keys."""
        if self._lost:
            raise self._keys_lost()

    @staticmethod
    def _keys_lost() -> NotReady:
        return NotReady(f"the store has lost all its keys, so no key can be checked: {_BACK}")

    @property
    def known(self) -> list[Key]:
        """Keys that this process knows, including revoked ones."""
        return [holder.key for holder in self._holders.values() if holder is not None]

    async def list(self, access: Access) -> tuple[list[Key], list[str]]:
        """Return the keys that a caller may see, newest first, and the ids of damaged ones."""
        found = await self._key_store.all()
        keys = sorted(
            (self._current(key) for key in intact(found).values() if access.covers(key.scopes, key.models)),
            key=lambda key: (key.created_unix_ms, key.id),
            reverse=True,
        )
        return keys, [id for id, key in found.items() if isinstance(key, DocumentDamaged) and access.sees_all]

    async def get(self, id: str, access: Access) -> Key:
        """Return a key; raise KeyNotFound, or AccessError if the key has permissions that the caller lacks."""
        key = await self._key_store.find(id)
        access.require_cover(key.scopes, key.models)
        return self._current(key)

    async def add(self, key: Key, access: Access) -> None:
        """Store a new key. Raises AccessError, InvalidField, KeysFull or StorageError."""
        if access.key_id is None:
            _require_admin(key)
        access.require_cover(key.scopes, key.models)
        self._require_no_more(key, None, access)
        self._note({key.id: await self._key_store.add(key)})

    async def change(self, id: str, fields: dict[str, Any], access: Access) -> Key:
        """Change fields of a key. Raises the errors of `get`, and AccessError if the key would exceed the caller's own
        key."""

        def changed(key: Key) -> Key:
            access.require_cover(key.scopes, key.models)
            new = key.model_copy(update=fields)
            self._require_no_more(new, key, access)
            return new

        key = await self._key_store.update(id, changed)
        self._note({id: key})
        return self._current(key)

    def _require_no_more(self, key: Key, before: Key | None, access: Access) -> None:
        """Raise BeyondOwnKey if a key expires later than the caller's own key, or has higher limits."""
        if access.key_id is None:
            return
        if (holder := self._holders.get(access.key_id)) is None:
            raise KeyInvalid
        if (excess := key.excess(holder.key, before)) is not None:
            raise BeyondOwnKey(*excess)

    async def revoke(self, id: str, access: Access) -> Key | None:
        """Revoke a key permanently.

        A damaged key is deleted, which needs access to all keys. If the store cannot write the revocation, this server
        rejects the key, retries the write until it succeeds, and returns the key.
        """

        def require(key: Key) -> None:
            access.require_cover(key.scopes, key.models)

        unix_ms = self._unstored.get(id, now_ms())
        try:
            if access.sees_all and await self._key_store.delete_damaged(id):
                self._holders.pop(id, None)
                self._unstored.pop(id, None)
                return None
            await self._revoke(id, unix_ms, require)
        except StorageUnavailable as error:
            holder = self._holders.get(id)
            if holder is None:
                raise
            require(holder.key)
            self._unstored[id] = unix_ms
            holder = self._holders[id] = self._holder(holder.key, holder)
            log.error("revocation_not_stored", key=id, error=str(error), action="retried until it is stored")
            return holder.key
        return None

    async def _revoke(self, id: str, unix_ms: int, require: Callable[[Key], None]) -> None:
        def revoked(key: Key) -> Key:
            require(key)
            return key if key.revoked_unix_ms is not None else key.model_copy(update={"revoked_unix_ms": unix_ms})

        key = await self._key_store.update(id, revoked, urgent=True)
        self._unstored.pop(id, None)
        self._note({id: key})


def _require_admin(key: Key) -> None:
    """Raise InvalidField if the first key could not create other keys."""
    if ADMIN not in key.scopes:
        raise InvalidField(("scopes",), f"must contain {ADMIN!r}: the first key must be able to create the others")
    if ANY not in key.models:
        raise InvalidField(("models",), f"must contain {ANY!r}: the first key must be able to create the others")
