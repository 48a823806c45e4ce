"""Errors of the service: each class has a kind, a code, a message and its fields.

They are independent of HTTP: `api.web.problems` has the status of each kind. A message names the remedy for the client
or the operator.
"""

import errno
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self, dataclass_transform

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""errno values that mean that the disk or the quota is full."""

Kind = Literal[
    "unauthenticated", "forbidden", "missing", "conflict", "gone", "invalid", "busy", "broken", "unavailable", "full"
]

CODES: dict[str, tuple[Kind, str]] = {"internal_error": ("broken", "Internal error")}
"""Kind and title of each code."""


@dataclass_transform(eq_default=False)
class ServiceError(Exception):
    """Base of all errors of the service.

    A subclass is a dataclass: its annotated fields are the parameters of its constructor. A class with a kind has a
    code, for programs, and a title, both derived from its name by default; other classes inherit them. `message` is a
    template for `str.format`, in which `self` is the error. A field `retry_after` is the time in seconds after which a
    retry makes sense. The message describes the error; a class has a docstring if there is more to say.
    """

    code: ClassVar[str] = "internal_error"
    message: ClassVar[str] = "{self.detail}"

    def __init_subclass__(cls, kind: Kind | None = None, code: str | None = None, title: str | None = None) -> None:
        if kind is not None:
            cls.code = code or re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
            CODES.setdefault(cls.code, (kind, title or cls.code.replace("_", " ").capitalize()))
        dataclass(eq=False, repr=False)(cls)

    def __str__(self) -> str:
        return self.message.format(self=self)

    def answer(self) -> str:
        """Return the message for the client, without details that only the operator needs."""
        return str(self)


# Access


class AccessError(ServiceError):
    """Base of the errors for missing permissions; nothing was changed."""


class KeyRequired(AccessError, kind="unauthenticated"):
    message = (
        "this request needs a key: send it as Authorization: Bearer KEY, as the password of HTTP Basic, or as "
        "api-key: KEY"
    )


class KeyInvalid(AccessError, kind="unauthenticated"):
    message = "the key {self.detail}; ask the operator of the server for another key"
    detail: str = "is not known to this server"


class ScopeMissing(AccessError, kind="forbidden"):
    message = "this request needs the scope {self.scope!r}, which your key lacks; use a key with that scope"
    scope: str


class ModelNotAllowed(AccessError, kind="forbidden"):
    message = "your key does not allow the name {self.name!r}; use a key whose `models` include it"
    name: str
    """Name or pattern of names."""


class BeyondOwnKey(AccessError, kind="forbidden"):
    message = (
        "{self.field} {self.allowed}, the limit of your key; send a value within the limit, or ask an admin whose key "
        "has a higher limit"
    )
    field: str
    """Path of the field in the request, with slashes, such as ``"rates/requests_per_second"``."""
    allowed: str
    """Allowed values of the field, as ``"must be ..."``."""


class JobNotAllowed(AccessError, kind="forbidden", code="model_not_allowed"):
    """A key that does not include the model of this job.

    The message does not name the model: ids of jobs can be derived from idempotency keys.
    """

    message = "your key does not allow the model of job {self.id!r}; use a key whose `models` include it"
    id: str


class RateLimited(ServiceError, kind="busy"):
    message = "{self.detail}: retry in {self.retry_after:.3g} s"
    detail: str
    retry_after: float


class KeyNotFound(ServiceError, kind="missing"):
    message = "there is no key {self.id!r}; list the keys to see their ids"
    id: str


class KeysFull(ServiceError, kind="full", code="limit_exceeded"):
    message = "the limit of {self.limit:,} keys is reached: revoke a key that is no longer needed"
    limit: int


class WebhookNotFound(ServiceError, kind="missing"):
    message = "there is no webhook {self.id!r}; list the webhooks to see their ids"
    id: str


class WebhooksFull(ServiceError, kind="full", code="limit_exceeded"):
    message = "the limit of {self.limit:,} webhooks is reached: delete a webhook"
    limit: int


class HasKeys(ServiceError):
    message = (
        "the store already has {self.count:,} keys: create further keys with an existing key (manylabel keys create); "
        "if all keys are lost, repeat this command with --another"
    )
    count: int


class CannotServeOpenly(ServiceError):
    message = (
        "refusing to listen on {self.host} without a key, because other machines can reach it: create the first key "
        "with `manylabel keys init`, or start with --insecure to give every client full access"
    )
    host: str


# Models


class ModelNotFound(ServiceError, kind="missing"):
    message = "there is no model named {self.name!r}; create it first, or check the name"
    name: str


class ModelGone(ModelNotFound):
    """The model was deleted while the caller used it; a model that has the name now is a different one."""

    message = (
        "model {self.name!r} (incarnation {self.incarnation}) was deleted; repeat the request to reach the model that "
        "has the name now"
    )
    incarnation: int


class ModelExists(ServiceError, kind="conflict"):
    message = "a model named {self.name!r} exists; choose another name, or delete that model first"
    name: str


class ModelIsTrained(ServiceError, kind="conflict", title="Model is trained by jobs"):
    message = (
        "model {self.name!r} is trained by jobs, and does not learn from single examples. To measure it, store its "
        "predictions (predict?keep=true) and submit their labels (POST /v1/models/{self.name}/labels). To improve it, "
        "train a new version, or create an online model from a version (init_from)"
    )
    name: str


class ModelFollows(ServiceError, kind="conflict", title="Model follows another"):
    message = "model {self.name!r} follows another model; send changes to the model that its `follow` names"
    name: str


class ModelHasFollowers(ServiceError, kind="conflict"):
    message = "model {self.name!r} is followed by {self.others}: delete them first, or send followers=delete"
    name: str
    followers: Collection[str]

    @property
    def others(self) -> str:
        """The names of the followers."""
        return ", ".join(map(repr, self.followers))


class NoRollback(ModelIsTrained):
    message = (
        "model {self.name!r} is trained by jobs, and has versions instead of snapshots: promote an earlier version to "
        "go back (POST /v1/models/{self.name}/promote, manylabel models promote {self.name} VERSION)"
    )


class NoReliability(ModelIsTrained):
    message = (
        "model {self.name!r} is trained by jobs, and has no reliability diagram: the server measures its scores only"
    )


class ModelIsOnline(ServiceError, kind="conflict", title="Model learns online"):
    message = "model {self.name!r} learns online and has no versions; choose the name of a trained model"
    name: str


class NotReady(ServiceError, kind="unavailable"):
    message = "{self.detail}; retry in {self.retry_after:g} s"
    detail: str
    """Reason, as a clause."""
    retry_after: float | None = 1.0


class ModelFailed(NotReady):
    """The model cannot be loaded or is inconsistent; retrying does not help."""

    message = "{self.detail}"
    retry_after: float | None = None  # no default


class FollowerFailed(ModelFailed, kind="conflict"):
    """A follower that can no longer learn from the log of its leader; the client can delete it."""


class IncompatibleRelease(NotReady):
    """This release must not serve a model; another release can."""


class ReleaseTooOld(IncompatibleRelease, kind="unavailable"):
    message = "{self.detail}: run the newer release that wrote it"


class DocumentNewer(ReleaseTooOld):
    """A document that a newer release wrote in a format that this release does not know; it must not be changed."""

    message = "{self.detail}; upgrade this server"
    revision: int = 0

    @classmethod
    def of(cls, kind: str, name: str, release: str, revision: int = 0) -> Self:
        """Return the error for a document, with the release that wrote it."""
        return cls(f"the document {name!r} of {kind} was written by release {release}", revision=revision)


class ReplayMismatch(IncompatibleRelease, kind="unavailable"):
    message = "{self.detail}: this replica does not serve the model; the other replicas do"


class QueueFull(ServiceError, kind="busy"):
    message = (
        "the update queue of model {self.name!r} is full ({self.limit}): retry in {self.retry_after:g} s or send more "
        "slowly"
    )
    name: str
    limit: str
    """Limit of the queue with its unit, such as ``"100 examples"``."""
    retry_after: float


class TooManyWatchers(ServiceError, kind="busy", code="queue_full"):
    message = (
        "the limit of {self.limit} clients that watch the events of model {self.name!r} is reached: disconnect "
        "a client, or retry in {self.retry_after:g} s"
    )
    name: str
    limit: int
    retry_after: float


class LimitExceeded(ServiceError, kind="full"):
    """A request that would exceed a limit; nothing was changed."""

    message = (
        "{self.what} would reach {self.size:,}, above the limit of {self.limit:,}: send less, or ask the operator to "
        "raise the limit"
    )
    what: str
    """Quantity that is limited, such as ``"labels of model 'tags'"``."""
    size: int
    """Value that the quantity would reach."""
    limit: int
    """Maximum, in the same unit."""


def check_limit(what: str, size: int, limit: int) -> None:
    """Raise LimitExceeded for a size above its limit."""
    if size > limit:
        raise LimitExceeded(what, size, limit)


class SnapshotNotFound(ServiceError, kind="missing"):
    message = (
        "model {self.name!r} has no snapshot {self.position!r}; list the snapshots of the model to see their positions"
    )
    name: str
    position: str


class PositionNotFound(ServiceError, kind="missing"):
    message = (
        "the log of model {self.name!r} has no entry at position {self.position}; read the log to see all positions"
    )
    name: str
    position: str


class ExampleNotFound(ServiceError, kind="missing"):
    message = (
        "model {self.name!r} has no example {self.index} at position {self.position}: {self.detail}; read the log to "
        "see the examples"
    )
    name: str
    position: str
    index: int
    detail: str


class CannotUndo(ServiceError, kind="conflict", title="Change cannot be undone"):
    message = "the change at position {self.position} of model {self.name!r} cannot be undone: {self.detail}"
    name: str
    position: str
    detail: str


class DoubtsNotFound(ServiceError, kind="missing"):
    message = "model {self.name!r} has no list of doubts yet; begin a search, and wait until its job has ended"
    name: str


class NotPromotable(ServiceError, kind="conflict", title="Follower cannot be promoted"):
    message = "follower {self.name!r} cannot be promoted: {self.detail}"
    name: str
    detail: str


class ForgetRunning(ServiceError, kind="conflict"):
    message = "model {self.name!r} is already being replaced; wait until the change {self.id} has ended"
    name: str
    id: str


class ReceiptNotFound(ServiceError, kind="missing"):
    message = "model {self.name!r} has no receipt {self.id!r}; the server stores the latest 100 receipts of a model"
    name: str
    id: str


class BeforeHistory(ServiceError, kind="gone", title="Before the history"):
    message = (
        "the history of model {self.name!r} begins after position {self.begin}, and {self.at} is earlier; the "
        "settings history_bytes and history_days limit the history"
    )
    name: str
    at: str
    """The position or time, as text."""
    begin: str


# Requests


class InvalidExample(ServiceError, kind="invalid", code="invalid_request"):
    """An example that the model cannot use; nothing of its request was learnt."""

    message = "example {self.index}, {self.place}: {self.detail}"
    index: int
    """Index of the example in the request, from 0."""
    path: tuple[str | int, ...]
    """Keys into the example, outermost first, such as ``("x", "indices")``."""
    detail: str
    """Allowed values, as ``"must be ..."``."""

    @property
    def place(self) -> str:
        """The path of the field, joined with dots."""
        return ".".join(map(str, self.path))


class InvalidField(ServiceError, kind="invalid", code="invalid_request"):
    """A field of a request with a value that is not allowed; nothing was changed."""

    message = "{self.place} {self.detail}"
    path: tuple[str | int, ...]
    """Keys into the request, outermost first, such as ``("data", "split")``."""
    detail: str
    """Allowed values, as ``"must be ..."``."""

    @property
    def place(self) -> str:
        """The path of the field, joined with slashes."""
        return "".join(f"/{part}" for part in self.path)


class InvalidJob(InvalidField):
    """A job with settings that are not allowed; nothing was queued."""


class CannotInitialise(InvalidField):
    """An online model cannot be initialised from a version of a trained model."""


class NoProbabilities(InvalidField):
    """A request for probabilities of a model that has none."""

    path: tuple[str | int, ...] = ("probabilities",)
    detail: str = "must be false or omitted: this model has no probabilities"


class NotCalibrated(ServiceError, kind="invalid", code="invalid_request"):
    message = "model {self.name!r} has no probabilities: it was created with calibrate=false"
    name: str


class KeyInFlight(
    ServiceError, kind="conflict", code="idempotency_in_flight", title="Request with this idempotency key in flight"
):
    message = "a request with the idempotency key {self.key!r} is still in progress; retry when it is done"
    key: str


class KeyReused(ServiceError, kind="invalid", code="idempotency_key_reused"):
    message = "the idempotency key {self.key!r} was used for a different request; use a new key for each request"
    key: str


class LabelNotFound(ServiceError, kind="missing"):
    message = "the model does not have the label {self.label!r}, or has retired it; list the labels to see their names"
    label: str


class LabelExists(ServiceError, kind="conflict"):
    message = (
        "{self.label!r} is the name, or an old name, of a label of this model; choose another name, or merge the labels"
    )
    label: str


class LabelsDeclared(ServiceError, kind="conflict"):
    message = "the labels of model {self.name!r} were declared when it was created, and cannot be renamed"
    name: str


# Stored predictions


class PredictionError(ServiceError):
    """Base of the errors of labelling stored predictions; nothing of the request was learnt."""

    id: str


class PredictionNotFound(PredictionError, kind="missing"):
    message = "this model has no stored prediction {self.id!r}; predict with keep=true to get an id"


class PredictionExpired(PredictionError, kind="gone"):
    message = "prediction {self.id!r} has expired: {self.detail}; predict again"
    detail: str
    """Reason, as a clause."""


class PredictionLabelled(PredictionError, kind="conflict", title="Prediction already labelled"):
    message = "prediction {self.id!r} {self.detail}"
    detail: str = "already has labels; a prediction can be labelled once"


class PredictionNotDeferred(PredictionError, kind="conflict", title="Teacher not asked"):
    message = (
        "the model answered prediction {self.id!r} without the teacher (ask is false), so labels of {self.source!r} "
        "are rejected: a model that learns its own answers cannot keep its promise of parity"
    )
    source: str


class PredictionsFull(ServiceError, kind="busy", title="Too many stored predictions"):
    message = (
        "model {self.name!r} stores {self.limit} without labels, which is the limit; label some predictions, or wait "
        "until they expire"
    )
    name: str
    limit: str
    """Limit with its unit, such as ``"100 predictions"``."""
    retry_after: float = 60.0


# Versions of trained models


class VersionNotFound(ServiceError, kind="missing"):
    message = "model {self.name!r} has no version {self.version}; list the versions of the model to see their numbers"
    name: str
    version: int


class VersionServed(ServiceError, kind="conflict"):
    message = (
        "version {self.version} of model {self.name!r} is served; promote another version before you delete this one"
    )
    name: str
    version: int


class VersionDiffers(ServiceError, kind="conflict"):
    message = (
        "version {self.version} of model {self.name!r} differs from version {self.served}, which is served: "
        '{self.differences}; send "force": true to serve it anyway'
    )
    name: str
    version: int
    served: int
    differences: str


class VersionDamaged(ServiceError, kind="broken"):
    message = (
        "the server cannot load version {self.version} of model {self.name!r} ({self.detail}); promote another version"
    )
    name: str
    version: int
    detail: str


class NoVersionServed(ServiceError, kind="conflict"):
    message = "no version of model {self.name!r} is served; promote a version"
    name: str


# Datasets


class DatasetNotFound(ServiceError, kind="missing"):
    message = "there is no dataset named {self.name!r}; upload it first, or check the name"
    name: str


class DatasetExists(ServiceError, kind="conflict"):
    message = "a dataset named {self.name!r} exists; choose another name, or delete that dataset first"
    name: str


class DatasetInUse(ServiceError, kind="conflict"):
    """A dataset that a queued or running job needs; it was not deleted."""

    message = "a job needs the dataset {self.name!r}; delete it when the job has ended, or cancel the job first"
    name: str


class InvalidDataset(ServiceError, kind="invalid"):
    """An upload that is not a valid dataset; nothing was stored."""

    message = "the dataset cannot be read: {self.detail}"
    detail: str
    """The error, its location, and the allowed values."""
    line: int | None = None
    """Line of a text file, from 1."""
    row: int | None = None
    """Row of the arrays of an NPZ file, from 0."""
    member: str | None = None
    """The array of an NPZ file, or ``"labels"`` for the XML of an ARFF file."""


# Jobs


class JobNotFound(ServiceError, kind="missing"):
    message = "there is no job {self.id!r}; the server stores only the latest 1,000 ended jobs"
    id: str


class JobEnded(ServiceError, kind="conflict"):
    message = "job {self.id!r} cannot be cancelled, because it {self.state}"
    id: str
    state: str
    """State of the job as a predicate, such as ``"has failed"``."""


class JobNotRetryable(ServiceError, kind="conflict", title="Job neither failed nor cancelled"):
    message = "job {self.id!r} is {self.state}; only a job that failed or was cancelled can be retried"
    id: str
    state: str


class JobsFull(ServiceError, kind="busy", title="Too many jobs"):
    message = (
        "the limit of {self.limit:,} queued and running jobs is reached: retry when a job has ended, or cancel a job"
    )
    limit: int
    retry_after: float = 30.0


# Storage


class StorageError(ServiceError, kind="unavailable", code="storage_unavailable"):
    """Base of the errors of storage."""


class StorageUnavailable(StorageError):
    """Storage is unavailable. Acknowledged changes are not affected."""

    message = "storage is not available: {self.detail}; {self.outlook}"
    detail: str
    """Failure, and what the operator must do."""
    heals: bool
    """Whether the error is transient: the same call succeeds once the cause is gone (the disk has space, the connection
    is back). Otherwise the operator must fix the cause and restart the server."""

    @property
    def outlook(self) -> str:
        """Advice by `heals`: the server recovers automatically, or the operator must restart it."""
        return (
            "the server recovers once the cause is fixed; retry"
            if self.heals
            else "fix the cause and restart the server"
        )

    def answer(self) -> str:
        """Return advice for the client; paths, addresses and causes are only in the server's log."""
        return f"storage is not available: {'retry later' if self.heals else 'the operator of the server must act'}"


