"""Keys in the store: one document per key."""

import asyncio
from collections.abc import Callable

from manylabel_service.access import key_text
from manylabel_service.access.key import Key
from manylabel_service.errors import DocumentDamaged, KeyNotFound, KeysFull
from manylabel_service.storage import Collection, Documents

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
        """Return a key; None if it does not exist or is damaged."""
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
                revoked = [each for each in keys.values() if each is not None and each.revoked_unix_ms is not None]
                if len(revoked) < excess:
                    raise KeysFull(self.max_keys)
                for each in sorted(revoked, key=lambda key: key.revoked_unix_ms or 0)[:excess]:
                    await self.delete(each.id, each.revision)
            return await self.put(key.id, key)

    async def update(self, id: str, changed: Callable[[Key], Key], *, urgent: bool = False) -> Key:
        """Replace a key by the result of a function, and return it; `urgent` is passed to `Documents.put`.

        Raises KeyNotFound, and the errors of the function.
        """
        return _known(await self.change(id, lambda key: changed(_known(key, id)), urgent=urgent), id)


def _known(key: Key | None, id: str) -> Key:
    if key is None:
        raise KeyNotFound(id)
    return key
