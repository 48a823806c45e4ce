"""Versions of trained models in the store.

Each model has one document, changed by compare-and-set, that lists its versions and names the served one. The artifact
of a version is a blob, and so are its metadata, which may be larger than a document. Blobs are written first, under
unique keys; a version exists as soon as the document names it. A publisher may crash at any time, because unlisted
blobs are removed later. A position of a trained model is a revision of its document.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Self

import structlog
from pydantic import Field, TypeAdapter, ValidationError

from manylabel_service import ulid
from manylabel_service.errors import (
    BlobDamaged,
    BlobNotFound,
    ModelGone,
    VersionDamaged,
    VersionDiffers,
    VersionNotFound,
    VersionServed,
    check_limit,
)
from manylabel_service.storage import (
    MAX_DOCUMENT_BYTES,
    START,
    ModelMeta,
    Store,
    StoredModel,
    pieces_of,
    position_key,
)
from manylabel_service.storage.blob_collection import BlobCollection, is_old
from manylabel_service.trained.version import ListedVersion, Version, VersionMeta

log = structlog.get_logger()

KIND = "versions"
BLOBS = "versions/"
"""Prefix of the keys of all blobs of versions."""
META_SUFFIX = ".meta"
"""Suffix of the key of metadata, after the key of the artifact."""
MAX_JOBS = 1_000
"""Number of the latest jobs that are remembered, so that none of them publishes twice."""
MAX_CHANGES = 100
"""Number of the latest changes in the document, for processes that read it at intervals."""
MAX_REASON = 500
"""Maximum length in characters of the reason in a `NotPromoted`."""

_META = TypeAdapter(VersionMeta)


class Promoted(NamedTuple):
    """Promotion: a version is served from a position on, instead of the previous one, if any."""

    position: str
    version: int
    previous: int | None


class NotPromoted(NamedTuple):
    """Published version that is not served, and the reason."""

    position: str
    version: int
    reason: str


Change = Promoted | NotPromoted


class VersionCatalogue(StoredModel):
    """Document of a model that lists its versions.

    The position of a version is the revision of the document that adds it. This revision is not known before the write,
    so the position is absent at first. Readers use the revision instead, and the next change stores it as the position.

    Attributes
    ----------
    last : highest assigned number.
    served : number of the served version; None before the first.
    versions : versions by number.
    jobs : numbers of the versions made by jobs, including deleted ones.
    changes : latest decisions about versions, promoted or not promoted, in order.
    """

    last: int = 0
    served: int | None = None
    versions: dict[int, ListedVersion] = Field(default_factory=dict)
    jobs: dict[str, int] = Field(default_factory=dict)
    changes: list[Change] = Field(default_factory=list)

    def at(self, revision: int) -> Self:
        """Set the revision, which is the position of the versions and changes that the document adds; return the
        catalogue."""
        super().at(revision)
        for number, version in self.versions.items():
            if not version.position:
                self.versions[number] = replace(version, position=self.position)
        self.changes = [each if each.position else each._replace(position=self.position) for each in self.changes]
        return self

    @property
    def position(self) -> str:
        """Position of the model: the revision, or `START` without a document."""
        return str(self.revision) if self.revision else START

    @property
    def target(self) -> ListedVersion | None:
        """Version to serve; None before the first."""
        return None if self.served is None else self.versions[self.served]

    def add(self, job: str, id: str, size_bytes: int) -> int:
        """Add a version; return its number."""
        self.last += 1
        self.versions[self.last] = ListedVersion(self.last, "", size_bytes, job, id)
        self.jobs[job] = self.last
        if len(self.jobs) > MAX_JOBS:
            del self.jobs[next(iter(self.jobs))]
        return self.last

    def promote(self, number: int) -> None:
        """Serve a listed version."""
        self._note(Promoted("", number, self.served))
        self.served = number

    def record_refusal(self, number: int, reason: str) -> None:
        """Record why a listed version is not served."""
        self._note(NotPromoted("", number, reason[:MAX_REASON]))

    def _note(self, change: Change) -> None:
        self.changes = [*self.changes, change][-MAX_CHANGES:]

    def changes_after(self, position: str) -> list[Change] | None:
        """Return the changes after a position; None if the catalogue does not have all of them."""
        key = position_key(position)
        later = [change for change in self.changes if position_key(change.position) > key]
        return None if len(later) == MAX_CHANGES else later


class VersionStore:
    """Versions of one model; calls run one at a time.

    Parameters
    ----------
    on_change : callback with the previous catalogue after a different one was read or written.

    Attributes
    ----------
    catalogue : catalogue as last read or written.
    files : document of the versions, and their blobs.
    """

    def __init__(
        self, record: ModelMeta, store: Store, on_change: Callable[[VersionCatalogue], None] = lambda before: None
    ) -> None:
        self.catalogue = VersionCatalogue()
        self._record = record
        self._store = store
        name = str(record.incarnation)  # a model that is deleted and created again starts with a new document
        self.files = BlobCollection(store.documents, store.blobs, KIND, name, VersionCatalogue, _keys)
        self._on_change = on_change
        self._metas: dict[str, VersionMeta] = {}  # by version id; each is read once
        self._turn = asyncio.Lock()

    async def read(self) -> VersionCatalogue:
        """Return the current catalogue. Raises StorageUnavailable, ModelGone or DocumentDamaged."""
        async with self._turn:
            return await self._read()

    async def change(self, change: Callable[[VersionCatalogue], bool]) -> VersionCatalogue:
        """Change the current catalogue, and return the result. Raises StorageUnavailable, ModelGone or DocumentDamaged.

        Parameters
        ----------
        change : changes a catalogue; returns False to leave it unchanged. Its exceptions are passed on.
        """

        def changed(catalogue: VersionCatalogue | None) -> VersionCatalogue | None:
            catalogue = catalogue or VersionCatalogue()
            if not change(catalogue):
                return None
            what = f"bytes of what is known of the versions of model {self._record.name!r}"
            check_limit(what, len(catalogue.to_bytes()), MAX_DOCUMENT_BYTES)
            return catalogue

        async with self._turn:
            await self._read()
            return self._known(await self.files.documents.change(self.files.name, changed) or VersionCatalogue())

    async def find(self, number: int) -> Version:
        """Read the current catalogue, and return a version; raise the errors of `read` and `version`."""
        try:
            listed = (await self.read()).versions[number]
        except KeyError:
            raise VersionNotFound(self._record.name, number) from None
        return await self.version(listed)

    async def all(self) -> tuple[list[Version], int | None, list[int]]:
        """Return the current versions, the number of the served version, and the numbers of damaged versions."""
        catalogue = await self.read()
        versions, damaged = [], []
        for listed in catalogue.versions.values():
            try:
                versions.append(await self.version(listed))
            except VersionNotFound:
                continue  # it has been deleted in the meantime
            except VersionDamaged as error:
                log.error("version_damaged", model=self._record.name, version=listed.number, error=str(error))
                damaged.append(listed.number)
        return versions, catalogue.served, damaged

    async def version(self, listed: ListedVersion) -> Version:
        """Return a listed version with its metadata. Raises VersionNotFound, VersionDamaged, StorageUnavailable or
        ModelGone."""
        number, name = listed.number, self._record.name
        meta = self._metas.get(listed.id)
        if meta is None:
            try:
                data = await self.files.blob(_key(listed.job, listed.id) + META_SUFFIX)
                meta = self._metas[listed.id] = _META.validate_json(data)
            except BlobNotFound:
                if number not in (await self.read()).versions:
                    raise VersionNotFound(name, number) from None
                raise VersionDamaged(name, number, "its metadata are missing") from None
            except BlobDamaged as error:
                raise VersionDamaged(name, number, "its metadata do not match their checksum") from error
            except ValidationError as error:
                raise VersionDamaged(name, number, f"invalid metadata: {error}") from error
        return Version(number, listed.position, listed.size_bytes, meta, listed.id)

    async def promote(self, number: int, *, force: bool = False) -> Promoted:
        """Serve a version from one position on; no change if it is already served. Raises
        VersionNotFound, VersionDiffers, VersionDamaged, StorageUnavailable or ModelGone.

        Parameters
        ----------
        force : whether to serve a version that differs from the served one.
        """
        while True:
            served = (await self.read()).served
            if not force and (found := await self.differences((await self.find(number)).meta)):
                assert served is not None
                raise VersionDiffers(self._record.name, number, served, found)
            previous: int | None = None

            def change(catalogue: VersionCatalogue, compared: int | None = served) -> bool:
                nonlocal previous
                if number not in catalogue.versions:
                    raise VersionNotFound(self._record.name, number)
                previous = catalogue.served
                if previous not in (number, compared):  # the version with which it was compared is no longer served
                    return False
                if previous != number:
                    catalogue.promote(number)
                return previous != number

            catalogue = await self.change(change)
            if previous in (number, served):
                return Promoted(catalogue.position, number, previous)

    async def differences(self, meta: VersionMeta) -> str:
        """Return the differences between a version and the served one, according to the catalogue read last; an empty
        text if they do not differ."""
        target = self.catalogue.target
        if target is None:
            return ""
        try:
            return meta.differences((await self.version(target)).meta)
        except (VersionNotFound, VersionDamaged):  # any version that can be served is better
            return ""

    async def worse(self, meta: VersionMeta) -> str | None:
        """Return the difference by which a version scored lower than the served one on the same rows, or None."""
        target = self.catalogue.target
        if target is None or meta.measured_on is None:
            return None
        try:
            return meta.worse_than((await self.version(target)).meta, target.number)
        except (VersionNotFound, VersionDamaged):
            return None

    async def delete(self, number: int) -> None:
        """Delete a version; `collect_garbage` removes its blobs. Raises VersionNotFound, VersionServed,
        StorageUnavailable or ModelGone."""

        def change(catalogue: VersionCatalogue) -> bool:
            if number == catalogue.served:
                raise VersionServed(self._record.name, number)
            if catalogue.versions.pop(number, None) is None:
                raise VersionNotFound(self._record.name, number)
            return True

        await self.change(change)

    async def artifact(self, version: Version) -> bytes:
        """Return the artifact of a version as it was stored; raises VersionDamaged, StorageUnavailable, ModelGone."""
        try:
            return await self.files.blob(_key(version.meta.job, version.id))
        except BlobNotFound:
            await self.read()  # the model may have been deleted
            raise VersionDamaged(self._record.name, version.number, "its contents are missing") from None
        except BlobDamaged as error:
            raise VersionDamaged(
                self._record.name, version.number, "its contents do not match their checksum"
            ) from error

    async def put_blobs(self, meta: VersionMeta, artifact: bytes) -> str:
        """Store an artifact and its metadata; return their id within the job."""
        id = ulid.new()
        key = self.key(meta.job, id)
        await self._store.blobs.put(key, pieces_of(artifact))
        await self._store.blobs.put(key + META_SUFFIX, pieces_of(_META.dump_json(meta)))
        return id

    def key(self, job: str, id: str) -> str:
        """Return the key of an artifact."""
        return self.files.key(_key(job, id))

    async def collect_garbage(self) -> None:
        """Remove the blobs of failed publications; raises StorageUnavailable.

        Blobs of a job without a version stay, because it may still be publishing; a job with a version makes no other.
        Blobs with other names stay, because they may belong to a later release.
        """
        catalogue = self.catalogue
        needed = _keys(catalogue)
        for key in await self._store.blobs.keys(self.files.prefix):
            artifact = key.removesuffix(META_SUFFIX).removeprefix(self.files.prefix)
            job, _, id = artifact.rpartition("/")
            if artifact not in needed and ulid.valid(id) and (job in catalogue.jobs or is_old(id)):
                await self._store.blobs.delete(key)

    async def _read(self) -> VersionCatalogue:
        catalogue = await self.files.documents.get(self.files.name)
        if catalogue is None and await self._store.models.find(self._record.name) != self._record:
            raise ModelGone(self._record.name, self._record.incarnation)
        return self._known(catalogue or VersionCatalogue())

    def _known(self, catalogue: VersionCatalogue) -> VersionCatalogue:
        before = self.catalogue
        if before.revision != catalogue.revision:
            self.catalogue = catalogue
            ids = {listed.id for listed in self.catalogue.versions.values()}
            self._metas = {id: meta for id, meta in self._metas.items() if id in ids}
            self._on_change(before)
        return self.catalogue


def _key(job: str, id: str) -> str:
    return f"{job}/{id}"


def _keys(catalogue: VersionCatalogue) -> set[str]:
    """Return the keys of the artifacts of the listed versions."""
    return {_key(version.job, version.id) for version in catalogue.versions.values()}