class LogSealed(StorageUnavailable):
    message = "the log of model {self.name!r} is being replaced; retry"
    detail: str = "its log is being replaced"
    heals: bool = True
    name: str = ""


class StorageFull(StorageUnavailable, kind="full"):
    """Storage is full; nothing was stored."""

    heals: bool = True

    def answer(self) -> str:
        return "storage is full, and nothing was stored: retry when the operator has freed space"


class ModelDamaged(StorageError, kind="broken"):
    """A model that is damaged in the store and cannot be served; other models are not affected."""

    message = "model {self.name!r} is damaged ({self.detail}): restore the store from a backup, or delete the model"
    name: str
    detail: str
    """The mismatch, and its location."""


class HistoryDamaged(StorageError, kind="broken"):
    message = (
        "the history of model {self.name!r} is damaged after position {self.after}, up to {self.through}: "
        "{self.reason}; earlier and later entries can be read"
    )
    name: str
    after: str
    through: str
    reason: str


class DocumentDamaged(StorageError, kind="broken", code="storage_damaged"):
    """A document that does not match its checksum, or is invalid for its kind; it must not be changed."""

    message = "the document {self.name!r} of {self.kind} is damaged: restore the store from a backup"
    kind: str
    name: str
    revision: int = 0


class RevisionConflict(StorageError):
    """A document at another revision than the caller expected; nothing was changed."""

    message = "the document {self.name!r} of {self.kind} {self.difference}; read it again, and repeat the change"
    kind: str
    name: str
    expected: int | None
    """Revision that the caller expected; None if the document must not exist."""
    found: int | None
    """Current revision; None if the document does not exist."""

    @property
    def difference(self) -> str:
        """The found and the expected revision, as text."""
        is_now = "does not exist" if self.found is None else f"is at revision {self.found}"
        return f"{is_now} and " + (
            "must not exist" if self.expected is None else f"should be at revision {self.expected}"
        )


