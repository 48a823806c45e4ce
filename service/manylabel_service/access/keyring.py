"""The keys as this process knows them, and what they let callers do."""

import asyncio
import time
from typing import Any

import structlog

from manylabel_service.access import key_text, token_text
from manylabel_service.access.attempts import FailedAttempts
from manylabel_service.access.grant import ANYONE, Access
from manylabel_service.access.key import NO_RATES, Key
from manylabel_service.access.key_store import KeptKey, KeyStore
from manylabel_service.access.rates import Limits
from manylabel_service.clock import now_ms
from manylabel_service.errors import CannotServeOpenly, KeyInvalid, KeyRequired, NotReady, StorageError, TooManyAttempts

POLL_SECONDS = 0.25
"""Between two looks for what other processes have done to the keys: no store tells of that by itself."""

MAX_TOKEN_MODELS = 100
"""Models of which it is remembered, for each key, what tokens open."""

log = structlog.get_logger()


class _Holder:
    """Whoever holds a key, with what is looked at for each request.

    Parameters
    ----------
    key : at this `revision` of the store.
    limits : of the key; None for none.
    access : what it opens.
    """

    __slots__ = ("access", "digest", "key", "limits", "revision", "token_key", "tokens", "until_unix_ms")

    def __init__(self, key: Key, revision: int, limits: Limits | None, access: Access) -> None:
        self.key, self.revision, self.limits, self.access = key, revision, limits, access
        self.digest = bytes.fromhex(key.digest)
        self.token_key = token_text.key_of(self.digest)
        self.until_unix_ms = key.usable_until_unix_ms
        self.tokens: dict[str, Access] = {}
        """What tokens for each model open, of those seen last."""

    def refusal(self) -> KeyInvalid | None:
        """Return why the key opens nothing; None if it does."""
        if time.time() * 1000 < self.until_unix_ms:
            return None
        return KeyInvalid("was revoked" if self.key.revoked_unix_ms is not None else "has expired")

    def by_token(self, model: str) -> Access:
        """Return what a token for a model opens."""
        access = self.tokens.get(model)
        if access is None:
            if len(self.tokens) >= MAX_TOKEN_MODELS:
                self.tokens.clear()
            scopes = [token_text.SCOPE] if self.access.allows(token_text.SCOPE) else []
            models = [model] if self.access.may_see(model) else []
            access = self.tokens[model] = Access(self.key.id, scopes, models, limits=self.limits)
        return access


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
        self._holders: dict[str, _Holder] = {}
        self._attempts = FailedAttempts()
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
        found = await self._key_store.changed()
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
            whole, known = away or len(self._holders) > 2 * self._key_store.max_keys, set(self._holders)
            try:
                found = await self._key_store.changed(0 if whole else self._seen)
            except StorageError:
                away = True  # it may come back with another past
                continue
            except Exception:  # without it, this process would never hear of a revocation again
                log.exception("keys_not_followed")
                continue
            if whole:
                for id in known.difference(kept.id for kept in found):
                    del self._holders[id]
            away = False
            self._note(found)

    def _note(self, found: list[KeptKey]) -> None:
        """Take in keys as they were read from the store, unless something newer is known of them."""
        for id, revision, key in found:
            self._seen = max(self._seen, revision)
            known = self._holders.get(id)
            if key is None:
                self._holders.pop(id, None)
            elif known is None or known.revision < revision:
                self._holders[id] = self._holder(key, revision, known)
        if found:
            self._open = False  # and never open again: keys that are lost must not let in everybody

    def _holder(self, key: Key, revision: int, known: _Holder | None) -> _Holder:
        limits = None if key.rates == NO_RATES else Limits(key.rates)
        if limits is not None and known is not None and known.limits is not None and known.key.rates == key.rates:
            limits = known.limits
        access = Access(key.id, key.scopes, key.models, limits=limits, standing=lambda: self._standing(key.id))
        return _Holder(key, revision, limits, access)

    def _standing(self, id: str) -> KeyInvalid | None:
        holder = self._holders.get(id)
        return KeyInvalid() if holder is None else holder.refusal()

    # -- who asks ---------------------------------------------------------------------------------

    def access(self, text: str | None, address: str) -> Access:
        """Return what a caller may do.

        Parameters
        ----------
        text : of the key, or of the token, that the caller has shown; None for none.
        address : of the caller.
        """
        if self._open:
            return ANYONE
        if not self._known:
            return Access(None, refusal=NotReady("the server is starting"))
        if text is None:
            return Access(None, refusal=KeyRequired())
        found = self._by_token(text) if text.startswith(token_text.BEGINNING) else self._by_key(text)
        if found is not None:
            return found
        seconds = self._attempts.count(address)
        return Access(None, refusal=TooManyAttempts(seconds) if seconds else KeyInvalid())

    def _by_key(self, text: str) -> Access | None:
        """Return what the key with this text opens; None if there is none."""
        parts = key_text.parse(text) or key_text.NO_KEY
        holder = self._holders.get(parts.id)
        is_right = key_text.is_secret(parts.secret, key_text.DIGEST_OF_NONE if holder is None else holder.digest)
        if not is_right or holder is None:
            return None
        refusal = holder.refusal()
        return holder.access if refusal is None else Access(holder.key.id, refusal=refusal)

    def _by_token(self, text: str) -> Access | None:
        """Return what the token with this text opens; None if no key gives it."""
        token = token_text.parse(text)
        holder = None if token is None else self._holders.get(token.key_id)
        signing = key_text.DIGEST_OF_NONE if holder is None else holder.token_key
        if token is None or not token.is_signed_by(signing) or holder is None:
            return None
        refusal = holder.refusal() or (KeyInvalid(token_text.OVER) if token.is_over(now_ms()) else None)
        return holder.by_token(token.model) if refusal is None else Access(token.key_id, refusal=refusal)

    # -- keys -------------------------------------------------------------------------------------

    @property
    def known(self) -> list[Key]:
        """The keys that this process knows, those that were revoked among them."""
        return [holder.key for holder in self._holders.values() if holder is not None]

    async def list(self, access: Access) -> list[Key]:
        """Return the keys that a caller may see, the newest first."""
        found = await self._key_store.changed()
        return sorted(
            (key for _, _, key in found if key is not None and access.covers(key.scopes, key.models)),
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
        self._note([await self._key_store.add(key)])

    async def change(self, id: str, fields: dict[str, Any], access: Access) -> Key:
        """Change some fields of a key; raise as `get`."""

        def changed(key: Key) -> Key:
            access.require_cover(key.scopes, key.models)
            return key.model_copy(update=fields)

        kept, key = await self._key_store.change(id, changed)
        self._note([kept])
        return key

    async def revoke(self, id: str, access: Access) -> Key:
        """Have a key count no more, for ever; raise as `get`."""
        key = await self.get(id, access)
        return key if key.revoked_unix_ms is not None else await self.change(id, {"revoked_unix_ms": now_ms()}, access)
