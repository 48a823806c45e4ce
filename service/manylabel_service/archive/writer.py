"""Writer of objects to an archive, which reads each back."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from manylabel_service.storage.places.place import ObjectDamaged, ObjectMissing, Place


class Shipped(NamedTuple):
    """Numbers of objects and bytes written by a pass."""

    objects: int = 0
    size_bytes: int = 0


class Writer:
    """Writes objects to a place; every method raises ObjectDamaged and PlaceUnavailable.

    Attributes
    ----------
    shipped : counts of written objects so far.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self.shipped = Shipped()

    async def put(self, key: str, data: bytes, is_same: Callable[[bytes], bool] = lambda found: False) -> None:
        """Write an object, and read it back.

        Parameters
        ----------
        is_same : returns whether an existing object with other bytes is equivalent.
        """
        for _ in range(2):
            if await self._place.put(key, data):
                self._count(len(data))
            try:
                found = await self._place.get(key)
            except ObjectMissing:
                continue
            if found == data or is_same(found):
                return
            await self._place.delete(key)
        raise ObjectDamaged(key, "it differs from the bytes that were written")

    async def put_file(self, key: str, path: Path, digest: str | None = None) -> None:
        """Write an object from a file, whose SHA-256 may be known, and read it back."""
        size_bytes = (await asyncio.to_thread(path.stat)).st_size
        digest = digest or await asyncio.to_thread(digest_of, path)
        for _ in range(2):
            if await self._place.put(key, path):
                self._count(size_bytes)
            back = path.with_suffix(".back")
            try:
                await self._place.fetch(key, back)
            except ObjectMissing:
                continue
            if await asyncio.to_thread(digest_of, back) == digest:
                return
            await self._place.delete(key)
        raise ObjectDamaged(key, "it differs from the bytes that were written")

    def _count(self, size_bytes: int) -> None:
        self.shipped = Shipped(self.shipped.objects + 1, self.shipped.size_bytes + size_bytes)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