class BlobNotFound(StorageError):
    message = "there is no blob under the key {self.key!r}"
    key: str


class BlobGone(BlobNotFound):
    message = "the blob under the key {self.key!r} was replaced or removed while it was read; read it again"


class BlobLost(BlobNotFound):
    """A blob outside of the store whose bytes are missing."""

    message = "the blob under the key {self.key!r} is missing at {self.place}: restore the store from a backup"
    place: str


class BlobDamaged(StorageError, kind="broken", code="storage_damaged"):
    message = (
        "the blob under the key {self.key!r}{self.at} does not match its checksum: restore the store from a backup"
    )
    key: str
    place: str = ""
    """Address of the place of the blob outside of the store."""

    @property
    def at(self) -> str:
        """The place, as text."""
        return self.place and f" at {self.place}"


class LogTrimmed(StorageError):
    message = (
        "the log of model {self.name!r} was deleted up to position {self.trimmed}, and cannot be read from "
        "{self.after}; start from a snapshot at position {self.trimmed} or later"
    )
    name: str
    after: str
    """The requested position."""
    trimmed: str
    """The last position that was removed: replay must start from a snapshot at or after it."""


class LogLost(StorageError):
    message = (
        "the log of model {self.name!r} no longer has the entry at {self.position}: the store was restarted without "
        "all of its data; the server continues with the remaining entries"
    )
    name: str
    position: str


