"""Objects of an archive: their keys, contents and checksums.

::

    stores/STORE                                         which stores this one was restored from
    STORE/catalogue/<unix ms>-<random>                   documents, models and blobs of the store at a time
    STORE/blobs/<key>                                    a blob of the store: a dataset, or a version of a model
    STORE/models/<incarnation>/<timeline>/log/<after>_<through>   entries of a log, a segment
    STORE/models/<incarnation>/<timeline>/state/<position>        a snapshot
    STORE/replaced/<incarnation>                         the timeline that has replaced all of this model
    unnamed/<unix ms>-<random>                           objects that no catalogue named at a time

A *timeline* is one unbroken log. A store that lost the end of a log, or trimmed entries before they were archived,
begins another. A model that has forgotten examples has a new incarnation; older catalogues name the former
incarnations, which are deleted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, NamedTuple

import structlog
from pydantic import AfterValidator, Base64Bytes, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from manylabel_service.archive.store_documents import STORE_ID
from manylabel_service.online.history import segment
from manylabel_service.storage import POSITION, Entry, position_key
from manylabel_service.storage.places.place import ArchiveError, ObjectDamaged, Place, quoted

STORES = "stores/"
"""Prefix of the objects that name stores."""

NOTES = "unnamed/"
"""Prefix of the objects that list unreferenced objects."""

MAX_NUMBER = 2**53
"""Maximum of a revision, an incarnation or a size."""

MAX_STRAYS = 1_000
"""Maximum number of stray files that a process names in its log."""

_POSITION = r"[0-9]+(?:-[0-9]+)*"
_TIMED = r"[0-9]{15}-[0-9a-z]+"
_STORE = r"[0-9a-f]{32}"
_OBJECT = re.compile(
    rf"stores/{_STORE}|unnamed/{_TIMED}|{_STORE}/(?:catalogue/{_TIMED}|replaced/[0-9]+|blobs/[^/.][^/]*(?:/[^/.][^/]*)*"
    rf"|models/[0-9]+/[0-9]{{6}}/(?:log/{_POSITION}_{_POSITION}|state/{_POSITION}))"
)
"""Keys of the objects of an archive."""

log = structlog.get_logger()


class NoCatalogue(ArchiveError):
    """The archive has nothing to restore."""


class ArchivePlace:
    """Place of an archive, which lists only objects of this layout.

    Network file systems, desktops and editors leave other files in a directory, such as ``.nfs...``,
    ``.DS_Store`` and ``name~``. These are ignored: each is named in the log once, and never read or deleted.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._strays = set[str]()
        self.put, self.get, self.fetch, self.delete = place.put, place.get, place.fetch, place.delete

    async def keys(self, prefix: str) -> list[str]:
        """Return the keys of the objects that begin with a prefix. Raises `PlaceUnavailable`."""
        found = list[str]()
        for key in await self._place.keys(prefix):
            if _OBJECT.fullmatch(key):
                found.append(key)
            elif key not in self._strays and len(self._strays) < MAX_STRAYS:
                self._strays.add(key)
                log.warning("archive_stray_file", file=key, action="it is ignored; delete it if nothing needs it")
        return found


def _checked_spec(spec: bytes) -> bytes:
    """Return a stored spec if it is a JSON object of a reasonable depth; raise ValueError."""
    if not isinstance(from_json(spec), dict):
        raise ValueError("a spec must be a JSON object")
    return spec


Number = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Position = Annotated[str, Field(max_length=64, pattern=POSITION)]


class ArchivedDocument(BaseModel, defer_build=True):
    """A document of the store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    name: str
    revision: Number
    value: Base64Bytes


class ArchivedModel(BaseModel, defer_build=True):
    """A model of the store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    incarnation: Number
    spec: Annotated[Base64Bytes, AfterValidator(_checked_spec)]
    timeline: int = Field(ge=1, le=999_999)
    begin: Position
    """Position after which the archived log begins; the archive has a state at this position, unless the log starts
    there."""
    through: Position
    """Position up to which the log is archived."""


class Replacement(BaseModel, defer_build=True):
    """Timeline and store id to read instead of those of another model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: str = Field(pattern=STORE_ID)
    model: ArchivedModel

    def to_bytes(self) -> bytes:
        """Return the object."""
        return self.model_dump_json().encode()

    @classmethod
    def from_bytes(cls, key: str, data: bytes) -> Replacement:
        """Return the replacement in an object; raise `ObjectDamaged`."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise ObjectDamaged(key, f"this release cannot read it: {error.errors()[0]['msg']}") from error


Replacements = Mapping[tuple[str, int], Replacement]
"""Replacements by store id and incarnation of the model."""


