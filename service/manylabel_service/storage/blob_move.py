"""Move of the blobs of a store to a place outside, to another place, or back into the store.

First, the store records the new place; from then on, new blobs are stored there. Then each other blob is copied and
read back, and the copy replaces the blob, unless another process has replaced or deleted it. A blob is always complete
at one place, so servers can read and write during the move. An interrupted move is continued by the next one.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing, suppress
from typing import NamedTuple, Protocol

from manylabel_service.errors import (
    BlobDamaged,
    BlobGone,
    BlobLost,
    BlobNotFound,
    RevisionConflict,
    StorageUnavailable,
)
from manylabel_service.storage.blob_pieces import StoredManifest
from manylabel_service.storage.blob_places import OutsidePieces, Places
from manylabel_service.storage.protocol import ALL

KEYS_AT_ONCE = 1_000


class MovableBlobs(ABC):
    """Blobs of a store that can be at several places.

    Attributes
    ----------
    outside : the pieces outside of the store.
    """

    outside: OutsidePieces

    @abstractmethod
    async def keys(self, prefix: str = "", after: str = "", limit: int = ALL) -> list[str]:
        """List the keys, like `Blobs.keys`."""

    @abstractmethod
    async def unfinished(self, current: int | None) -> int:
        """Return the number of blobs that are being written at other places than the place of new blobs."""

    @abstractmethod
    async def drop_loose(self, deleted: bool = False) -> None:
        """Remove the pieces of replaced and deleted blobs, and of writers that have died. Unless `deleted`, pieces of
        blobs that were just deleted may stay for some time."""

    @abstractmethod
    async def _put(self, key: str, pieces: AsyncIterable[bytes], replaced: StoredManifest | None = None) -> int:
        """Store a blob. If it must replace a certain blob, verify it first, and raise `BlobGone` if the key has another
        blob."""

    @abstractmethod
    async def _manifest(self, key: str) -> StoredManifest | None:
        """Return the manifest of a key; None if there is no blob. Raises `BlobDamaged`."""

    @abstractmethod
    def _pieces(self, key: str, head: StoredManifest) -> AsyncGenerator[bytes, None]:
        """Read the pieces of a manifest."""

    def _checked(self, key: str, head: StoredManifest) -> AsyncGenerator[bytes, None]:
        """Read the pieces of a manifest, and check them."""
        return head.checked(key, self._pieces(key, head), lambda: self.outside.address_of(head.token))

    async def _verify(self, key: str, head: StoredManifest) -> None:
        """Read back a blob that has no key yet; raise `StorageUnavailable` if it differs from the written one."""
        try:
            async with aclosing(self._checked(key, head)) as pieces:
                async for _ in pieces:
                    pass
        except (BlobDamaged, BlobNotFound) as error:
            raise StorageUnavailable(f"a copied blob differs from the original: {error}", heals=True) from error

    async def move(self, key: str, current: int | None) -> int | None:
        """Move a blob to the place of new blobs; return the number of its bytes, or None if another process replaced or
        deleted it.

        Raises BlobDamaged, BlobLost or StorageUnavailable; the blob then stays where it was.
        """
        head = await self._manifest(key)
        if head is None or self.outside.is_at(current, head.token):
            return None
        try:
            async with aclosing(self._checked(key, head)) as pieces:
                return await self._put(key, pieces, head)
        except BlobGone:
            if await self._manifest(key) == head:
                raise BlobLost(key, self.outside.address_of(head.token) or "the store") from None
            return None

    async def elsewhere(self, current: int | None) -> AsyncIterator[str]:
        """Return the keys of the blobs that are not at the place of new blobs."""
        after, keys = "", [""]
        while keys:
            keys = await self.keys(after=after, limit=KEYS_AT_ONCE)
            for key in keys:
                with suppress(BlobDamaged):  # its pieces are unknown
                    head = await self._manifest(key)
                    if head is not None and not self.outside.is_at(current, head.token):
                        yield key
            after = keys[-1] if keys else ""


class MovableStore(Protocol):
    """Store whose blobs can be moved."""

    @property
    def blobs(self) -> MovableBlobs: ...


class Moved(NamedTuple):
    """Result of a move.

    Attributes
    ----------
    blobs, size_bytes : number and bytes of the blobs that were moved.
    damaged : errors of blobs that were not moved, because they are damaged or lost where they are.
    unfinished : number of blobs that servers are writing at another place.
    """

    blobs: int
    size_bytes: int
    damaged: dict[str, str]
    unfinished: int


async def move_blobs(store: MovableStore, address: str | None) -> Moved:
    """Move all blobs of a store to a place, None for the store itself.

    Raises StorageUnavailable, after which the move can be continued, and ValueError for an invalid address.
    """
    blobs, places = store.blobs, await _chosen(store.blobs.outside, address)
    n_blobs = size_bytes = 0
    damaged: dict[str, str] = {}
    moving = True
    while moving:  # servers may have finished other blobs elsewhere meanwhile
        moving = False
        async for key in blobs.elsewhere(places.current):
            if key in damaged:
                continue
            try:
                moved = await blobs.move(key, places.current)
            except (BlobDamaged, BlobLost) as error:
                damaged[key] = str(error)
            else:
                moving = True
                n_blobs += moved is not None
                size_bytes += moved or 0
    await blobs.drop_loose(deleted=True)
    unfinished = await blobs.unfinished(places.current)
    if not unfinished and not damaged:
        for number in range(len(places.addresses)):
            if number != places.current:
                with suppress(StorageUnavailable):  # an earlier place may be gone
                    await blobs.outside.leave(number)
    return Moved(n_blobs, size_bytes, damaged, unfinished)


async def _chosen(outside: OutsidePieces, address: str | None) -> Places:
    while True:
        found = await outside.read()
        if found.address == address:
            if found.current is not None:
                await outside.check(found.current)
            return found
        with suppress(RevisionConflict):
            return await outside.choose(found, address)