class StoreUnusable(StorageError):
    """A store that cannot be opened; nothing in it was changed. Special cases have separate errors below."""

    message = "{self.detail}"
    detail: str


class StoreLocked(StorageError):
    message = (
        "the data directory {self.directory} is in use by {self.holder}: stop that process, or choose another "
        "directory for this server"
    )
    directory: Path
    pid: int | None

    @property
    def holder(self) -> str:
        """Text that names the process with the directory open."""
        return "another process" if self.pid is None else f"process {self.pid}"


class StoreDamaged(StorageError):
    """A file that is not an intact database of this program; it was not changed."""

    message = (
        "{self.path} cannot be used ({self.detail}): restore it from a backup, or give the server another data "
        "directory to start empty"
    )
    path: Path
    detail: str


class StoreTooNew(StorageUnavailable, kind="unavailable", code="release_too_old"):
    """A store with a format number that this release does not know; nothing in it is read or changed."""

    message = "{self.detail} {self.advice}"
    heals: bool = False
    found: int = 0
    known: int = 0
    retry_after: float = 5.0

    @property
    def advice(self) -> str:
        """The numbers, and what the operator must do."""
        return (
            f"has format {self.found}, and this release supports formats up to {self.known}: run the newer release, "
            "or restore a backup made before the upgrade"
        )

    def answer(self) -> str:
        """Return the message without the location of the store."""
        return f"the store {self.advice}"


class UnreadableEntry(Exception):
    """A log entry that is damaged, or was written by a newer version."""
