"""Errors that the service raises on purpose: each class has its code, its message and its facts.

No error here knows HTTP: `api.web.problems` has the status of each code. A message says what the client or the
operator shall do.
"""

import errno
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, dataclass_transform

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The numbers of an OSError that say there is no room."""


@dataclass_transform(eq_default=False)
class ServiceError(Exception):
    """Base of all errors of the service.

    A subclass is a dataclass: its annotated fields are the parameters of its constructor. `code` is the error's name
    for programs; `message` is a template for `str.format`, in which `self` is the error. Both are inherited.
    """

    code: ClassVar[str] = "internal_error"
    message: ClassVar[str] = "{self.detail}"

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, repr=False)(cls)

    def __str__(self) -> str:
        return self.message.format(self=self)

    def answer(self) -> str:
        """Return the message as a client gets it: without what only the operator needs."""
        return str(self)


# Access


class AccessError(ServiceError):
    """The caller may not do what was asked for; nothing of it was done."""


class KeyRequired(AccessError):
    """The request came without a key."""

    code = "key_required"
    message = (
        "this needs a key: send it as Authorization: Bearer KEY, as the password of HTTP Basic, or as api-key: KEY"
    )


class KeyInvalid(AccessError):
    """The request came with a key that does not open anything."""

    code = "key_invalid"
    message = "the key {self.detail}; ask the operator of the server for another"
    detail: str = "is not known here"


class ScopeMissing(AccessError):
    """The key is not for what was asked for."""

    code = "scope_missing"
    message = "this needs a key with the scope {self.scope!r}, which yours has not"
    scope: str


class ModelNotAllowed(AccessError):
    """The key is not for this model, or data set."""

    code = "model_not_allowed"
    message = "your key is not for {self.name!r}: it names other models"
    name: str
    """A name, or a pattern of names."""


class BeyondOwnKey(AccessError):
    """The caller would give a key more than the caller's own key has."""

    code = "beyond_own_key"
    message = "{self.field} {self.allowed}, as your own key: name such a value, or ask an admin whose key has more"
    field: str
    """Path of the field in the request, with slashes, such as ``"rates/requests_per_second"``."""
    allowed: str
    """What is allowed there."""


class JobNotAllowed(AccessError):
    """The key is not for the model of this job. The error has no name: ids of jobs follow from idempotency keys."""

    code = "model_not_allowed"
    message = "your key is not for the model of job {self.id!r}"
    id: str


class RateLimited(ServiceError):
    """The key has asked for as much as it may, for now."""

    code = "rate_limited"
    message = "{self.detail}: retry in {self.retry_after:.3g} s"
    detail: str
    retry_after: float
    """Seconds after which another attempt makes sense."""


class TooManyAttempts(AccessError):
    """More wrong keys come from an address than are looked at."""

    code = "too_many_attempts"
    message = "too many wrong keys came from your address; retry with a right one, which is let in at any time"
    retry_after: float
    """Seconds after which another wrong one is answered as such."""


class KeyNotFound(ServiceError):
    """No key has this id."""

    code = "key_not_found"
    message = "there is no key {self.id!r}; list the keys to see their ids"
    id: str


class KeysFull(ServiceError):
    """There are as many keys as there may be, and none is revoked."""

    code = "limit_exceeded"
    message = "there are {self.limit:,} keys, the limit: revoke one, or have the operator raise it"
    limit: int


class HasKeys(ServiceError):
    """The store has keys, so that the first one cannot be made."""

    message = (
        "the store has {self.count:,} keys already: make others with one of them (manylabel keys create), "
        "or repeat with --another if none of them is known any more"
    )
    count: int


class CannotServeOpenly(ServiceError):
    """Others than this machine would reach a server that asks nobody for a key."""

    message = (
        "the server would listen on {self.host}, where others can reach it, and has no key yet: make the first one "
        "with `manylabel keys init`, or say --insecure to let in everybody"
    )
    host: str


# Models


class ModelNotFound(ServiceError):
    """No model has this name."""

    code = "model_not_found"
    message = "there is no model named {self.name!r}; create it first, or check the name"
    name: str


class ModelGone(ModelNotFound):
    """The model was deleted while the caller held it; one created since under its name is another model."""

    message = "model {self.name!r} (incarnation {self.incarnation}) has been deleted; look the name up again"
    incarnation: int


