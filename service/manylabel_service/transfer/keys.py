"""The keys of a store in an archive: with hashes of their secrets, as the store has them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from manylabel_service.access import patterns
from manylabel_service.access.key import Key
from manylabel_service.access.key_store import KIND
from manylabel_service.access.key_text import ID_PATTERN
from manylabel_service.hosting.size_limits import check_limit
from manylabel_service.storage import Documents
from manylabel_service.transfer.archive import ArchiveReader, ArchiveWriter

KEYS = "access/keys.json"
"""The file with the keys."""


class NeedsKey(ValueError):
    """An archive of a store with keys would be imported into a store without any, which is open."""

    def __init__(self) -> None:
        super().__init__(
            "the archive is of a store with keys, which it does not have or are left out, and this store has none: "
            "make its first key with manylabel keys init"
        )


def _check_pattern(pattern: str) -> str:
    if not patterns.valid(pattern):
        raise ValueError(patterns.ALLOWED)
    return pattern


_UnixMs = Annotated[int, Field(ge=0, lt=253_402_300_800_000)]  # before the year 10000


class _ArchivedKey(Key):
    """A key of an archive, which may come from anybody."""

    id: Annotated[str, Field(pattern=ID_PATTERN)]
    name: Annotated[str, Field(min_length=1, max_length=256)]
    note: Annotated[str, Field(max_length=10_000)] | None = None
    models: Annotated[tuple[Annotated[str, AfterValidator(_check_pattern)], ...], Field(min_length=1, max_length=100)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    created_unix_ms: _UnixMs
    expires_unix_ms: _UnixMs | None = None
    revoked_unix_ms: _UnixMs | None = None


_ALL = TypeAdapter(list[_ArchivedKey])


async def export_keys(documents: Documents, archive: ArchiveWriter, wanted: bool) -> tuple[int, bool]:
    """Write the keys of a store to an archive, if they are wanted.

    Returns
    -------
    (int, bool)
        How many keys the archive has, and whether the store has any. A damaged key is left out, but counts for this.
    """
    found = await documents.all(KIND)
    keys = []
    for document in found if wanted else ():
        try:
            keys.append(_ArchivedKey.model_validate_json(document.value))
        except ValidationError:
            continue
    if keys:
        archive.add(KEYS, _ALL.dump_json(keys))
    return len(keys), bool(found)


async def missing_keys(documents: Documents, archive: ArchiveReader, wanted: bool, max_keys: int) -> list[Key]:
    """Return the keys of an archive that a store without keys gets; a store that has keys keeps them, and gets none.

    Raises
    ------
    NeedsKey
        The archive is of a store with keys, and this store would have none.
    LimitExceeded
    pydantic.ValidationError, KeyError
        The archive is not what it should be.
    """
    is_closed = archive.contents["keyed"]
    if not is_closed or await documents.all(KIND):
        return []
    keys = list[Key](_ALL.validate_json(archive.read(KEYS))) if wanted and KEYS in archive.names else []
    if not keys:
        raise NeedsKey
    check_limit("the number of keys", len(keys), max_keys)
    return keys


async def import_keys(documents: Documents, keys: list[Key]) -> None:
    """Store keys; raises StorageError."""
    for key in keys:
        await documents.put(KIND, key.id, key.model_dump_json().encode(), revision=None)
