"""Places of archives: immutable objects under keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

KEY = re.compile(r"(?:[A-Za-z0-9_%~-][A-Za-z0-9._%~-]*/)*[A-Za-z0-9_%~-][A-Za-z0-9._%~-]*")
"""Pattern of keys: names joined by slashes, without names that lead out of the place."""


class ArchiveError(Exception):
    """Base class of the errors of archives."""


class PlaceUnavailable(ArchiveError):
    """An archive cannot be reached, is full, or refuses access; a later attempt may succeed."""


class ObjectMissing(ArchiveError):
    """The archive does not have the object."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is missing")


class ObjectDamaged(ArchiveError):
    """The object differs from the written one."""

    def __init__(self, key: str, detail: str) -> None:
        super().__init__(f"{key} is damaged: {detail}")


class Place(Protocol):
    """Place of immutable objects under keys.

    Each method raises `PlaceUnavailable`. After an error of `put`, or a crash, the object may exist, but never in part.
    """

    async def put(self, key: str, data: bytes | Path) -> bool:
        """Create an object from bytes or a file; if the key exists, change nothing and return False."""
        ...

    async def get(self, key: str) -> bytes:
        """Return an object; raise `ObjectMissing`."""
        ...

    async def fetch(self, key: str, path: Path) -> None:
        """Write an object to a file; raise `ObjectMissing`."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with a prefix, which ends with a slash, in any order."""
        ...

    async def delete(self, key: str) -> None:
        """Remove an object, if it exists."""
        ...


def quoted(name: str) -> str:
    """Return a name in the form that a key may contain."""
    return quote(name, safe="").replace(".", "%2E") if name.startswith(".") else quote(name, safe="")