class ModelExists(ServiceError):
    """The name of a model to be created is taken."""

    code = "model_exists"
    message = "a model named {self.name!r} exists; choose another name, or delete that model first"
    name: str


class ModelIsTrained(ServiceError):
    """The model's versions are made by jobs; it learns nothing from single examples."""

    code = "model_is_trained"
    message = (
        "model {self.name!r} is trained by jobs and does not learn from single examples: to measure it, keep its "
        "predictions (predict?keep=true) and post their labels (POST /v1/models/{self.name}/labels); to have it learn, "
        "train a new version, or create an online model that goes on from one (init_from)"
    )
    name: str


class NoRollback(ModelIsTrained):
    """The model's versions are made by jobs: there is another way back."""

    message = (
        "model {self.name!r} is trained by jobs and has versions in place of snapshots: to go back, promote an earlier "
        "one (POST /v1/models/{self.name}/promote, manylabel models promote {self.name} VERSION)"
    )


class NoReliability(ModelIsTrained):
    """The model's versions are made by jobs; only scores are kept of what they answer."""

    message = "model {self.name!r} is trained by jobs: of its answers, scores are measured, and no probabilities"


class ModelIsOnline(ServiceError):
    """The model learns from single examples; it has no versions."""

    code = "model_is_online"
    message = "model {self.name!r} learns online and has no versions; choose the name of a trained model"
    name: str


class NotReady(ServiceError):
    """The server, or one model, cannot answer yet (restoring) or any more (draining)."""

    code = "not_ready"
    message = "{self.detail}; retry in {self.retry_after:g} s"
    detail: str
    """Why not."""
    retry_after: float = 1.0
    """Seconds after which another attempt makes sense."""


class ModelFailed(NotReady):
    """The model cannot be had, or not be trusted, and no waiting mends that."""

    message = "{self.detail}"
    retry_after: float | None = None  # type: ignore[assignment]  # there is none


class IncompatibleRelease(NotReady):
    """This release must not serve what others have made or still serve; another release can."""


class ReleaseTooOld(IncompatibleRelease):
    """A newer release has written what this one cannot read."""

    code = "release_too_old"
    message = "{self.detail}: run the newer release that wrote it"


class FoldDiffers(IncompatibleRelease):
    """This release learns other bits than the one that stored a snapshot, or could not be compared with it."""

    code = "fold_differs"
    message = "{self.detail}: this replica does not serve it; the others do"


class QueueFull(ServiceError):
    """More updates wait for the model than it may hold back."""

    code = "queue_full"
    message = (
        "model {self.name!r} has as much waiting as it may, {self.limit}: retry in {self.retry_after:g} s or send more "
        "slowly"
    )
    name: str
    limit: str
    """How much may wait, with its unit, as ``"100 examples"``."""
    retry_after: float
    """Seconds after which another attempt makes sense."""


class TooManyWatchers(ServiceError):
    """The events of the model have as many watchers as they may."""

    code = "queue_full"
    message = (
        "{self.limit} clients watch the events of model {self.name!r}, the limit: close one of them, or retry in "
        "{self.retry_after:g} s"
    )
    name: str
    limit: int
    retry_after: float
    """Seconds after which another attempt makes sense."""


class LimitExceeded(ServiceError):
    """The request would let something grow over its limit; nothing of it was done."""

    code = "limit_exceeded"
    message = (
        "{self.what} would grow to {self.size:,}, the limit is {self.limit:,}: send less, or have the operator raise it"
    )
    what: str
    """What would grow, as ``"labels of model 'tags'"``."""
    size: int
    """What it would grow to."""
    limit: int
    """In the same unit."""


class SnapshotNotFound(ServiceError):
    """The model has no snapshot at this position."""

    code = "snapshot_not_found"
    message = "model {self.name!r} has no snapshot {self.position!r}; list its snapshots to see which it has"
    name: str
    position: str


class SnapshotExists(ServiceError):
    """A snapshot of the model has this name, or this state another name."""

    code = "snapshot_exists"
    message = "model {self.name!r} has a snapshot {self.snapshot!r} at position {self.position}; {self.action}"
    name: str
    snapshot: str
    """The name that it has."""
    position: str
    action: str = "choose another name, or delete that one first"


