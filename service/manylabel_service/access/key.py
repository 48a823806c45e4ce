"""Stored keys, one document each: the permissions and expiry of a key, and the hash of its secret."""

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Literal

from pydantic import ConfigDict

from manylabel_service.access import key_text
from manylabel_service.access.grant import ANY, Scope
from manylabel_service.access.rates import NO_RATES, RateLimits
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.errors import DocumentDamaged, KeyNotFound, KeysFull
from manylabel_service.storage import Collection, Documents, StoredModel, intact

State = Literal["active", "expired", "revoked"]


class Key(StoredModel):
    """Stored key. Times are milliseconds of Unix time.

    A field that restricts a key raises the number of the format: an older release would ignore the restriction.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    note: str | None = None
    scopes: tuple[Scope, ...]
    models: tuple[str, ...] = (ANY,)
    rates: RateLimits = NO_RATES
    digest: str
    """SHA-256 of the secret, in hexadecimal."""
    created_unix_ms: int
    expires_unix_ms: int | None = None
    revoked_unix_ms: int | None = None

    @property
    def usable_until_unix_ms(self) -> float:
        """Time at which the key becomes invalid."""
        if self.revoked_unix_ms is not None:
            return -math.inf
        return math.inf if self.expires_unix_ms is None else self.expires_unix_ms

    def excess(self, own: "Key", before: "Key | None" = None) -> tuple[str, str] | None:
        """Return a field of this key that exceeds the caller's own key, with the allowed value; None if no field does.

        Permissions that the key had before a change stay allowed.
        """
        if _until(self) > max(_until(own), _until(before) if before else 0):
            assert own.expires_unix_ms is not None, "nothing is later than never"
            return "expires_at", f"must be {rfc3339(own.expires_unix_ms)} or earlier"
        for name in RateLimits.model_fields:
            most = _rate(own, name)
            if _rate(self, name) > max(most, _rate(before, name) if before else 0):
                return f"rates/{name}", f"must be at most {most:g}"
        return None

    def state(self, unix_ms: int) -> State:
        """Return the state of the key at a time."""
        if self.revoked_unix_ms is not None:
            return "revoked"
        return "expired" if self.expires_unix_ms is not None and unix_ms >= self.expires_unix_ms else "active"


def _until(key: Key) -> float:
    return math.inf if key.expires_unix_ms is None else key.expires_unix_ms


def _rate(key: Key, name: str) -> float:
    rate: float | None = getattr(key.rates, name)
    return math.inf if rate is None else rate


def new_key(
    name: str,
    scopes: Iterable[Scope],
    models: Iterable[str] = (ANY,),
    expires_unix_ms: int | None = None,
    note: str | None = None,
    rates: RateLimits = NO_RATES,
) -> tuple[Key, str]:
    """Return a new key and its text, which is not stored."""
    made = key_text.make()
    key = Key(
        id=made.id,
        name=name,
        note=note,
        scopes=tuple(scopes),
        models=tuple(models),
        rates=rates,
        digest=key_text.digest_of(made.secret).hex(),
        created_unix_ms=now_ms(),
        expires_unix_ms=expires_unix_ms,
    )
    return key, str(made)


KIND = "key"


class KeyStore(Collection[Key]):
    """Keys shared by all servers of a store; every method raises StorageError.

    Parameters
    ----------
    documents : documents of the store.
    max_keys : maximum number of keys, including revoked ones; above it the oldest revoked keys are deleted.
    """

    def __init__(self, documents: Documents, max_keys: int) -> None:
        super().__init__(documents, KIND, Key)
        self.max_keys = max_keys
        self._adding = asyncio.Lock()

    async def get(self, id: str) -> Key | None:
        """Return a key; None if it does not exist or is damaged. Raises DocumentNewer."""
        if not key_text.is_id(id):
            return None
        try:
            return await super().get(id)
        except DocumentDamaged:
            return None

    async def find(self, id: str) -> Key:
        """Return a key; raise KeyNotFound."""
        return _known(await self.get(id), id)

    async def add(self, key: Key) -> Key:
        """Store a new key; raise KeysFull if the limit is reached and none is revoked."""
        async with self._adding:
            keys = await self.all()
            excess = len(keys) + 1 - self.max_keys
            if excess > 0:
                revoked = [each for each in intact(keys).values() if each.revoked_unix_ms is not None]
                if len(revoked) < excess:
                    raise KeysFull(self.max_keys)
                for each in sorted(revoked, key=lambda key: key.revoked_unix_ms or 0)[:excess]:
                    await self.delete(each.id, each.revision)
            return await self.put(key.id, key)

    async def update(self, id: str, changed: Callable[[Key], Key], *, urgent: bool = False) -> Key:
        """Replace a key by the result of a function, and return the new key.

        Raises KeyNotFound, and the errors of the function. `urgent` is passed to `Documents.put`.
        """
        return _known(await self.change(id, lambda key: changed(_known(key, id)), urgent=urgent), id)


def _known(key: Key | None, id: str) -> Key:
    if key is None:
        raise KeyNotFound(id)
    return key
