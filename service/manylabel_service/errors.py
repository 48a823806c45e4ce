"""What can go wrong in the service, in its own words.

No error here knows HTTP: the interface maps them to answers in one place. Each carries its facts as
attributes, and a message that says what the client or the operator shall do.

ServiceError
├── ModelNotFound            no model of that name
│   └── ModelGone            there was one; it was deleted while the caller still held it
├── ModelExists              the name is taken
├── NotReady                 not restored yet, or draining
├── QueueFull                too many updates wait already
├── InvalidExample           an example does not fit the model
├── KeyConflict              an idempotency key cannot be honoured
│   ├── KeyInFlight          its first request is still under way
│   └── KeyReused            it belongs to another request
├── LimitExceeded            a model, or their number, would grow over its limit
├── PredictionError          a kept prediction cannot be labelled
│   ├── PredictionNotFound   none has that id
│   ├── PredictionExpired    its time is over
│   └── PredictionLabelled   it has its labels already
├── PredictionsFull          a model has as many predictions kept as it may
├── SnapshotNotFound         no snapshot at that position
├── NoProbabilities          a model has no probabilities to answer
├── ModelIsTrained           jobs make its versions: it does not learn from single examples
├── ModelIsOnline            it learns from single examples: it has no versions
├── VersionError             a version of a trained model cannot be had
│   ├── VersionNotFound      none has that number
│   ├── VersionServed        it is served, and stays
│   ├── VersionDamaged       its contents are not whole any more
│   └── NoVersionServed      none has been promoted yet
├── CannotGoOn               an online model cannot begin as a version predicts
├── DatasetNotFound          no data set of that name
├── DatasetExists            the name is taken
├── DatasetInUse             a job needs it: it cannot be deleted
├── InvalidDataset           a file is not what its format promises, or larger than allowed
├── DurabilityUnavailable    the store cannot give what a model asks for
├── InvalidJob               a job cannot be done as it is ordered
├── JobError                 a job is not there, or not in a state for what is asked
│   ├── JobNotFound          no job has that id
│   ├── JobEnded             it does nothing any more, or is about to end
│   └── JobNotRetryable      it has not failed, nor been cancelled
├── JobsFull                 as many jobs wait or run as may
└── StorageError
    ├── StorageGone          an operation failed: input/output error, connection lost
    │   └── StorageFull      there is no room for what should be stored
    ├── DocumentChanged      a document is not, or no longer, at the revision named
    ├── BlobNotFound         no blob under that key
    │   └── BlobGone         there was one; it was replaced or removed while it was read
    ├── LogTrimmed           the entries asked for lie behind the trimmed start of the log
    ├── LogLost              the store no longer has entries that the caller has seen
    └── StoreUnusable        the store cannot be opened
        ├── StoreLocked      another process has it open
        ├── StoreDamaged     the file is not an intact database
        └── StoreTooNew      written by a newer version
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path


class ServiceError(Exception):
    """Base of everything the service raises on purpose."""


class ModelNotFound(ServiceError):
    """No model has this name."""

    def __init__(self, name: str, message: str | None = None) -> None:
        super().__init__(message or f"there is no model named {name!r}; create it first, or check the name")
        self.name = name


class ModelGone(ModelNotFound):
    """The model was deleted while the caller held it; one created since under its name is another model.

    To a client it is the same as `ModelNotFound`.
    """

    def __init__(self, name: str, incarnation: int) -> None:
        super().__init__(name, f"model {name!r} (incarnation {incarnation}) has been deleted; look the name up again")
        self.incarnation = incarnation


class ModelExists(ServiceError):
    """The name of a model to be created is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"a model named {name!r} exists; choose another name, or delete that model first")
        self.name = name


class NotReady(ServiceError):
    """The server, or one model, cannot answer yet (restoring) or any more (draining).

    Parameters
    ----------
    detail : what is being waited for.
    retry_after : seconds after which another attempt makes sense.
    """

    def __init__(self, detail: str, retry_after: float = 1.0) -> None:
        super().__init__(f"{detail}; retry in {retry_after:g} s")
        self.detail = detail
        self.retry_after = retry_after


