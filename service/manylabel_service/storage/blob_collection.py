"""Blobs that a document names: segments of a history, snapshots, versions, the data of jobs and datasets.

A blob is stored first, under a key with an id that is never used again. It belongs to the collection once the document
names it. The document is changed by compare-and-set, so if two processes store the same thing, only one succeeds. A
process that dies before it writes the document leaves a blob that no document names; such an orphan is removed when it
is old enough.
"""

from collections.abc import AsyncIterable, Callable, Collection, Iterable
from typing import Generic, TypeVar

from manylabel_service import ulid
from manylabel_service.clock import now_ms
from manylabel_service.errors import DocumentDamaged, DocumentNewer, StorageUnavailable
from manylabel_service.storage.blob_pieces import blob_bytes
from manylabel_service.storage.collection import Collection as Documents
from manylabel_service.storage.collection import StoredModel
from manylabel_service.storage.protocol import Blobs
from manylabel_service.storage.protocol import Documents as StoredDocuments

ORPHANED_SECONDS = 172_800.0
"""Age in seconds at which a blob that no document names counts as left by a dead process. The age follows from the
clock of the machine that stored the blob, which may be wrong by a time zone; two days exceed that."""

T = TypeVar("T", bound=StoredModel)


def is_old(id: str, before_ms: int | None = None) -> bool:
    """Return whether a blob with this id is an orphan if no document names it; False for an id that this release does
    not write.

    `before_ms` is the Unix time in milliseconds before which all blobs count as old.
    """
    return ulid.valid(id) and ulid.timestamp_of(id) < (
        now_ms() - 1_000 * ORPHANED_SECONDS if before_ms is None else before_ms
    )


async def delete_orphans(
    blobs: Blobs, keys: Iterable[str], named: Collection[str], before_ms: int | None = None
) -> None:
    """Delete the old blobs among these keys, except blobs that a document names; the keys end with the ids."""
    for key in keys:
        if key not in named and is_old(key.rpartition("/")[2], before_ms):
            await blobs.delete(key)


class BlobCollection(Generic[T]):
    """A document, and the blobs that it names; every method raises StorageUnavailable.

    Parameters
    ----------
    documents, blobs : of the store.
    kind, name : of the document; the keys of the blobs begin with them.
    model : type of the document.
    named : returns the keys of the blobs that a document names, without the prefix.
    empty : returns the value of a document that does not exist; by default the model without arguments.

    Attributes
    ----------
    name : name of the document.
    documents : documents of the kind.
    prefix : prefix of the keys of the blobs.
    """

    def __init__(
        self,
        documents: StoredDocuments,
        blobs: Blobs,
        kind: str,
        name: str,
        model: type[T],
        named: Callable[[T], set[str]],
        empty: Callable[[], T] | None = None,
    ) -> None:
        self.documents = Documents(documents, kind, model)
        self.prefix = f"{kind}/{name}/"
        self._blobs = blobs
        self.name = name
        self._named = named
        self._empty = empty or model

    async def read(self) -> T:
        """Return the document; raise `DocumentNewer` or `DocumentDamaged`."""
        return await self.documents.get(self.name) or self._empty()

    async def change(self, change: Callable[[T], T], *, urgent: bool = False) -> T:
        """Change the document, and remove the blobs that it no longer names; return the document.

        Raises `DocumentNewer` or `DocumentDamaged`. `urgent` is as in `Documents.put`. If a blob that the document
        newly names is missing, because a failover of Redis lost it, undo the change and raise StorageUnavailable.
        """
        before = self._empty()

        def changed(found: T | None) -> T | None:
            nonlocal before
            before = found or self._empty()
            after = change(before)
            return None if after == before else after.at(before.revision)

        after = await self.documents.change(self.name, changed, urgent=urgent) or before
        await self._check_blobs(before, after)
        await self.delete(self._named(before) - self._named(after))
        return after

    async def _check_blobs(self, before: T, after: T) -> None:
        """If a blob that only `after` names is missing, restore the document `before`, unless another process has
        changed it, and raise StorageUnavailable."""
        keys = self._named(after) - self._named(before)
        lost = {key for key in keys if self.key(key) not in await self._blobs.keys(self.key(key), limit=1)}
        if not lost:
            return
        is_named = False

        def undone(found: T | None) -> T | None:
            nonlocal is_named
            is_named = found is not None and not lost.isdisjoint(self._named(found))
            is_ours = is_named and found is not None and found.revision == after.revision
            return before.at(after.revision) if is_ours else None

        await self.documents.change(self.name, undone)
        if is_named:  # otherwise another process has replaced or removed it
            raise StorageUnavailable(f"the store has lost {self.key(lost.pop())} since it was stored", heals=True)

    async def put_blob(self, pieces: AsyncIterable[bytes]) -> tuple[str, int]:
        """Store a blob; return its id, which no document names yet, and its size in bytes."""
        id = ulid.new()
        return id, await self._blobs.put(self.key(id), pieces)

    async def blob(self, key: str) -> bytes:
        """Return the bytes of a blob; raise `BlobNotFound` or `BlobDamaged`."""
        return await blob_bytes(self._blobs, self.key(key))

    async def delete(self, keys: Iterable[str]) -> None:
        """Remove blobs."""
        for key in keys:
            await self._blobs.delete(self.key(key))

    def key(self, key: str) -> str:
        """Return the whole key of a blob."""
        return f"{self.prefix}{key}"

    async def is_newer(self) -> bool:
        """Return whether a newer release wrote the document."""
        try:
            await self.documents.get(self.name)
        except DocumentNewer:
            return True
        except DocumentDamaged:
            pass
        return False

    async def collect_garbage(self, keys: Iterable[str]) -> None:
        """Delete orphans among the blobs with these whole keys; raise `DocumentNewer` or `DocumentDamaged`."""
        if any(is_old(key.rpartition("/")[2]) for key in keys):
            await delete_orphans(self._blobs, keys, {self.key(key) for key in self._named(await self.read())})

    async def clear(self, keep: Collection[str] = ()) -> None:
        """Remove the blobs, except those with some whole keys."""
        for key in await self._blobs.keys(self.prefix):
            if key not in keep:
                await self._blobs.delete(key)

    async def delete_all(self) -> None:
        """Remove the document and the blobs of an owner that has been deleted."""
        await self.documents.delete(self.name)
        await self.clear()
