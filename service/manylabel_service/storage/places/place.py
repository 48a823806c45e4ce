"""Places of archives and blobs: immutable objects under keys."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

KEY = re.compile(r"(?:[A-Za-z0-9_%~-][A-Za-z0-9._%~-]*/)*[A-Za-z0-9_%~-][A-Za-z0-9._%~-]*")
"""Pattern of keys: names joined by slashes, without names that lead out of the place."""


MAX_OBJECT_BYTES = 1 << 28
"""Maximum bytes of an object that is read into memory, except a state of a model."""

MAX_FILE_BYTES = 2**53
"""Maximum bytes of an object that is written to a file, unless the caller knows its size."""


ARCHIVE = "the archive"
"""Title of the place of an archive in error messages, before the address."""

MAX_THREADS = 8
"""Maximum number of threads that wait for one place. They are separate, because a place that does not respond must not
occupy the threads of predictions."""


class ArchiveError(Exception):
    """Base class of the errors of places."""


class PlaceUnavailable(ArchiveError):
    """A place cannot be reached, is full, or refuses access; a later attempt may succeed."""


class ObjectMissing(ArchiveError):
    """The place does not have the object."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is missing")


class ObjectDamaged(ArchiveError):
    """The object differs from the written one, or is not an object: a link, a pipe, or far too large."""

    def __init__(self, key: str, detail: str) -> None:
        super().__init__(f"{key} is damaged: {detail}")


class Place(Protocol):
    """Place of immutable objects under keys.

    Each method raises `PlaceUnavailable`. After an error of `put`, or a crash, the object may exist, but is never
    incomplete.
    """

    async def put(self, key: str, data: bytes | Path) -> bool:
        """Create an object from bytes or a file; if the key exists, change nothing and return False."""
        ...

    async def get(self, key: str, most: int = MAX_OBJECT_BYTES) -> bytes:
        """Return an object; raise `ObjectMissing`, or, before reading, `ObjectDamaged` for an object of more than
        `most` bytes."""
        ...

    async def fetch(self, key: str, path: Path, most: int = MAX_FILE_BYTES) -> None:
        """Write an object to a file; raises the errors of `get`."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with a prefix, which ends with a slash, in any order."""
        ...

    async def delete(self, key: str) -> None:
        """Remove an object, if it exists."""
        ...


def new_threads() -> ThreadPoolExecutor:
    """Return the threads of one place, which end with it."""
    return ThreadPoolExecutor(MAX_THREADS, "place")


def check_size(key: str, size_bytes: int, most: int) -> None:
    """Raise `ObjectDamaged` for an object above its maximum size."""
    if size_bytes > most:
        raise ObjectDamaged(key, f"it has {size_bytes:,} bytes, and at most {most:,} are read")


def quoted(name: str) -> str:
    """Return a name in the form that a key may contain."""
    return quote(name, safe="").replace(".", "%2E") if name.startswith(".") else quote(name, safe="")