class ArchivedBlob(BaseModel, defer_build=True):
    """A blob of the store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    size_bytes: Number
    sha256: str


class StoreCatalogue(BaseModel, defer_build=True):
    """Documents, models and blobs of a store at a time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = Field(ge=1, le=1)
    store: str = Field(pattern=STORE_ID)
    unix_ms: Number
    closed: bool
    """Whether the store had API keys."""
    documents: tuple[ArchivedDocument, ...] = ()
    models: tuple[ArchivedModel, ...] = ()
    blobs: tuple[ArchivedBlob, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the object: the SHA-256 of the JSON, then the JSON."""
        body = self.model_dump_json().encode()
        return hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, key: str, data: bytes) -> StoreCatalogue:
        """Return the catalogue in an object; raise `ObjectDamaged`."""
        digest, _, body = data.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise ObjectDamaged(key, "it does not match its checksum")
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise ObjectDamaged(key, f"this release cannot read it: {error.errors()[0]['msg']}") from error

    def has(self, model: str) -> bool:
        """Return whether a model of this name exists."""
        return any(each.name == model for each in self.models)

    @property
    def contents(self) -> str:
        """Digest of the catalogue without its times; if it has not changed, the catalogue is not written again."""
        models = tuple(model.model_copy(update={"through": ""}) for model in self.models)
        return hashlib.sha256(
            self.model_copy(update={"unix_ms": 0, "models": models}).model_dump_json().encode()
        ).hexdigest()


class LogPart(NamedTuple):
    """Entries of a log after one position, up to another."""

    key: str
    after: str
    through: str


def store_key(store: str) -> str:
    """Return the key of the object that names a store."""
    return f"{STORES}{store}"


def catalogue_prefix(store: str) -> str:
    """Return the prefix of the catalogues of a store, which sort by their times."""
    return f"{store}/catalogue/"


def catalogue_key(store: str, unix_ms: int, random: str) -> str:
    """Return the key of a catalogue."""
    return f"{catalogue_prefix(store)}{unix_ms:015d}-{random}"


def unix_ms(key: str) -> int:
    """Return the time of a catalogue or a note, in milliseconds of Unix time."""
    return int(key.rpartition("/")[2].partition("-")[0])


def note_key(unix_ms: int, random: str) -> str:
    """Return the key of a note."""
    return f"{NOTES}{unix_ms:015d}-{random}"


def blobs_prefix(store: str) -> str:
    """Return the prefix of the objects that contain blobs."""
    return f"{store}/blobs/"


def blob_key(store: str, key: str) -> str:
    """Return the key of the object that contains a blob."""
    return blobs_prefix(store) + "/".join(map(quoted, key.split("/")))


def replaced_prefix(store: str) -> str:
    """Return the prefix of the objects that name replaced models."""
    return f"{store}/replaced/"


def replaced_key(store: str, incarnation: int) -> str:
    """Return the key of the object that names the replacement of a model."""
    return f"{replaced_prefix(store)}{incarnation}"


def models_prefix(store: str) -> str:
    """Return the prefix of all objects of all models."""
    return f"{store}/models/"


def model_prefix(store: str, incarnation: int) -> str:
    """Return the prefix of all objects of a model."""
    return f"{models_prefix(store)}{incarnation}/"


def timeline_prefix(store: str, incarnation: int, timeline: int) -> str:
    """Return the prefix of all objects of a timeline."""
    return f"{model_prefix(store, incarnation)}{timeline:06d}/"


def timeline_of(key: str) -> str:
    """Return the prefix of the timeline to which an object of a model belongs."""
    return "/".join(key.split("/")[:4]) + "/"


def log_key(prefix: str, after: str, through: str) -> str:
    """Return the key of entries of a timeline."""
    return f"{prefix}log/{after}_{through}"


def state_key(prefix: str, position: str) -> str:
    """Return the key of a state of a timeline."""
    return f"{prefix}state/{position}"


def log_parts(keys: Collection[str]) -> list[LogPart]:
    """Return the parts of a log among the keys of one timeline, in log order."""
    parts = [LogPart(key, *key.rpartition("/")[2].split("_")) for key in keys if "/log/" in key]
    return sorted(parts, key=lambda part: (position_key(part.after), position_key(part.through)))


def state_positions(keys: Collection[str]) -> list[str]:
    """Return the positions of the states among the keys of one timeline, in log order."""
    return sorted((key.rpartition("/")[2] for key in keys if "/state/" in key), key=position_key)


def chain(parts: Sequence[LogPart], begin: str) -> list[LogPart]:
    """Return the parts that continue a position without a gap.

    Parts may overlap, because two servers may have written the same entries, or short parts may have been joined.
    Overlapping parts have the same entries at the same positions.
    """
    found: list[LogPart] = []
    key, best, at = position_key(begin), None, 0
    while True:
        while at < len(parts) and position_key(parts[at].after) <= key:
            if best is None or position_key(parts[at].through) > position_key(best.through):
                best = parts[at]
            at += 1
        if best is None or position_key(best.through) <= key:
            return found
        found.append(best)
        key = position_key(best.through)


async def entries_of(place: Place, part: LogPart) -> list[Entry]:
    """Return the entries of a part of a log; raise `ObjectMissing`, `ObjectDamaged`."""
    data = await place.get(part.key)
    try:
        after, entries = segment.decode(data)
    except segment.DamagedSegment as error:
        raise ObjectDamaged(part.key, str(error)) from error
    if (after, entries[-1].position) != (part.after, part.through):
        raise ObjectDamaged(part.key, "its entries belong to another object")
    return entries
