"""Places of blobs outside of a store, by the setting `blobs`: a directory, or a bucket.

The store has the manifest of each blob, with its key, size and checksum. A change of the manifest in the store
publishes or replaces the blob. Only the pieces are outside, one object each::

    <id of the store>/place                   proves that the place is the one that the store has recorded
    <id of the store>/<ab>/<abcdef...>.<n>    a piece; the name is that of the token, without the number of the place

The token of a blob outside begins with the number of its place, for example ``0.abcdef0123456789``, so the blobs of one
store can be at several places while they are moved.

Objects outside do not expire. Instead, a store records a token before the first piece is written, and removes the
pieces of a token whose writer has died: `redis.blobs` and `sqlite.blobs` describe when.
"""

import asyncio
import errno
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

import structlog
from pydantic import ConfigDict, Field

from manylabel_service.environment import secrets, time
from manylabel_service.errors import (
    BlobDamaged,
    BlobGone,
    BlobLost,
    RevisionConflict,
    StorageFull,
    StorageUnavailable,
    StoreUnusable,
)
from manylabel_service.storage.blob_pieces import StoredManifest
from manylabel_service.storage.collection import Collection, StoredModel
from manylabel_service.storage.gate import Gate
from manylabel_service.storage.places import open_place
from manylabel_service.storage.places.place import ObjectDamaged, ObjectMissing, Place, PlaceUnavailable
from manylabel_service.storage.protocol import Documents
from manylabel_service.storage.store import Store

KIND = "blobs"
"""Kind and name of the document with the places of a store."""

TITLE = "the place of blobs"
STORE = "store"
"""Argument of a command that means the store itself, instead of the address of a place."""

LATE_SECONDS = 90.0
"""Seconds after which a bucket no longer executes a write that failed; `objects` limits the time of a request."""

_TOKEN = re.compile(r"[0-9]+\.[0-9a-f]{16}")

T = TypeVar("T")

log = structlog.get_logger()


class Places(StoredModel):
    """Places of the blobs of a store.

    Attributes
    ----------
    id : prefix of the objects of this store at each place.
    addresses : addresses of all places that the store has used; the index is the number of the place.
    current : number of the place of new blobs; None for the store itself.
    """

    model_config = ConfigDict(frozen=True)

    id: str = Field(default_factory=lambda: secrets.token_hex(16), pattern=r"^[0-9a-f]{32}$")
    addresses: tuple[str, ...] = ()
    current: int | None = None

    @property
    def address(self) -> str | None:
        """Address of the place of new blobs; None for the store itself."""
        return None if self.current is None else self.addresses[self.current]


def is_outside(token: str) -> bool:
    """Return whether the pieces of a token are outside of the store."""
    return _TOKEN.fullmatch(token) is not None


def same_form(address: str) -> str:
    """Return an address in canonical form, so that equal addresses are equal texts."""
    return address.replace("file://localhost/", "file:///", 1).rstrip("/")


class BlobPlaces:
    """Places of the blobs of a store; each method raises `StorageUnavailable`, which names the place."""

    def __init__(self, documents: Documents) -> None:
        self._documents = Collection(documents, KIND, Places)
        self._places = Places()
        self._opened: dict[int, Place] = {}

    async def read(self) -> Places:
        """Read the current places of the store."""
        self._places = await self._documents.get(KIND) or Places()
        return self._places

    async def choose(self, places: Places, address: str | None) -> Places:
        """Record the place of new blobs, None for the store; return the places as recorded.

        Raises RevisionConflict if another process has changed the document, and ValueError for an invalid address.
        """
        addresses = places.addresses
        if address is not None and address not in addresses:
            addresses = (*addresses, address)
        current = None if address is None else addresses.index(address)
        chosen = places.model_copy(update={"addresses": addresses, "current": current}).at(places.revision)
        if address is not None:
            await _attempt(address, open_place(address, TITLE).put(_marker(chosen), b"blobs of a ManyLabel store\n"))
        self._places = await self._documents.put(KIND, chosen)
        return self._places

    async def check(self, number: int) -> None:
        """Raise StorageUnavailable if a place is not the recorded one, for example because a volume is not mounted in
        the directory."""
        place, address = await self._at(number)
        marker = _marker(self._places)
        try:
            await _attempt(address, place.get(marker))
        except (ObjectMissing, ObjectDamaged) as error:
            detail = f"{TITLE} {address} does not have {marker}: mount the volume that the other servers use"
            raise StorageUnavailable(detail, heals=True) from error

    async def leave(self, number: int) -> None:
        """Remove the object that marks a place as one of the store, when the store no longer has blobs there."""
        place, address = await self._at(number)
        await _attempt(address, place.delete(_marker(self._places)))

    async def _at(self, number: int) -> tuple[Place, str]:
        if number >= len(self._places.addresses):
            await self.read()
        try:
            address = self._places.addresses[number]
            if number not in self._opened:
                self._opened[number] = open_place(address, TITLE)
        except (IndexError, ValueError) as error:
            detail = f"{TITLE} with the number {number} cannot be used: {error}"
            raise StorageUnavailable(detail, heals=False) from error
        return self._opened[number], address


