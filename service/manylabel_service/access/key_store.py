"""The keys of a store: documents, one for each, changed by compare-and-set."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import structlog
from pydantic import ValidationError

from manylabel_service.access import key_text
from manylabel_service.access.key import Key
from manylabel_service.errors import KeyNotFound, KeysFull, RevisionConflict
from manylabel_service.storage import Document, DocumentFollower, Documents

KIND = "key"

log = structlog.get_logger()


class StoredKey(NamedTuple):
    """Key at a revision of the store; None if it is damaged: its row exists, but it cannot be used."""

    id: str
    revision: int
    key: Key | None


class KeyStore:
    """The keys that all servers of a store share; every method raises StorageError.

    Parameters
    ----------
    documents : of the store.
    max_keys : most keys, with those that were revoked; beyond it the oldest of these go.
    """

    def __init__(self, documents: Documents, max_keys: int) -> None:
        self._documents = documents
        self._follower = DocumentFollower(documents, KIND)
        self.max_keys = max_keys
        self._adding = asyncio.Lock()

    async def all(self) -> list[StoredKey]:
        """Return all keys."""
        return _read_all(await self._documents.all(KIND))

    def restart(self) -> None:
        """Have the next poll return all keys."""
        self._follower.restart()

    async def poll(self, whole: bool = False) -> tuple[list[StoredKey], set[str] | None]:
        """Return the keys that changed since the last poll; a full poll also returns the ids of all keys."""
        documents, ids = await self._follower.poll(whole)
        return _read_all(documents), ids

    async def find(self, id: str) -> Key:
        """Return a key; raise KeyNotFound."""
        return _known(await self._document(id), id)

    async def add(self, key: Key) -> StoredKey:
        """Store a new key; raise KeysFull if the limit is reached and none is revoked."""
        async with self._adding:
            documents = await self._documents.all(KIND)
            await self._make_room(documents)
            return StoredKey(key.id, await self._put(key, None), key)

    async def _make_room(self, documents: list[Document]) -> None:
        excess = len(documents) + 1 - self.max_keys
        if excess <= 0:
            return
        revoked = [
            (key.revoked_unix_ms, each)
            for each in documents
            if (key := _read(each)) is not None and key.revoked_unix_ms is not None
        ]
        if len(revoked) < excess:
            raise KeysFull(self.max_keys)
        for _, each in sorted(revoked, key=lambda pair: pair[0])[:excess]:
            await self._documents.delete(KIND, each.name, revision=each.revision)

    async def delete_damaged(self, id: str) -> bool:
        """Delete a key that cannot be read; return whether it was one."""
        document = await self._document(id)
        if document is None or _read(document) is not None:
            return False
        try:
            await self._documents.delete(KIND, id, revision=document.revision)
        except RevisionConflict:
            return False
        return True

    async def change(self, id: str, changed: Callable[[Key], Key], *, urgent: bool = False) -> tuple[StoredKey, Key]:
        """Replace a key by the result of a function, and return it; `urgent` is passed to `Documents.put`.

        Raises KeyNotFound, and what the function raises.
        """
        while True:
            document = await self._document(id)
            known = _known(document, id)
            key = changed(known)
            assert document is not None, "_known raises for none"
            try:
                revision = document.revision if key == known else await self._put(key, document.revision, urgent)
            except RevisionConflict:
                continue
            return StoredKey(id, revision, key), key

    async def _put(self, key: Key, revision: int | None, urgent: bool = False) -> int:
        value = key.model_dump_json().encode()
        return await self._documents.put(KIND, key.id, value, revision=revision, urgent=urgent)

    async def _document(self, id: str) -> Document | None:
        return await self._documents.get(KIND, id) if key_text.is_id(id) else None


def _known(document: Document | None, id: str) -> Key:
    key = None if document is None else _read(document)
    if key is None:
        raise KeyNotFound(id)
    return key


def _read_all(documents: list[Document]) -> list[StoredKey]:
    return [StoredKey(each.name, each.revision, _read(each)) for each in documents]


def _read(document: Document) -> Key | None:
    try:
        return Key.model_validate_json(document.value)
    except ValidationError:
        log.error("key_damaged", key=document.name, action="create another key instead of it")
        return None