class QueueFull(ServiceError):
    """More updates wait for the model than it may hold back.

    Parameters
    ----------
    name : the model.
    limit : how much may wait, with its unit, as ``"100 examples"``.
    retry_after : seconds after which another attempt makes sense.
    """

    def __init__(self, name: str, limit: str, retry_after: float) -> None:
        super().__init__(
            f"model {name!r} has as much waiting as it may, {limit}: retry in {retry_after:g} s or send more slowly"
        )
        self.name = name
        self.limit = limit
        self.retry_after = retry_after


class InvalidExample(ServiceError):
    """An example cannot be used with this model; nothing of its request was learnt.

    Parameters
    ----------
    index : which example of the request, from 0.
    path : keys into that example, outermost first, as ``("x", "indices")``.
    detail : what is allowed there.
    """

    def __init__(self, index: int, path: tuple[str | int, ...], detail: str) -> None:
        super().__init__(f"example {index}, {'.'.join(map(str, path))}: {detail}")
        self.index = index
        self.path = path
        self.detail = detail


class KeyConflict(ServiceError):
    """An idempotency key cannot be honoured."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class KeyInFlight(KeyConflict):
    """The first request with this key has not been answered yet."""

    def __init__(self, key: str) -> None:
        super().__init__(key, f"a request with the idempotency key {key!r} is still under way; retry when it is done")


class KeyReused(KeyConflict):
    """The key came with another body or for another operation before."""

    def __init__(self, key: str) -> None:
        super().__init__(
            key,
            f"the idempotency key {key!r} was used for a different request; use a new key for each request",
        )


class LimitExceeded(ServiceError):
    """The request would let something grow over its limit; nothing of it was done.

    Parameters
    ----------
    what : what would grow, as ``"labels of model 'tags'"``.
    size : what it would grow to.
    limit : the limit, in the same unit.
    """

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what} would grow to {size:,}, the limit is {limit:,}: send less, or have the operator raise it"
        )
        self.what = what
        self.size = size
        self.limit = limit


class PredictionError(ServiceError):
    """A kept prediction cannot be labelled; nothing of the request was learnt.

    Parameters
    ----------
    id : of the prediction.
    message : why.
    """

    def __init__(self, id: str, message: str) -> None:
        super().__init__(message)
        self.id = id


class PredictionNotFound(PredictionError):
    """No prediction is kept under this id."""

    def __init__(self, id: str) -> None:
        super().__init__(id, f"there is no kept prediction {id!r} of this model; predict with keep=true to get an id")


class PredictionExpired(PredictionError):
    """The prediction was kept, and its time is over."""

    def __init__(self, id: str, detail: str) -> None:
        super().__init__(id, f"prediction {id!r} expired {detail}")


class PredictionLabelled(PredictionError):
    """The prediction has been given its labels before."""

    def __init__(self, id: str) -> None:
        super().__init__(id, f"prediction {id!r} has its labels already; they are learnt once")


class PredictionsFull(ServiceError):
    """As many predictions wait for their labels as may.

    Parameters
    ----------
    name : the model.
    limit : how many.
    retry_after : seconds after which another attempt makes sense.
    """

    def __init__(self, name: str, limit: int, retry_after: float = 60.0) -> None:
        super().__init__(f"model {name!r} keeps {limit:,} predictions already, its limit; they go when they expire")
        self.name = name
        self.limit = limit
        self.retry_after = retry_after


class SnapshotNotFound(ServiceError):
    """The model has no snapshot at this position."""

    def __init__(self, name: str, position: str) -> None:
        super().__init__(
            f"model {name!r} has no snapshot at position {position!r}; list its snapshots to see which it has"
        )
        self.name = name
        self.position = position


class NoProbabilities(ServiceError):
    """The model's predictions have no probabilities."""

    def __init__(self, name: str) -> None:
        self.detail = "must be false or left out: this model has no probabilities"
        super().__init__(f"/probabilities {self.detail}")
        self.name = name