class SnapshotNeeded(ServiceError):
    """Nobody asked for the snapshot: the server keeps it for itself."""

    code = "snapshot_needed"
    message = (
        "the snapshot of model {self.name!r} at position {self.position} is one that the server took for itself: it "
        "goes by itself, when newer ones have taken its place"
    )
    name: str
    position: str


class SnapshotsFull(ServiceError):
    """The model has as many snapshots that somebody asked for as it may."""

    code = "limit_exceeded"
    message = (
        "model {self.name!r} has {self.limit:,} snapshots that stay until they are deleted, the limit: delete one, or "
        "have the operator raise it"
    )
    name: str
    limit: int


# Requests


class InvalidExample(ServiceError):
    """An example cannot be used with this model; nothing of its request was learnt."""

    code = "invalid_request"
    message = "example {self.index}, {self.place}: {self.detail}"
    index: int
    """Which example of the request, from 0."""
    path: tuple[str | int, ...]
    """Keys into that example, outermost first, as ``("x", "indices")``."""
    detail: str
    """What is allowed there."""

    @property
    def place(self) -> str:
        """The path, with dots."""
        return ".".join(map(str, self.path))


class InvalidField(ServiceError):
    """A field of a request has a value that it cannot have; nothing of the request was done."""

    code = "invalid_request"
    message = "{self.place} {self.detail}"
    path: tuple[str | int, ...]
    """Keys into the request, outermost first, as ``("data", "split")``."""
    detail: str
    """What is allowed there."""

    @property
    def place(self) -> str:
        """The path, with slashes."""
        return "".join(f"/{part}" for part in self.path)


class InvalidJob(InvalidField):
    """A job cannot be done as it is described; nothing was queued."""


class CannotWarmStart(InvalidField):
    """A model that learns online cannot begin as a version of a trained one predicts."""


class NoProbabilities(InvalidField):
    """The model's predictions have no probabilities."""

    path: tuple[str | int, ...] = ("probabilities",)
    detail: str = "must be false or left out: this model has no probabilities"


class NotCalibrated(ServiceError):
    """The model's predictions have no probabilities that could have come true."""

    code = "invalid_request"
    message = "model {self.name!r} has no probabilities: it was created with calibrate=false"
    name: str


class DurabilityUnavailable(ServiceError):
    """A model asks for more than the store can promise."""

    code = "invalid_request"
    message = "this server's store cannot give the durability {self.durability!r}, only {self.choices}"
    durability: str
    available: Collection[str]

    @property
    def choices(self) -> str:
        """The durabilities that there are, by name."""
        return ", ".join(sorted(self.available))


class KeyInFlight(ServiceError):
    """The first request with this idempotency key has not been answered yet."""

    code = "idempotency_in_flight"
    message = "a request with the idempotency key {self.key!r} is still under way; retry when it is done"
    key: str


class KeyReused(ServiceError):
    """The idempotency key came with another body or for another operation before."""

    code = "idempotency_key_reused"
    message = "the idempotency key {self.key!r} was used for a different request; use a new key for each request"
    key: str


class LabelNotFound(ServiceError):
    """The model has no such label, or has retired it."""

    code = "label_not_found"
    message = "the model knows no label {self.label!r}, or has retired it; look at the list of its labels"
    label: str


class LabelExists(ServiceError):
    """The name is that of another label, or an old name of one."""

    code = "label_exists"
    message = (
        "{self.label!r} is a name of a label of this model, or an old one; choose another name, or merge the labels"
    )
    label: str


class LabelsDeclared(ServiceError):
    """The labels of a model were declared when it was created."""

    code = "labels_declared"
    message = "the labels of model {self.name!r} were declared when it was created, and keep their names"
    name: str


# Kept predictions


class PredictionError(ServiceError):
    """A kept prediction cannot be labelled; nothing of the request was learnt."""

    id: str


class PredictionNotFound(PredictionError):
    """No prediction is kept under this id."""

    code = "prediction_not_found"
    message = "there is no kept prediction {self.id!r} of this model; predict with keep=true to get an id"


class PredictionExpired(PredictionError):
    """The prediction was kept, and has expired."""

    code = "prediction_expired"
    message = "prediction {self.id!r} expired {self.detail}"
    detail: str
    """When, or why."""


class PredictionLabelled(PredictionError):
    """The prediction has been given its labels before."""

    code = "prediction_labelled"
    message = "prediction {self.id!r} {self.detail}"
    detail: str = "has its labels already; they are learnt once"


