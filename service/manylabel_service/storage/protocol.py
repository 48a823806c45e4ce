"""Protocol between the service and its storage.

The docstrings here are the contract, which a test suite checks for each store.

The state of a model follows from its log. So a store has three things for each model: a record (name and spec), a log
of entries, and snapshots. With a snapshot, a reader can skip the beginning of the log. The store treats specs, payloads
and snapshots as opaque bytes. Besides models, it keeps documents and blobs.

**Positions.** The store assigns each entry a position, a string. Positions of one model grow with the log in the order
of `position_key`, and mean nothing outside that model. A position is never assigned twice, not even after a crash or
after the whole log was trimmed. Only positions that a power failure lost without ``fsync`` may be assigned again, and
no snapshot is ever ahead of the remaining entries. `START` comes before the first entry.

**Times.** The store assigns each entry the time of its append, by one clock for all servers (the process that
writes SQLite, Redis itself). Times never decrease within a log, even if the clock is set back. After a log was trimmed
through its end, the next entry gets the time of the clock.

**Incarnations.** Each creation of a model gets a number that was never used before in this store. Logs and snapshots
belong to the incarnation, not to the name. A name that is deleted and created again starts empty, even if the deletion
has not freed all space yet. A caller that still has the old record gets `ModelGone`.

**Documents.** Small bytes under a kind and a name, changed by compare-and-set. Each change gives a document a revision
above all earlier ones in this store, even if the document was deleted in between, so equal revisions mean equal states.
Documents are stored as reliably as models.

**Blobs.** Large bytes under a key, which never change; another blob may replace them.

**All or nothing.** Each change takes effect completely or not at all, for every reader and after any crash.

**Failure.** Each method may raise `StorageUnavailable`. If a method that changes something raises it, or is cancelled,
the store may have made the change (a response can be lost), but never a part of it. A change still on its way to
another server may even be made later. A caller of `append` need not care: entries that were added are returned, at
their positions in the log, by an `append` or `read` after the same position. A caller of `Documents.put` can read the
document again: if it has the new value, the change was made. `StorageFull` is the `StorageUnavailable` of a full store;
the change was not made then.

**Damage.** Every stored value has a checksum, which is verified on each read (`checksums`). Each log entry is chained
to the previous one, so lost and repeated entries are detected too. A value that does not match is never returned: a
method of a model raises `ModelDamaged`; a list names the damaged items and contains the others.

**Concurrency.** Tasks of one event loop may await all methods of an open store concurrently, and no method blocks the
loop. Calls on different models do not wait for long work on one of them (a snapshot, a trim, a delete).
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from pydantic import ConfigDict

from manylabel_service.errors import ModelDamaged

START = "0"
"""Position before the first entry of any log."""

SEED = "1"
"""Position of the initial snapshot of a model: after `START`, before any entry."""

Bytes = bytes | memoryview
"""Bytes of a large value, which may be passed without a copy."""

Durability = Literal["log", "fsync"]
"""Guarantee of an append that has returned: ``log`` survives a crash of any process, ``fsync`` also a power failure."""

UNBOUNDED_BYTES = 2**53
"""Upper bound of the size of a store in bytes."""

ALL = 2**53
"""Limit of a list that has everything."""

MAX_DOCUMENT_BYTES = 1 << 20
"""Maximum bytes of the value of one document."""

POSITION = r"^[0-9]+(?:-[0-9]+)*$"
"""Syntax of a position."""
_POSITION = re.compile(POSITION)


def position_key(position: str) -> tuple[int, ...]:
    """Return a key that orders the positions of one model: ``"12" -> (12,)``, ``"1700-3" -> (1700, 3)``.

    Raises
    ------
    ValueError
        If the string is not a position.
    """
    if not _POSITION.fullmatch(position):
        raise ValueError(f"a position is decimal numbers joined by '-', not {position!r}")
    return tuple(map(int, position.split("-")))


def is_after(position: str, other: str) -> bool:
    """Return whether a position of a model comes after another one."""
    return position_key(position) > position_key(other)


@dataclass(frozen=True, slots=True)
class ModelMeta:
    """Identity of a model; `incarnation` distinguishes successive models of one name.

    No field of a `damaged` record is reliable, and its spec is empty; the model can only be deleted.
    """

    name: str
    incarnation: int
    spec: bytes
    damaged: bool = False

    def check(self) -> None:
        """Raise `ModelDamaged` if the record is damaged."""
        if self.damaged:
            raise ModelDamaged(self.name, "its record does not match its checksum")


class Entry(NamedTuple):
    """Entry of a log: position, payload and time."""

    position: str
    payload: bytes
    time_ms: int
    """Unix time in milliseconds by the clock of the store, never below the time of the previous entry."""


class LogChanges(NamedTuple):
    """Changes of all logs of a store after a cursor."""

    cursor: str
    """Cursor after these changes."""
    ends: Mapping[int, str | None]
    """Position of the last entry of each changed log, by incarnation; None for a deleted model."""
    complete: bool
    """False if there may be changes after the earlier cursor that are not in `ends`."""


class LogExtent(NamedTuple):
    """Size of the log before a position, computed by the replica that stores the snapshot; the store does not interpret
    it.
    """

    examples: int
    """Number of examples that the model had learnt."""
    size_bytes: int
    """Bytes of all payloads of the log, including trimmed ones."""


NO_EXTENT = LogExtent(0, 0)


Reason = Literal["recent", "pin", "history"]
"""Reason to retain a snapshot: it is one of the newest, a rollback in the log returns to it, or the history is replayed
from it."""


@dataclass(frozen=True, slots=True)
class SnapshotMeta:
    """Metadata of a snapshot of the state after the entry at `position` (`START` or `SEED`: before any entry).

    The snapshot is deleted with the last of its `reasons`. `pins` counts how often it was pinned.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    position: str
    size_bytes: int
    created_unix_ms: int
    extent: LogExtent = NO_EXTENT
    reasons: tuple[Reason, ...] = ("recent",)
    pins: int = 0

    @property
    def pinned(self) -> bool:
        """True if a rollback in the log returns to the snapshot."""
        return "pin" in self.reasons

    @property
    def listed(self) -> bool:
        """True if the snapshot is more than a state of the history."""
        return self.pinned or "recent" in self.reasons


