"""The keys as this process knows them, and what they let callers do."""

import asyncio
from typing import Any, NamedTuple

import structlog

from manylabel_service.access import key_text
from manylabel_service.access.grant import ANYONE, Access
from manylabel_service.access.key import Key
from manylabel_service.access.key_store import KeyStore
from manylabel_service.clock import now_ms
from manylabel_service.errors import CannotServeOpenly, KeyInvalid, KeyRequired, NotReady, StorageError

POLL_SECONDS = 0.25
"""Between two looks for what other processes have done to the keys: no store tells of that by itself."""

log = structlog.get_logger()


class _Holder(NamedTuple):
    """Whoever holds a key, with what is looked at for each request."""

    key: Key
    digest: bytes
    access: Access

    @classmethod
    def of(cls, key: Key) -> "_Holder":
        return cls(key, bytes.fromhex(key.digest), Access(key.id, key.scopes, key.models))


class Keyring:
    """A keyring tells what the caller of a request may do, by the keys of a store.

    They are known after `start`, and followed from then on: what another process does to them counts here within a
    second. While the store is away, those that are known go on to count.

    Parameters
    ----------
    key_store : has the keys.
    reached_at : the address of a server that others than this machine can reach, and that may not be open to them;
        else None, and without keys everybody may do everything.
    """

    def __init__(self, key_store: KeyStore, reached_at: str | None) -> None:
        self._key_store = key_store
        self._reached_at = reached_at
        self._holders: dict[str, _Holder | None] = {}
        self._seen = 0
        self._open = False
        self._known = False
        self._following: asyncio.Task[None] | None = None

    # -- life -------------------------------------------------------------------------------------

    async def start(self, *, check: bool = True) -> None:
        """Read the keys, and follow them from now on.

        Parameters
        ----------
        check : whether this process is the one of its server that looks whether there are any.

        Raises
        ------
        CannotServeOpenly
            There are none, and others could reach the server.
        StorageError
        """
        found, self._seen = await self._key_store.changed()
        if check and not found and self._reached_at is not None:
            raise CannotServeOpenly(self._reached_at)
        self._open, self._known = self._reached_at is None, True
        self._note(found)
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name="keys")

    async def stop(self) -> None:
        """Follow the keys no longer."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        away = False
        while True:
            await asyncio.sleep(POLL_SECONDS)
            # Of those that made room for others nothing is heard; now and then all are read anew.
            whole = away or len(self._holders) > 2 * self._key_store.max_keys
            try:
                found, seen = await self._key_store.changed(0 if whole else self._seen)
            except StorageError:
                away = True  # it may come back with another past
                continue
            except Exception:  # without it, this process would never hear of a revocation again
                log.exception("keys_not_followed")
                continue
            if whole:
                self._holders.clear()
            away, self._seen = False, seen
            self._note(found)

    def _note(self, found: dict[str, Key | None]) -> None:
        for id, key in found.items():
            self._holders[id] = None if key is None else _Holder.of(key)
        if found:
            self._open = False  # and never open again: keys that are lost must not let in everybody

    # -- who asks ---------------------------------------------------------------------------------

    def access(self, text: str | None) -> Access:
        """Return what a caller may do who has shown this text, or nothing."""
        if self._open:
            return ANYONE
        if not self._known:
            return Access(None, refusal=NotReady("the server is starting"))
        if text is None:
            return Access(None, refusal=KeyRequired())
        parts = key_text.parse(text)
        holder = None if parts is None else self._holders.get(parts.id)
        if not key_text.is_secret("" if parts is None else parts.secret, None if holder is None else holder.digest):
            return Access(None, refusal=KeyInvalid())
        assert holder is not None
        state = holder.key.state(now_ms())
        if state != "active":
            return Access(holder.key.id, refusal=KeyInvalid("has expired" if state == "expired" else "was revoked"))
        return holder.access

    # -- keys -------------------------------------------------------------------------------------

    @property
    def known(self) -> list[Key]:
        """The keys that this process knows, those that were revoked among them."""
        return [holder.key for holder in self._holders.values() if holder is not None]

    async def list(self, access: Access) -> list[Key]:
        """Return the keys that a caller may see, the newest first."""
        keys, _ = await self._key_store.changed()
        return sorted(
            (key for key in keys.values() if key is not None and access.covers(key.scopes, key.models)),
            key=lambda key: (key.created_unix_ms, key.id),
            reverse=True,
        )

    async def get(self, id: str, access: Access) -> Key:
        """Return a key; raise KeyNotFound, or an AccessError for a caller who may do less than it."""
        key = await self._key_store.find(id)
        access.require_cover(key.scopes, key.models)
        return key

    async def add(self, key: Key, access: Access) -> None:
        """Keep a new key.

        Raises
        ------
        AccessError
            It would be for more than the caller's own key.
        KeysFull, StorageError
        """
        access.require_cover(key.scopes, key.models)
        await self._key_store.add(key)
        self._note({key.id: key})

    async def change(self, id: str, fields: dict[str, Any], access: Access) -> Key:
        """Change some fields of a key; raise as `get`."""

        def changed(key: Key) -> Key:
            access.require_cover(key.scopes, key.models)
            return key.model_copy(update=fields)

        key = await self._key_store.change(id, changed)
        self._note({id: key})
        return key

    async def revoke(self, id: str, access: Access) -> Key:
        """Have a key count no more, for ever; raise as `get`."""
        key = await self.get(id, access)
        return key if key.revoked_unix_ms is not None else await self.change(id, {"revoked_unix_ms": now_ms()}, access)
