"""Protocol between the service and its storage.

The docstrings here are the contract, which a test suite checks for each store.

A model is a fold over its log, so a store keeps three things for each model: a record (name and
spec), a log of entries, and snapshots that spare a reader the beginning of the log. Records,
payloads and snapshots are opaque bytes to it. Beside the models it keeps documents and blobs.

**Positions.** The store gives each entry a position, a string. Positions of one model grow with the
log in the order of `position_key`, mean nothing outside that model, and are never given twice: not
after the log was trimmed to nothing, not after a crash. Only what a loss of power took away without
``fsync`` may be given again; and no snapshot is ever ahead of what was kept. `START` comes before the first entry.

**Times.** The store gives each entry the time at which it was appended, by one clock for all servers (the process that
writes SQLite, Redis itself). Times never go back within a log, not even if the clock does. After a log was trimmed
through its end, the next time is that of the clock.

**Incarnations.** Each creation of a model gets a number never used before in this store. Logs and
snapshots belong to the incarnation, not to the name: a name that is deleted and created again
starts with nothing, however the deletion went on, and a caller that still holds the old record gets
`ModelGone` and reaches nothing of the new one.

**Documents.** Small bytes under a kind and a name, changed by compare-and-set. Each change gives a
document a revision above all that were given before in this store, also to a document that was
deleted in between; so two revisions that are equal are the same state. They are kept as reliably as
models are.

**Blobs.** Large bytes under a key, which never change: another blob may take the place of one.

**All or nothing.** What changes something changes all of it or none of it, for any reader and over
any crash.

**Failure.** Each method may raise `StorageUnavailable`. When it comes from a method that changes
something, or when the await of that method is cancelled, the change may have been made or not (an
answer can get lost on its way), but never half; where it is on its way to another server still, it
may even be made later. For `append` this needs no care: entries that did get in come back, at their
place in the log, from an `append` or `read` after the same position. Nor for documents: a caller that reads
one again, and finds the value that it put, knows that the change was made. `StorageFull` is the
`StorageUnavailable` for a full store; then the change was not made.

**Damage.** Every stored value has a checksum, which is checked when it is read (`checksums`). An entry of a log is
chained to the one before it, so that a lost or repeated entry is detected as well. A value that does not match is never
returned: a method of a model raises `ModelDamaged`, a list names what is damaged and has the others.

**Concurrency.** All methods of an open store may be awaited at the same time by tasks of one event
loop, and none blocks that loop. Calls on different models do not wait for long work on one of them
(a snapshot, a trim, a delete).
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from manylabel_service.errors import ModelDamaged

START = "0"
"""Position before the first entry of any log."""

SEED = "1"
"""Position of the initial snapshot of a model: after `START`, before any entry."""

Bytes = bytes | memoryview
"""Bytes of a large value, which may be passed without a copy."""

Durability = Literal["log", "fsync"]
"""Guarantee of an append that has returned: ``log`` survives a crash of any process, ``fsync`` loss of power too."""

UNBOUNDED_BYTES = 2**53
"""Upper bound of the bytes of a store."""

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
        """Raise `ModelDamaged` for a damaged one."""
        if self.damaged:
            raise ModelDamaged(self.name, "its record does not match its checksum")


class Entry(NamedTuple):
    """Entry of a log: its position, its payload, and its time."""

    position: str
    payload: bytes
    time_ms: int
    """Unix time in milliseconds by the clock of the store, never below the time of the entry before it."""


class LogExtent(NamedTuple):
    """Size of the log before a position, computed by the replica that stores the snapshot; the store does not interpret
    it.
    """

    examples: int
    """Number of examples that the model had learnt."""
    size_bytes: int
    """Bytes of all payloads of the log, including trimmed ones."""


NO_EXTENT = LogExtent(0, 0)


class ManualSnapshot(NamedTuple):
    """Name and note of a manual snapshot."""

    name: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class SnapshotMeta:
    """Metadata of a snapshot of the state after the entry at `position` (`START` or `SEED`: before any entry).

    `pinned` snapshots stay until they are unpinned, `kept` (manual) ones until they are deleted.
    """

    position: str
    size_bytes: int
    created_unix_ms: int
    pinned: bool = False
    extent: LogExtent = NO_EXTENT
    kept: ManualSnapshot | None = None


class Document(NamedTuple):
    """Value at one revision; empty if the document is `damaged`."""

    name: str
    revision: int
    value: bytes
    damaged: bool = False


class Logs(Protocol):
    """Logs of all models.

    Attributes
    ----------
    durabilities : supported durabilities of appends; known once the store is open.
    """

    durabilities: frozenset[Durability]

    async def check(self, record: ModelMeta) -> None:
        """Raise `ModelGone` if the log of a model has been deleted, `ModelDamaged` if it is known to be damaged."""
        ...

    async def append(
        self, record: ModelMeta, payloads: Sequence[bytes], after: str, durability: Durability
    ) -> list[Entry]:
        """Add entries at the end of the log, and catch up with it.

        Returns every entry after the position `after`, in log order: first those that others added
        since, last the new ones, one per payload in the order given and with nothing between them.
        The caller who applies the response in order, and passes the last position of it as the next
        `after`, has seen the whole log.

        Parameters
        ----------
        record : the model.
        payloads : at least one; all are added or none.
        after : the position up to which the caller knows the log.
        durability : what the entries have survived when this returns; a store may do more.

        Raises
        ------
        ModelGone, ModelDamaged
        LogTrimmed
            If entries after `after` have been trimmed; nothing was added.
        LogLost
            If the entry at `after` is not in the log and was not trimmed either: the store lost it.
            Nothing was added; the caller's state holds what the log does not, and must be restored.
        DurabilityUnavailable
            If it is not among `durabilities`; nothing was added.
        ValueError
            If there is no payload, or the durability or the position is not one; nothing was added.
        """
        ...

    async def read(self, record: ModelMeta, after: str, limit: int) -> list[Entry]:
        """Return the next entries after a position, in log order.

        At least one and at most `limit` of them, empty only at the end of the log. A response
        shorter than `limit` is not the end: a store may stop earlier to keep answers with large
        entries small.

        Raises `ModelGone`, `ModelDamaged`, `LogTrimmed` if entries after `after` have been trimmed, `LogLost` as
        `append`, and ValueError for a limit below 1 or a string that is not a position.
        """
        ...

    async def changed(self, positions: Mapping[ModelMeta, str], seconds: float) -> list[ModelMeta]:
        """Wait at most `seconds` until other processes have changed some of these models.

        Returns those that have entries after the position given, or were deleted; none when the
        time is over. A store that only one process can have open has nothing to tell, and waits. `close`
        does not wait for it, but ends it with `StorageUnavailable`.
        """
        ...

    async def entries_after(self, positions: Mapping[ModelMeta, str], most: int) -> dict[ModelMeta, int]:
        """Return how many entries each of these logs has after a position, about `most` where there are more.

        Models that are gone or damaged are omitted.
        """
        ...

    async def trim(self, record: ModelMeta, through: str) -> None:
        """Remove the entries at or before a position; one beyond the end counts as the end.

        From the first moment on, reading from before `through` raises `LogTrimmed`. Positions continue
        from where they were. The caller keeps a snapshot at or after `through`. Raises `ModelGone`.
        """
        ...

    async def adopt(self, successor: ModelMeta, entries: Sequence[Entry]) -> None:
        """Add entries of the log of a model to that of its successor, at their positions, with their times."""
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

        Returns the bytes of all that are kept for the model now, with their checksums; those of some that are over may
        be among them. Raises `ModelGone`, and `PredictionsFull` if more than `most`, or more than `most_bytes` of them,
        would be kept for this model then.
        """
        ...

    async def get(self, record: ModelMeta, ids: Sequence[str]) -> list[bytes | None]:
        """Return the value under each id; None if it is missing, expired or damaged.

        Raises `ModelGone`.
        """
        ...

    async def ids(self, record: ModelMeta, most: int, before: str | None = None) -> list[str]:
        """Return the ids of the stored predictions, at most `most`, the newest first (ids sort by their age).

        With `before`, an id that an earlier call returned: those older than it; none if it is kept no longer, since the
        older ones are not either. Raises `ModelGone`.
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
        """Change a document that is at a revision, or add one that must not exist; return the new revision.

        The new revision is `least` or higher: so a document that moves to another store can keep the one that it had.

        `urgent` is for a change that must not wait until a full store has room again: it takes away rights, or gives
        room back. A store keeps some room for such changes, and for everything that deletes.

        Raises `RevisionConflict` if the document is at another revision, or does not exist; for None, if it exists. Of
        several attempts at once from one revision exactly one succeeds.
        """
        ...

    async def get(self, kind: str, name: str) -> Document | None:
        """Return the current document; None if missing. Raises `DocumentDamaged`."""
        ...

    async def all(self, kind: str, after: int = 0) -> list[Document]:
        """Return the documents of a kind that changed after a revision, as they are now, ordered by their revisions.

        Each is there once. With 0: all documents. A caller that passes the highest revision of the result as the next
        `after` sees the last state of every document; deletions are not reported. Cheap
        where nothing has changed.
        """
        ...

    async def revisions(self, kind: str) -> dict[str, int]:
        """Return the revision of each document of a kind by its name, without reading the values."""
        ...

    async def delete(self, kind: str, name: str, *, revision: int) -> None:
        """Remove a document that is at a revision. Raises `RevisionConflict` if it is at another, or not there."""
        ...


class Blobs(Protocol):
    """Blobs of a store: large bytes under a key of 1 to 256 bytes of text; ValueError for other keys."""

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> int:
        """Store the joined pieces under a key; return how many bytes they are.

        It replaces the blob of the key once all of it is stored: at the end, in one step. Where
        `pieces` raises, or the caller is cancelled, what came before it is removed, and what a process that
        died has left goes by itself. A source that is slow is waited for, however long it takes; not by
        `close`, after which this raises `StorageUnavailable`.
        """
        ...

    def read(self, key: str) -> AsyncGenerator[bytes, None]:
        """Read the bytes of a blob, in order, in pieces of a few megabytes.

        All come from one blob: of one that is replaced or removed meanwhile the rest follows, or `BlobGone` is
        raised. Raises `BlobNotFound` with the first piece if it is missing, and `BlobDamaged` before the last piece
        of one that is damaged. `close` does not wait for it.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete a blob if it exists."""
        ...

    async def keys(self, prefix: str = "") -> list[str]:
        """Return the keys of all blobs that begin with a prefix, sorted."""
        ...