class Document(NamedTuple):
    """Document at one revision; `value` is empty if the document is `damaged`."""

    name: str
    revision: int
    value: bytes
    damaged: bool = False


class Logs(Protocol):
    """Logs of all models."""

    async def check(self, record: ModelMeta) -> None:
        """Raise `ModelGone` if the log of a model has been deleted, `ModelDamaged` if it is known to be damaged."""
        ...

    async def append(self, record: ModelMeta, payloads: Sequence[bytes], after: str) -> list[Entry]:
        """Append entries to the log, and catch up with it.

        Returns every entry after the position `after`, in log order. Entries of other processes come first, then the
        new ones, one per payload and in the same order. A caller that applies the result in order, and passes its last
        position as the next `after`, sees the whole log. The new entries have at least the durability with which the
        store was opened.

        Parameters
        ----------
        record : the model.
        payloads : at least one; all are added or none.
        after : position up to which the caller knows the log.

        Raises
        ------
        ModelGone, ModelDamaged
        LogTrimmed
            If entries after `after` have been trimmed; nothing was added.
        LogLost
            If the entry at `after` is neither in the log nor trimmed: the store has lost it. Nothing was added; the
            caller's state includes entries that the log lacks, and must be restored.
        ValueError
            If there is no payload, or the position is invalid; nothing was added.
        """
        ...

    async def read(self, record: ModelMeta, after: str, limit: int) -> list[Entry]:
        """Return the next entries after a position, in log order.

        Returns one to `limit` entries; none only at the end of the log. Fewer than `limit` entries do not mean the end:
        a store may stop earlier to keep results with large entries small.

        Raises `ModelGone`, `ModelDamaged`, `LogTrimmed` if entries after `after` have been trimmed, `LogLost` like
        `append`, and ValueError for a limit below 1 or an invalid position.
        """
        ...

    async def changed(self, after: str, seconds: float) -> LogChanges:
        """Wait at most `seconds` for changes of logs after a cursor, of this process too.

        Its cost depends on the number of changes, not on the number of models. The result is incomplete for a cursor
        "", and if the store may have lost entries or changes since the cursor. Then `ends` has all logs; every change
        after such a call is found with its cursor. A store that cannot tell is always incomplete. A store that only one
        process can open has nothing to report, and just waits. `close` does not wait for this call, but ends it with
        `StorageUnavailable`.
        """
        ...

    async def ends(self, records: Collection[ModelMeta]) -> dict[int, str | None]:
        """Return the position of the last entry of each log, by incarnation; None for a deleted or replaced model.

        Damaged models may be omitted. A log that has never had an entry ends at the position of its first snapshot, or
        at `START`.
        """
        ...

    async def entries_after(self, positions: Mapping[ModelMeta, str], most: int) -> dict[ModelMeta, int]:
        """Return the number of entries of each log after a position, counted up to about `most`.

        Deleted and damaged models are omitted.
        """
        ...

    async def trim(self, record: ModelMeta, through: str) -> None:
        """Remove the entries at or before a position; a position beyond the end counts as the end.

        As soon as this begins, reading from before `through` raises `LogTrimmed`. Later positions continue as before.
        The caller must keep a snapshot at or after `through`. Raises `ModelGone`.
        """
        ...

    async def adopt(self, successor: ModelMeta, entries: Sequence[Entry]) -> None:
        """Add entries of a model's log to the log of its successor, with the same positions and times."""
        ...

    async def seal(self, record: ModelMeta, sealed: bool) -> None:
        """Seal or unseal a log; while it is sealed, `append` and `Predictions.put` raise `LogSealed`. Raises
        `ModelGone`.
        """
        ...