class PredictionsFull(ServiceError):
    """The model keeps as many predictions without labels as it may."""

    code = "predictions_full"
    message = "model {self.name!r} keeps {self.limit} already, its limit; they go when they expire"
    name: str
    limit: str
    """How much may be kept, with its unit, as ``"100 predictions"``."""
    retry_after: float = 60.0
    """Seconds after which another attempt makes sense."""


# Versions of trained models


class VersionNotFound(ServiceError):
    """The model has no version of this number, or no longer."""

    code = "version_not_found"
    message = "model {self.name!r} has no version {self.version}; list its versions to see which it has"
    name: str
    version: int


class VersionServed(ServiceError):
    """The version is the one served, and stays."""

    code = "version_served"
    message = "version {self.version} of model {self.name!r} is served; promote another before you delete it"
    name: str
    version: int


class VersionDiffers(ServiceError):
    """The version takes other examples than the one served."""

    code = "version_differs"
    message = (
        "version {self.version} of model {self.name!r} differs from version {self.served}, which is served: "
        "{self.differences}; send force = true to serve it all the same"
    )
    name: str
    version: int
    served: int
    differences: str


class VersionDamaged(ServiceError):
    """The contents of the version are not what was published."""

    code = "version_damaged"
    message = "version {self.version} of model {self.name!r} cannot be loaded ({self.detail}); promote another"
    name: str
    version: int
    detail: str


class NoVersionServed(ServiceError):
    """No version of the model has been promoted yet."""

    code = "no_version_served"
    message = "no version of model {self.name!r} is served; promote one"
    name: str


# Data sets


class DatasetNotFound(ServiceError):
    """No data set has this name."""

    code = "dataset_not_found"
    message = "there is no data set named {self.name!r}; upload it first, or check the name"
    name: str


class DatasetExists(ServiceError):
    """The name of a data set to be added is taken."""

    code = "dataset_exists"
    message = "a data set named {self.name!r} exists; choose another name, or delete that one first"
    name: str


class DatasetInUse(ServiceError):
    """A job that has not ended needs the data set; it was not deleted."""

    code = "dataset_in_use"
    message = "a job needs the data set {self.name!r}; delete it when the job has ended, or cancel the job first"
    name: str


class InvalidDataset(ServiceError):
    """A data set cannot be made of what was given; nothing of it was kept."""

    code = "invalid_dataset"
    message = "the data set cannot be read: {self.detail}"
    detail: str
    """What is wrong, where, and what is allowed."""
    line: int | None = None
    """Line of a text file, from 1."""
    row: int | None = None
    """Row of the arrays of an NPZ file, from 0."""
    member: str | None = None
    """The array of an NPZ file, or ``"labels"`` for the XML of an ARFF file."""


# Jobs


class JobNotFound(ServiceError):
    """No job has this id."""

    code = "job_not_found"
    message = "there is no job {self.id!r}; those that ended long ago are forgotten"
    id: str


class JobEnded(ServiceError):
    """The job cannot be cancelled any more."""

    code = "job_ended"
    message = "job {self.id!r} cannot be cancelled: it {self.state}"
    id: str
    state: str
    """What it is or has, as ``"has failed"``."""


class JobNotRetryable(ServiceError):
    """The job has not failed, nor been cancelled."""

    code = "job_not_retryable"
    message = "job {self.id!r} is {self.state}; only one that failed or was cancelled can be tried again"
    id: str
    state: str


class JobsFull(ServiceError):
    """The server has as many jobs that wait or run as it may."""

    code = "jobs_full"
    message = "{self.limit:,} jobs wait or run already, the limit: retry when some have ended, or cancel some"
    limit: int
    retry_after: float = 30.0
    """Seconds after which another attempt makes sense."""


# Storage


class StorageError(ServiceError):
    """Base of what storage raises."""

    code = "storage_unavailable"


