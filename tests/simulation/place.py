"""Archive in memory, which servers reach over a network."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.simulation.store import Network

from manylabel_service.errors import StorageUnavailable
from manylabel_service.storage.places.place import (
    MAX_FILE_BYTES,
    MAX_OBJECT_BYTES,
    ObjectMissing,
    PlaceUnavailable,
)

T = TypeVar("T")


class MemoryPlace:
    """Implements `manylabel_service.storage.places.place.Place`.

    Parameters
    ----------
    objects : the objects by key, which all servers share.
    network : way to them.
    """

    def __init__(self, objects: dict[str, bytes], network: Network) -> None:
        self._objects, self._network = objects, network

    async def put(self, key: str, data: bytes | Path) -> bool:
        content = data if isinstance(data, bytes) else await asyncio.to_thread(data.read_bytes)
        return await self._call(lambda: self._put(key, content))

    def _put(self, key: str, content: bytes) -> bool:
        if key in self._objects:
            return False
        self._objects[key] = content
        return True

    async def get(self, key: str, most: int = MAX_OBJECT_BYTES) -> bytes:
        found = await self._call(lambda: self._objects.get(key))
        if found is None:
            raise ObjectMissing(key)
        return found

    async def fetch(self, key: str, path: Path, most: int = MAX_FILE_BYTES) -> None:
        await asyncio.to_thread(path.write_bytes, await self.get(key, most))

    async def keys(self, prefix: str) -> list[str]:
        return await self._call(lambda: [key for key in self._objects if key.startswith(prefix)])

    async def delete(self, key: str) -> None:
        await self._call(lambda: self._objects.pop(key, None))

    async def _call(self, step: Callable[[], T]) -> T:
        try:
            return await self._network.call(step)
        except StorageUnavailable as error:
            raise PlaceUnavailable(str(error)) from error
