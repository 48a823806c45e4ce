"""Data of a simulated store: they outlive the servers that share them."""

import random
from asyncio import Future, get_running_loop
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from manylabel_service.errors import (
    LogLost,
    LogSealed,
    LogTrimmed,
    ModelExists,
    ModelGone,
    PredictionsFull,
    RevisionConflict,
    StorageUnavailable,
)
from manylabel_service.online.history import segment
from manylabel_service.release import FORMAT
from manylabel_service.storage import Document, Entry, LogChanges, ModelMeta
from manylabel_service.storage.blob_pieces import BlobManifest
from manylabel_service.storage.blob_places import is_outside
from manylabel_service.storage.models import Succession
from manylabel_service.storage.protocol import position_key

Key = tuple[int, ...]
KEPT_CHANGES = 20
"""Number of changes of logs that are remembered: few, so that servers miss some."""
FIRST_NUMBERS = 10**9
"""Upper bound of the number in the first position of an append, as in a Redis store."""


@dataclass
class Log:
    """Log of one incarnation.

    Attributes
    ----------
    trimmed : key of the last position that was removed.
    last : key of the last position that was added.
    begin : key of the position before the first entry.
    untrimmed : all entries that were ever added.
    """

    trimmed: Key
    last: Key
    entries: list[Entry] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    sealed: bool = False
    begin: Key = ()
    untrimmed: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin = self.begin or self.trimmed

    def add(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        self.untrimmed += entries
        for entry in entries:
            self.entries.append(entry)
            self.keys.append(position_key(entry.position))
            self.last = self.keys[-1]

    def after(self, record: ModelMeta, position: str) -> list[Entry]:
        """Return the entries after a position. Raises LogTrimmed, LogLost or ValueError."""
        key = position_key(position)
        if key < self.trimmed:
            raise LogTrimmed(record.name, position, "-".join(map(str, self.trimmed)))
        at = bisect_right(self.keys, key)
        if key != self.trimmed and (at == 0 or self.keys[at - 1] != key):
            raise LogLost(record.name, position)
        return self.entries[at:]


@dataclass(eq=False)
class StoredBlob:
    """Pieces of a blob, its manifest, and whether the pieces are those that were written.

    A blob outside of the store has no pieces in it.
    """

    manifest: BlobManifest
    pieces: list[bytes]
    whole: bool = True


def name_outside(token: str) -> str:
    """Return the part of a token of a blob outside that the names of its objects begin with."""
    return token.partition(".")[2]


def position_of(key: Key | None) -> str | None:
    """Return the position of a key; None without one."""
    return "-".join(map(str, key)) if key else None


def contains(data: bytes, text: bytes) -> bool:
    """Return whether a blob has a text, also in a compressed segment of a log."""
    if data.startswith(segment.MAGIC):
        data = b"".join(entry.payload for entry in segment.decode(data)[1])
    return text in data


class Disk:
    """Models, logs, stored predictions, documents and blobs.

    Every method is one step, which no other step interrupts.

    Parameters
    ----------
    now_ms : clock of the store, in Unix milliseconds.
    rng : source of the numbers in positions.

    Attributes
    ----------
    dropped : logs that were deleted or replaced.
    replaced : incarnation that each successor replaced.
    put_at : time of the last change of each document, by the event loop.
    outside : objects of the place outside of the store that has the blobs, by key; None: the store has them.
    loose : tokens of blobs outside that no key refers to, with the time at which a writer renewed them, or 0.
    deleted : tokens of deleted blobs outside, with the time after which their objects are removed.
    """

    def __init__(self, now_ms: Callable[[], int], rng: random.Random) -> None:
        self.now_ms = now_ms
        self._rng = rng
        self.format = FORMAT
        self.models: dict[str, ModelMeta] = {}
        self.uses: dict[str, int] = {}
        self.staged: set[int] = set()
        self.logs: dict[int, Log] = {}
        self.predictions: dict[int, dict[str, tuple[bytes, int]]] = {}
        self.documents: dict[tuple[str, str], tuple[int, bytes]] = {}
        self.blobs: dict[str, StoredBlob] = {}
        self.unfinished: list[StoredBlob] = []
        """Blobs that are being written."""
        self.accepted: list[str] = []
        """Keys of the blobs that were read to their ends although their pieces are not those that were written."""
        self.dropped: dict[int, Log] = {}
        self.replaced: dict[int, int] = {}
        self.put_at: dict[tuple[str, str], float] = {}
        self.outside: dict[str, bytes] | None = None
        self.loose: dict[str, int] = {}
        self.deleted: dict[str, int] = {}
        self.changes: list[tuple[int, int, Key | None]] = []
        """The latest changes of logs: a number that is never used again, incarnation, last key; None: deleted."""
        self._incarnations = 0
        self._revisions = 0
        self._changes = 0
        self._waiting: list[Future[None]] = []

    def copy(self) -> "Disk":
        """Return what a replica of the disk has that lags from now on."""
        other = Disk(self.now_ms, self._rng)
        other.go_back(self)
        return other

    def go_back(self, earlier: "Disk") -> None:
        """Take over the data of an earlier copy, as after a failover that loses the last changes.

        Incarnations and revisions are never used again: Redis derives them from the time. A place outside of the store
        stays as it is.
        """
        self.format = earlier.format
        self.models, self.staged = dict(earlier.models), set(earlier.staged)
        self.uses = dict(earlier.uses)
        self.logs = {
            number: replace(log, entries=[*log.entries], keys=[*log.keys], untrimmed=[*log.untrimmed])
            for number, log in earlier.logs.items()
        }
        self.predictions = {number: dict(stored) for number, stored in earlier.predictions.items()}
        self.documents, self.blobs = dict(earlier.documents), dict(earlier.blobs)
        self.put_at = self.put_at | earlier.put_at
        self.loose, self.deleted = dict(earlier.loose), dict(earlier.deleted)
        self._incarnations = max(self._incarnations, earlier._incarnations)
        self._revisions = max(self._revisions, earlier._revisions)
        self.changes, self._changes = list(earlier.changes), max(self._changes, earlier._changes)
        for blob in self.unfinished:  # the pieces that were written are lost
            blob.pieces.clear()
        self._wake()

    # Changes

    def when_changed(self) -> Future[None]:
        """Return a future that is done after the next change of any log."""
        changed: Future[None] = get_running_loop().create_future()
        self._waiting.append(changed)
        return changed

    def _announce(self, incarnation: int, last: Key | None) -> None:
        self._changes += 1
        self.changes.append((self._changes, incarnation, last))
        del self.changes[:-KEPT_CHANGES]
        self._wake()

    def changes_after(self, cursor: str) -> LogChanges:
        """Return the changes after an earlier one, by its number; incomplete if it is not remembered."""
        numbers = [number for number, _, _ in self.changes]
        last = str(numbers[-1]) if numbers else "0"
        if cursor == "0" and len(numbers) < KEPT_CHANGES:
            begin = 0
        elif cursor and int(cursor) in numbers:
            begin = numbers.index(int(cursor)) + 1
        else:
            return LogChanges(last, {}, complete=False)
        ends = {incarnation: position_of(key) for _, incarnation, key in self.changes[begin:]}
        return LogChanges(last, ends, complete=True)

    def ends(self, incarnations: Sequence[int]) -> dict[int, str | None]:
        """Return the last position of each log; None for a deleted one."""
        logs = {incarnation: self.logs.get(incarnation) for incarnation in incarnations}
        return {incarnation: position_of(log and log.last) for incarnation, log in logs.items()}

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)

    def whole(self, incarnation: int) -> list[Entry]:
        """Return all entries that a log, and those that it replaced, ever had."""
        log = self.logs.get(incarnation) or self.dropped[incarnation]
        before = self.replaced.get(incarnation)
        earlier = [] if before is None else self.whole(before)
        return [entry for entry in earlier if position_key(entry.position) <= log.begin] + log.untrimmed

    def places_of(self, text: bytes) -> list[str]:
        """Return where a text stands, also in compressed segments of a history.

        Objects of deleted blobs do not count: they are removed within a minute.
        """
        found = [f"log {n}" for n, log in self.logs.items() if any(text in entry.payload for entry in log.entries)]
        found += [f"prediction {id}" for each in self.predictions.values() for id in each if text in each[id][0]]
        found += [f"document {key}" for key, (_, value) in self.documents.items() if text in value]
        found += [f"blob {key}" for key, blob in self.blobs.items() if contains(b"".join(blob.pieces), text)]
        written = {name_outside(token) for token, at in self.loose.items() if at}
        written |= {name_outside(token) for token in self.deleted}
        for key, data in (self.outside or {}).items():
            if contains(data, text) and key.rpartition("/")[2].partition(".")[0] not in written:
                found.append(f"object {key}")
        return found

    # Blobs outside

    def claim(self, key: str, blob: StoredBlob) -> str | None:
        """Let a key refer to a blob outside; return the token of its earlier blob. Raises StorageUnavailable."""
        if not self.loose.get(blob.manifest.token):
            raise StorageUnavailable("a blob took too long to be written", heals=True)
        del self.loose[blob.manifest.token]
        earlier, self.blobs[key] = self.blobs.get(key), blob
        if earlier is None or not is_outside(earlier.manifest.token):
            return None
        self.loose[earlier.manifest.token] = 0
        return earlier.manifest.token

    def unclaim(self, key: str, seconds: float) -> None:
        """Remove a blob; if it is outside, its objects stay for some time."""
        earlier = self.blobs.pop(key, None)
        if earlier is not None and is_outside(earlier.manifest.token):
            self.deleted[earlier.manifest.token] = self.now_ms() + round(1_000 * seconds)

    def abandon(self, key: str, token: str) -> bool:
        """Prevent a claim of a token; return False if a key already refers to it."""
        if key in self.blobs and self.blobs[key].manifest.token == token:
            return False
        if token in self.loose:
            self.loose[token] = 0
        return True

    def abandoned(self, seconds: float) -> list[str]:
        """Return the tokens of deleted blobs, and the loose ones that no writer has renewed for some time, and which
        none can claim from now on."""
        before = self.now_ms() - 1_000 * seconds
        found = [token for token, at in self.loose.items() if at <= before]
        self.loose.update(dict.fromkeys(found, 0))
        return [*found, *self.deleted]

    def forget_token(self, token: str) -> None:
        """Note that the objects of a token were removed."""
        self.loose.pop(token, None)
        self.deleted.pop(token, None)

    # Models

    def prepare(self, name: str, spec: bytes, at: str) -> ModelMeta:
        """Add an unnamed log that ends at a position."""
        self._incarnations += 1
        record = ModelMeta(name, self._incarnations, spec)
        self.staged.add(record.incarnation)
        self.logs[record.incarnation] = Log(position_key(at), position_key(at))
        return record

    def name(self, successions: Sequence[Succession]) -> None:
        """Name all successors. Raises ModelGone or ModelExists; nothing has changed then."""
        for record, successor in successions:
            found = self.models.get(successor.name)
            if record is None and found is not None:
                raise ModelExists(successor.name)
            if record is not None and (found is None or found.incarnation != record.incarnation):
                raise ModelGone(record.name, record.incarnation)
            stays = record is not None and record.incarnation == successor.incarnation
            if not stays and successor.incarnation not in self.staged:
                raise ModelGone(successor.name, successor.incarnation)
        for record, successor in successions:
            self.staged.discard(successor.incarnation)
            self.models[successor.name] = successor
            if record is None:
                self.uses[successor.name] = self.now_ms()
            if record is not None and record.incarnation != successor.incarnation:
                self.replaced[successor.incarnation] = record.incarnation
                self._drop(record.incarnation)
                self._announce(record.incarnation, None)

    def unname(self, record: ModelMeta) -> None:
        """Remove the name and the log. Raises ModelGone."""
        found = self.models.get(record.name)
        if found is None or found.incarnation != record.incarnation:
            raise ModelGone(record.name, record.incarnation)
        del self.models[record.name], self.uses[record.name]
        self._drop(record.incarnation)
        self._announce(record.incarnation, None)

    def discard(self, successor: ModelMeta) -> bool:
        """Remove an unnamed log; return whether it existed."""
        if successor.incarnation not in self.staged:
            return False
        self.staged.discard(successor.incarnation)
        self._drop(successor.incarnation)
        return True

    def _drop(self, incarnation: int) -> None:
        if incarnation in self.logs:
            self.dropped[incarnation] = self.logs.pop(incarnation)
        self.predictions.pop(incarnation, None)

    # Logs

    def log(self, record: ModelMeta) -> Log:
        """Return the log of a model. Raises ModelGone."""
        log = self.logs.get(record.incarnation)
        if log is None:
            raise ModelGone(record.name, record.incarnation)
        return log

    def append(self, record: ModelMeta, payloads: Sequence[bytes], after: str) -> list[Entry]:
        """Add entries, and return all after a position."""
        log = self.log(record)
        known = log.after(record, after)
        if log.sealed:
            raise LogSealed(name=record.name)
        now_ms = max(self.now_ms(), log.last[0] + 1)  # as in Redis, so that no lost position is assigned again
        first = self._rng.randrange(FIRST_NUMBERS)
        new = [Entry(f"{now_ms}-{n}", payload, now_ms) for n, payload in enumerate(payloads, first)]
        log.add(new)
        self._announce(record.incarnation, log.last)
        return [*known, *new]

    def trim(self, record: ModelMeta, through: str) -> None:
        """Remove the entries at or before a position; one beyond the end counts as the end."""
        log = self.log(record)
        through_key = min(position_key(through), log.last)
        if through_key > log.trimmed:
            at = bisect_right(log.keys, through_key)
            log.trimmed = log.keys[at - 1] if at else log.trimmed
            del log.entries[:at], log.keys[:at]

    def seal(self, record: ModelMeta, sealed: bool) -> None:
        """Seal or unseal a log."""
        self.log(record).sealed = sealed

    def adopt(self, successor: ModelMeta, entries: Sequence[Entry]) -> None:
        """Add entries of another log with their positions and times."""
        log = self.log(successor)
        if entries and position_key(entries[0].position) <= log.last:
            raise ValueError(f"the entry after {log.last} is not {entries[0].position}")
        log.add(entries)

    # Stored predictions

    def put_predictions(
        self, record: ModelMeta, predictions: dict[str, bytes], seconds: float, most: int, most_bytes: int
    ) -> int:
        """Store predictions, and return the bytes of all."""
        if self.log(record).sealed:
            raise LogSealed(name=record.name)
        self._expire(record)
        stored = self.predictions.get(record.incarnation, {})
        due = self.now_ms() + round(seconds * 1000)
        after = {**stored, **{id: (value, due) for id, value in predictions.items()}}
        size = sum(len(value) for value, _ in after.values())
        if len(after) > most or size > most_bytes:
            few = len(after) <= most
            raise PredictionsFull(
                record.name, f"{most_bytes:,} bytes of predictions" if few else f"{most:,} predictions"
            )
        self.predictions[record.incarnation] = after
        return size

    def get_predictions(self, record: ModelMeta, ids: Sequence[str]) -> list[bytes | None]:
        """Return the stored predictions, None for those that are missing or have expired."""
        self.log(record)
        self._expire(record)
        stored = self.predictions.get(record.incarnation, {})
        return [stored[id][0] if id in stored else None for id in ids]

    def prediction_ids(self, record: ModelMeta, most: int, before: str | None) -> list[str]:
        """Return the ids of stored predictions, newest first."""
        self.log(record)
        self._expire(record)
        ids = sorted(self.predictions.get(record.incarnation, {}), reverse=True)
        if before is not None:
            ids = ids[ids.index(before) + 1 :] if before in ids else []
        return ids[:most]

    def _expire(self, record: ModelMeta) -> None:
        stored, now_ms = self.predictions.get(record.incarnation, {}), self.now_ms()
        for id in [id for id, (_, due) in stored.items() if due <= now_ms]:
            del stored[id]

    # Documents

    def put_document(self, kind: str, name: str, value: bytes, revision: int | None, least: int) -> int:
        """Change a document at a revision; return the new one. Raises RevisionConflict."""
        self._check_revision(kind, name, revision)
        self._revisions = max(self._revisions + 1, least)
        self.documents[kind, name] = self._revisions, value
        self.put_at[kind, name] = get_running_loop().time()
        return self._revisions

    def delete_document(self, kind: str, name: str, revision: int) -> None:
        """Remove a document at a revision. Raises RevisionConflict."""
        self._check_revision(kind, name, revision)
        del self.documents[kind, name]

    def documents_of(self, kind: str, after: int = 0) -> list[Document]:
        """Return the documents of a kind that changed after a revision, in the order of the revisions."""
        found = [
            Document(name, revision, value)
            for (of, name), (revision, value) in self.documents.items()
            if of == kind and revision > after
        ]
        return sorted(found, key=lambda document: document.revision)

    def _check_revision(self, kind: str, name: str, revision: int | None) -> None:
        found = self.documents.get((kind, name))
        if (found and found[0]) != revision:
            raise RevisionConflict(kind, name, revision, found and found[0])