class StorageGone(StorageError):
    """Storage could not do what was asked. What had been acknowledged before is untouched."""

    message = "storage is not available: {self.detail}; {self.outlook}"
    detail: str
    """What failed, and what the operator shall do."""
    heals: bool
    """Whether the same call will succeed once the cause is gone (space was made, the connection is back), with no
    restart; otherwise the operator has to act and start the server anew."""

    @property
    def outlook(self) -> str:
        """The outlook says whether it heals by itself, or what an operator has to do."""
        return "it goes on by itself once that is mended; retry" if self.heals else "mend it and restart the server"

    def answer(self) -> str:
        """Return what the client can do: paths, addresses and causes are for the server's log."""
        return f"storage is not available: {'retry later' if self.heals else 'the operator of the server has to act'}"


class StorageFull(StorageGone):
    """Storage has no room for what should be stored; nothing of it was."""

    code = "storage_full"
    heals: bool = True

    def answer(self) -> str:
        """Return what the client can do, as of its base."""
        return "storage has no room for this, and nothing of it was kept: retry when the operator has made room"


class ModelDamaged(StorageError):
    """A model is damaged in the store, so it answers no more; the others do."""

    code = "model_damaged"
    message = "model {self.name!r} is damaged, {self.detail}: restore the store from a backup, or delete the model"
    name: str
    detail: str
    """What does not match, and where."""


class DocumentDamaged(StorageError):
    """A document is not what was put there."""

    code = "storage_damaged"
    message = "the document {self.name!r} of {self.kind} does not match its checksum: restore the store from a backup"
    kind: str
    name: str


class DocumentChanged(StorageError):
    """A document is not at the revision that the caller knows; nothing was changed."""

    message = "the document {self.name!r} of {self.kind} {self.difference}; read it again, then decide anew"
    kind: str
    name: str
    expected: int | None
    """The revision that the caller named; None where it must not have existed."""
    found: int | None
    """The revision that it has; None where there is no such document."""

    @property
    def difference(self) -> str:
        """The revision found, and the one expected, as text."""
        is_now = "is not there" if self.found is None else f"is at revision {self.found}"
        return f"{is_now} and " + (
            "must not exist" if self.expected is None else f"was to be at revision {self.expected}"
        )


class BlobNotFound(StorageError):
    """There is no blob under this key."""

    message = "there is no blob under the key {self.key!r}"
    key: str


class BlobGone(BlobNotFound):
    """The blob was replaced or removed, or some of it was lost, while the caller read it."""

    message = "the blob under the key {self.key!r} was replaced or removed while it was read; read it anew"


class BlobDamaged(StorageError):
    """The bytes of a blob are not those that were put there."""

    code = "storage_damaged"
    message = "the blob under the key {self.key!r} does not match its checksum: restore the store from a backup"
    key: str


class LogTrimmed(StorageError):
    """The log no longer holds all entries after the given position."""

    message = (
        "the log of model {self.name!r} is trimmed through position {self.trimmed} and cannot be read from "
        "{self.after}; start from a snapshot at or after the trimmed position"
    )
    name: str
    after: str
    """The position asked for."""
    trimmed: str
    """The last position that was removed: replay has to start from a snapshot at or after it."""


class LogLost(StorageError):
    """The store lost entries that the caller has seen: it was restarted without all of its data."""

    message = (
        "the log of model {self.name!r} no longer has the entry at {self.position}: the store was restarted without "
        "all of its data; what it has left is the truth now"
    )
    name: str
    position: str


class StoreUnusable(StorageError):
    """The store cannot be opened; nothing in it was changed. The three errors below are cases of their own."""

    message = "{self.detail}"
    detail: str


class StoreLocked(StorageError):
    """Another process has the data directory open."""

    message = (
        "the data directory {self.directory} is in use by {self.holder}: stop it, or give this server a directory of "
        "its own"
    )
    directory: Path
    pid: int | None

    @property
    def holder(self) -> str:
        """The process that holds it, in words."""
        return "another process" if self.pid is None else f"process {self.pid}"


class StoreDamaged(StorageError):
    """The file is not an intact database of this program; it was left as it is."""

    message = (
        "{self.path} cannot be used ({self.detail}): restore it from a backup, or give the server another data "
        "directory to start empty"
    )
    path: Path
    detail: str


class StoreTooNew(StorageError):
    """The store was written by a newer version of this program."""

    message = (
        "{self.path} has schema version {self.found}, this program knows up to {self.known}: run the newer version "
        "that wrote it, or restore a backup made before the upgrade"
    )
    path: Path
    found: int
    known: int


class UnreadableEntry(Exception):
    """A log entry is damaged, or was written by a newer version."""