class ModelIsTrained(ServiceError):
    """The model's versions are made by jobs; it learns nothing from single examples."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"model {name!r} is trained by jobs and does not learn from single examples: train a new version, or "
            "create an online model that goes on from one (init_from)"
        )
        self.name = name


class ModelIsOnline(ServiceError):
    """The model learns from single examples; it has no versions."""

    def __init__(self, name: str) -> None:
        super().__init__(f"model {name!r} learns online and has no versions; choose the name of a trained model")
        self.name = name


class VersionError(ServiceError):
    """A version of a trained model cannot be had.

    Parameters
    ----------
    name : the model.
    version : its number; None where it is about none.
    message : why.
    """

    def __init__(self, name: str, version: int | None, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.version = version


class VersionNotFound(VersionError):
    """The model has no version of this number, or no longer."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(
            name, version, f"model {name!r} has no version {version}; list its versions to see which it has"
        )


class VersionServed(VersionError):
    """The version is the one served, and stays."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(
            name, version, f"version {version} of model {name!r} is served; promote another before you delete it"
        )


class VersionDamaged(VersionError):
    """The contents of the version are not what was published."""

    def __init__(self, name: str, version: int, detail: str) -> None:
        super().__init__(
            name, version, f"version {version} of model {name!r} cannot be loaded ({detail}); promote another"
        )


class NoVersionServed(VersionError):
    """No version of the model has been promoted yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, f"no version of model {name!r} is served; promote one")


class DatasetNotFound(ServiceError):
    """No data set has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no data set named {name!r}; upload it first, or check the name")
        self.name = name


class DatasetExists(ServiceError):
    """The name of a data set to be added is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"a data set named {name!r} exists; choose another name, or delete that one first")
        self.name = name


class DatasetInUse(ServiceError):
    """A job that has not ended needs the data set; it was not deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a job needs the data set {name!r}; delete it when the job has ended, or cancel the job first"
        )
        self.name = name


class InvalidDataset(ServiceError):
    """A data set cannot be made of what was given; nothing of it was kept.

    Parameters
    ----------
    detail : what is wrong, where, and what is allowed.
    line : of a text file, from 1.
    row : of the arrays of an NPZ file, from 0.
    member : the array of an NPZ file, or ``"labels"`` for the XML of an ARFF file.
    """

    def __init__(self, detail: str, line: int | None = None, row: int | None = None, member: str | None = None) -> None:
        super().__init__(f"the data set cannot be read: {detail}")
        self.detail = detail
        self.line = line
        self.row = row
        self.member = member


class CannotGoOn(ServiceError):
    """A model that learns online cannot go on from a version of a trained one.

    Parameters
    ----------
    path : keys into the request, outermost first, of what does not fit, as ``("params", "fit_intercept")``.
    detail : what is allowed there.
    """

    def __init__(self, path: tuple[str | int, ...], detail: str) -> None:
        super().__init__(f"{'.'.join(map(str, path))} {detail}")
        self.path = path
        self.detail = detail


class DurabilityUnavailable(ServiceError):
    """A model asks for more than the store can promise."""

    def __init__(self, durability: str, available: Collection[str]) -> None:
        super().__init__(
            f"this server's store cannot give the durability {durability!r}, only {', '.join(sorted(available))}"
        )
        self.durability = durability


class InvalidJob(ServiceError):
    """A job cannot be done as it is ordered; nothing was queued.

    Parameters
    ----------
    path : keys into the order, outermost first, as ``("data", "split")``.
    detail : what is allowed there.
    """

    def __init__(self, path: tuple[str | int, ...], detail: str) -> None:
        super().__init__(f"/{'/'.join(map(str, path))} {detail}")
        self.path = path
        self.detail = detail


class JobError(ServiceError):
    """Something is asked of a job that cannot be.

    Parameters
    ----------
    id : of the job.
    message : why.
    """

    def __init__(self, id: str, message: str) -> None:
        super().__init__(message)
        self.id = id


class JobNotFound(JobError):
    """No job has this id."""

    def __init__(self, id: str) -> None:
        super().__init__(id, f"there is no job {id!r}; those that ended long ago are forgotten")


class JobEnded(JobError):
    """The job cannot be cancelled any more."""

    def __init__(self, id: str, state: str) -> None:
        super().__init__(id, f"job {id!r} cannot be cancelled: it {state}")


class JobNotRetryable(JobError):
    """The job has not failed, nor been cancelled."""

    def __init__(self, id: str, state: str) -> None:
        super().__init__(id, f"job {id!r} is {state}; only one that failed or was cancelled can be tried again")


class JobsFull(ServiceError):
    """As many jobs wait or run as may.

    Parameters
    ----------
    limit : how many.
    retry_after : seconds after which another attempt makes sense.
    """

    def __init__(self, limit: int, retry_after: float = 30.0) -> None:
        super().__init__(f"{limit:,} jobs wait or run already, the limit: retry when some have ended, or cancel some")
        self.limit = limit
        self.retry_after = retry_after


class StorageError(ServiceError):
    """Base of what storage raises."""


class StorageGone(StorageError):
    """Storage could not do what was asked. What had been acknowledged before is untouched.

    Parameters
    ----------
    detail : what failed, and what the operator shall do.
    heals : True when the same call will succeed once the cause is gone (space was made, the connection is
        back), with no restart; False when the operator has to act and start the server anew.
    """

    def __init__(self, detail: str, heals: bool) -> None:
        outlook = "it goes on by itself once that is mended; retry" if heals else "mend it and restart the server"
        super().__init__(f"storage is not available: {detail}; {outlook}")
        self.detail = detail
        self.heals = heals


class StorageFull(StorageGone):
    """Storage has no room for what should be stored; nothing of it was.

    Parameters
    ----------
    detail : what is full, and what the operator shall do.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail, heals=True)