class Predictions(Protocol):
    """Stored predictions for delayed labels: bytes under ids chosen by the caller."""

    async def put(
        self,
        record: ModelMeta,
        predictions: Mapping[str, bytes],
        seconds: float,
        most: int,
        most_bytes: int = UNBOUNDED_BYTES,
    ) -> int:
        """Store predictions, all or none, for a number of seconds, at most until the model is deleted.

        Returns the bytes of all predictions now stored for the model, with their checksums; expired predictions may be
        included. Raises `ModelGone`, and `PredictionsFull` if the model would then have more than `most` predictions,
        or more than `most_bytes` bytes.
        """
        ...

    async def get(self, record: ModelMeta, ids: Sequence[str]) -> list[bytes | None]:
        """Return the value under each id; None if it is missing, expired or damaged.

        Raises `ModelGone`.
        """
        ...

    async def ids(self, record: ModelMeta, most: int, before: str | None = None) -> list[str]:
        """Return the ids of the stored predictions, at most `most`, newest first (ids sort by age).

        With `before`, an id from an earlier call: only older ids; none if that prediction has expired, because older
        ones have expired too. Raises `ModelGone`.
        """
        ...


class Documents(Protocol):
    """Documents of a store: small values under a kind and a name, changed by compare-and-set.

    A kind is like "jobs" (lower-case letters, digits, "-", "_", "."; at most 64), a name any text of 1 to 256 bytes;
    ValueError for others, and for a value above `MAX_DOCUMENT_BYTES`.
    """

    async def put(
        self, kind: str, name: str, value: bytes, *, revision: int | None, urgent: bool = False, least: int = 0
    ) -> int:
        """Change a document that is at a revision, or add a document that does not exist yet; return the new revision.

        The new revision is at least `least`, so a document moved to another store can keep its revision.

        `urgent` is for a change that must succeed even if the store is full, because it revokes rights or frees space.
        A store reserves some space for such changes and for deletions.

        Raises `RevisionConflict` if the document is at another revision or does not exist; for None, if it exists.
        Exactly one of several concurrent attempts from one revision succeeds.
        """
        ...

    async def get(self, kind: str, name: str) -> Document | None:
        """Return the current document; None if missing. Raises `DocumentDamaged`."""
        ...

    async def all(self, kind: str, after: int = 0) -> list[Document]:
        """Return the current documents of a kind that changed after a revision, ordered by revision.

        Each appears once; with 0, all documents do. A caller that passes the highest revision of the result as the next
        `after` sees the last state of every document; deletions are not reported. The call is cheap if nothing has
        changed.
        """
        ...

    def changes(self, kind: str) -> int | None:
        """Return the number of changes of documents of a kind since the store was opened; None if other processes may
        change them too."""
        ...

    async def revisions(self, kind: str) -> dict[str, int]:
        """Return the revision of each document of a kind, by name, without reading the values."""
        ...

    async def revision(self, kind: str, name: str) -> int | None:
        """Return the revision of a document without reading its value; None if missing."""
        ...

    async def delete(self, kind: str, name: str, *, revision: int) -> None:
        """Remove a document that is at a revision. Raises `RevisionConflict` if it is at another revision or
        missing."""
        ...


class Blobs(Protocol):
    """Blobs of a store: large bytes under a key of 1 to 256 bytes of text; ValueError for other keys."""

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        """Store the joined pieces under a key; return their size in bytes.

        The new blob replaces the key's earlier blob in one step, once all pieces are stored. If `pieces` raises, or the
        caller is cancelled, the stored pieces are removed; those of a dead process are removed later. This waits for a
        slow source without a timeout. `close` does not wait, and afterwards this raises `StorageUnavailable`.
        """
        ...

    def read(self, key: str) -> AsyncGenerator[bytes, None]:
        """Read the bytes of a blob, in order, in pieces of a few megabytes.

        All pieces come from one blob: if it is replaced or removed meanwhile, the rest still follows, or `BlobGone` is
        raised. Raises `BlobNotFound` at the first piece if the blob is missing, and `BlobDamaged` before the last piece
        if it is damaged. `close` does not wait for the reader.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete a blob if it exists."""
        ...

    async def keys(self, prefix: str = "", after: str = "", limit: int = ALL) -> list[str]:
        """Return the sorted keys of the blobs whose keys begin with a prefix and come after a key, at most `limit`."""
        ...