class OutsidePieces(BlobPlaces):
    """Pieces of blobs at places outside of a store.

    Each method raises `StorageUnavailable`, which names the place.

    Parameters
    ----------
    gate : gate of the store, which each step passes.
    documents : documents of the store.
    """

    def __init__(self, gate: Gate, documents: Documents) -> None:
        super().__init__(documents)
        self._gate = gate
        self._writing: dict[str, asyncio.Future[bool]] = {}
        """Last piece of each token that is being written."""
        self._failed: dict[str, float] = {}
        """Time of the last write of a token that failed, and may still take effect."""

    async def new_token(self) -> str | None:
        """Return a token for a new blob; None if new blobs are in the store. The place has been checked."""
        with self._gate:
            number = (await self.read()).current
            if number is None:
                return None
            await self.check(number)
        return f"{number}.{secrets.token_hex(8)}"

    @staticmethod
    def is_at(current: int | None, token: str) -> bool:
        """Return whether the pieces of a token are at the place with a number; None for the store."""
        return (_place_of(token) if "." in token else None) == current

    async def put(self, token: str, number: int, piece: bytes) -> None:
        """Store a piece; numbers begin with 0."""
        with self._gate:
            place, address = await self._at(_place_of(token))
            writing = asyncio.ensure_future(place.put(self._key(token, number), piece))
            self._writing[token] = writing  # it continues if this task is cancelled
            try:
                await _attempt(address, asyncio.shield(writing))
            finally:
                if writing.done():
                    del self._writing[token]
                    self._note_failure(token, writing)

    async def pieces(
        self, key: str, head: StoredManifest, is_current: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes, None]:
        """Read the pieces of a blob; `is_current` returns whether the key still refers to the blob.

        Raises `BlobDamaged`, `BlobLost`, or `BlobGone` if the key no longer refers to it.
        """
        left, of_place = head.size_bytes, _place_of(head.token)
        for number in range(head.pieces):
            with self._gate:
                place, address = await self._at(of_place)
                try:
                    piece = await _attempt(address, place.get(self._key(head.token, number), left))
                except ObjectDamaged as error:
                    raise BlobDamaged(key, address) from error
                except ObjectMissing:
                    await self.check(of_place)
                    if not await is_current():
                        raise BlobGone(key) from None
                    log.error("blob_lost", error=str(lost := BlobLost(key, address)))
                    raise lost from None
            left -= len(piece)
            if left and number == head.pieces - 1:
                raise BlobDamaged(key, address)
            yield piece

    async def drop(self, token: str, pieces: int | None = None) -> None:
        """Remove the pieces of a token, whose number may be unknown.

        Raises `StorageUnavailable` if the pieces must be removed again, because a write may still take effect.
        """
        if (writing := self._writing.pop(token, None)) is not None:
            await asyncio.gather(writing, return_exceptions=True)
            self._note_failure(token, writing)
        place, address = await self._at(_place_of(token))
        if pieces is None:
            folder = self._key(token, 0).rpartition("/")[0] + "/"
            keys = [key for key in await _attempt(address, place.keys(folder)) if f"/{_name(token)}." in key]
        else:
            keys = [self._key(token, number) for number in range(pieces)]
        await _attempt(address, _all(place.delete(key) for key in keys))
        if time.monotonic() < self._failed.get(token, -math.inf) + LATE_SECONDS:
            raise StorageUnavailable(f"a write to {TITLE} {address} failed, but may still take effect", heals=True)
        self._failed.pop(token, None)

    def _note_failure(self, token: str, writing: asyncio.Future[bool]) -> None:
        """Note a write whose outcome is unknown; a file system reports what it has done."""
        error = None if writing.cancelled() else writing.exception()
        if isinstance(error, PlaceUnavailable) and not isinstance(error.__cause__, OSError):
            now = time.monotonic()
            late = {token: at for token, at in self._failed.items() if now < at + LATE_SECONDS}
            self._failed = {**late, token: now}

    def _key(self, token: str, number: int) -> str:
        name = _name(token)
        return f"{self._places.id}/{name[:2]}/{name}.{number}"

    def address_of(self, token: str) -> str:
        """Return the known address of the place of a token."""
        number = _place_of(token) if is_outside(token) else len(self._places.addresses)
        return self._places.addresses[number] if number < len(self._places.addresses) else ""


async def agree_on_blobs(store: Store, address: str | None) -> None:
    """Record the place of the blobs of a new store, None for the store itself; for an existing store, check the
    recorded place.

    Raises
    ------
    StoreUnusable
        The blobs of the store are elsewhere.
    StorageUnavailable
        The place cannot be reached, or is not the one that the store has recorded.
    """
    places = BlobPlaces(store.documents)
    wanted = None if address is None else same_form(address)
    found = await places.read()
    if wanted is not None and not found.revision:
        if not await store.blobs.keys(limit=1):
            with suppress(RevisionConflict):  # another process has just recorded its place
                await places.choose(found, wanted)
        found = await places.read()  # another process may have recorded the place and stored blobs meanwhile
    if found.address != wanted:
        there, move = found.address or "in the store", f"manylabel move-blobs --to {wanted or STORE}"
        raise StoreUnusable(
            f"the setting blobs is {wanted or 'not set'}, but the blobs of this store are {there}: "
            f"{f'set blobs to {there}' if found.address else 'do not set blobs'}, or move them with `{move}`"
        )
    if found.current is not None:
        await places.check(found.current)


async def _attempt(address: str, call: Awaitable[T]) -> T:
    try:
        return await call
    except PlaceUnavailable as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(str(error)) from error
        raise StorageUnavailable(str(error), heals=True) from error


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*calls)


def _marker(places: Places) -> str:
    return f"{places.id}/place"


def _place_of(token: str) -> int:
    return int(token.partition(".")[0])


def _name(token: str) -> str:
    return token.partition(".")[2]