class DocumentChanged(StorageError):
    """A document is not at the revision that the caller knows; nothing was changed.

    Parameters
    ----------
    kind, name : of the document.
    expected : the revision that the caller named; None where it must not have existed.
    found : the one that it has; None where there is no such document.
    """

    def __init__(self, kind: str, name: str, expected: int | None, found: int | None) -> None:
        is_now = "is not there" if found is None else f"is at revision {found}"
        known = "must not exist" if expected is None else f"was to be at revision {expected}"
        super().__init__(f"the document {name!r} of {kind} {is_now} and {known}; read it again, then decide anew")
        self.kind = kind
        self.name = name
        self.expected = expected
        self.found = found


class BlobNotFound(StorageError):
    """There is no blob under this key."""

    def __init__(self, key: str, message: str | None = None) -> None:
        super().__init__(message or f"there is no blob under the key {key!r}")
        self.key = key


class BlobGone(BlobNotFound):
    """The blob was replaced or removed, or some of it was lost, while the caller read it."""

    def __init__(self, key: str) -> None:
        super().__init__(key, f"the blob under the key {key!r} was replaced or removed while it was read; read it anew")


class LogTrimmed(StorageError):
    """The log no longer holds all entries after the given position.

    Parameters
    ----------
    name : the model.
    after : the position asked for.
    trimmed : the last position that was removed: replay has to start from a snapshot at or after it.
    """

    def __init__(self, name: str, after: str, trimmed: str) -> None:
        super().__init__(
            f"the log of model {name!r} is trimmed through position {trimmed} and cannot be read from "
            f"{after}; start from a snapshot at or after the trimmed position"
        )
        self.name = name
        self.after = after
        self.trimmed = trimmed


class LogLost(StorageError):
    """The store lost entries that the caller has seen: it was restarted without all of its data.

    Parameters
    ----------
    name : the model.
    position : of an entry that is no longer there.
    """

    def __init__(self, name: str, position: str) -> None:
        super().__init__(
            f"the log of model {name!r} no longer has the entry at {position}: the store was restarted without all "
            "of its data; what it has left is the truth now"
        )
        self.name = name
        self.position = position


class StoreUnusable(StorageError):
    """The store cannot be opened; nothing in it was changed."""


class StoreLocked(StoreUnusable):
    """Another process has the data directory open."""

    def __init__(self, directory: Path, pid: int | None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"the data directory {directory} is in use by {holder}: stop it, or give this server a directory of its own"
        )
        self.directory = directory
        self.pid = pid


class StoreDamaged(StoreUnusable):
    """The file is not an intact database of this program; it was left as it is."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path} cannot be used ({detail}): restore it from a backup, "
            "or give the server another data directory to start empty"
        )
        self.path = path
        self.detail = detail


class StoreTooNew(StoreUnusable):
    """The store was written by a newer version of this program."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, this program knows up to {known}: "
            "run the newer version that wrote it, or restore a backup made before the upgrade"
        )
        self.path = path
        self.found = found
        self.known = known


class UnreadableEntry(Exception):
    """A log entry is damaged, or was written by a newer version."""
