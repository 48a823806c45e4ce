"""A job's result becomes a version of a model.

Publishing may break off anywhere and be begun again, by this process or another: a job gets one version. It is
listed only once its contents are stored and pinned.
"""

import asyncio
from dataclasses import dataclass

import structlog

from manylabel_service.errors import LogLost, LogTrimmed, ModelExists, ModelGone, ModelIsOnline, NotReady
from manylabel_service.hosting.size_limits import check_limit
from manylabel_service.settings import Settings
from manylabel_service.storage import START, ModelRecord, Store, position_key
from manylabel_service.trained.entries import Commit, Reserve
from manylabel_service.trained.ledger import VersionLog
from manylabel_service.trained.predictor import Predictor
from manylabel_service.trained.spec import TrainedSpec, is_trained
from manylabel_service.trained.version import Version, VersionMeta
from manylabel_service.trained.version_store import VersionCatalogue, check_room

ATTEMPTS = 5
"""How often to begin again when others delete the model, or publish for the same job, at the same time."""

log = structlog.get_logger()


async def check_publishable(store: Store, settings: Settings, name: str) -> None:
    """Whether a job may make a version of a model of that name, as far as can be known before it is trained.

    Raises
    ------
    ModelIsOnline
        The name is taken by a model that learns online.
    LimitExceeded
        There are as many models, or versions of this one, as may be.
    StorageGone
    """
    record = await store.models.find(name)
    if record is None:
        check_limit("the number of models", len(await store.models.all()) + 1, settings.max_models)
        return
    _check_trained(record)
    ledger = VersionLog(record, store, settings)
    try:
        await ledger.read()
    except ModelGone:
        return
    check_room(ledger.catalogue, settings.max_versions)


async def publish(
    store: Store, settings: Settings, name: str, contents: bytes, meta: VersionMeta, *, promote: bool
) -> Version:
    """Make a version of a model, which is created if there is none of that name.

    Parameters
    ----------
    store, settings : where to, and within which limits.
    name : of the model.
    contents : `Contents.to_bytes`.
    meta : of the version. For a job that has published before, its version is answered, and nothing is changed.
    promote : whether the version is served from now on, in the same step in which it becomes one.

    Raises
    ------
    ModelIsOnline, LimitExceeded
        As `check_publishable`; or the contents are too large.
    manylabel_core.state.DamagedState
        The contents are not whole, or not those of an estimator that can predict.
    NotReady
        Others keep on deleting the model meanwhile.
    StorageGone
        Begin again later.
    """
    check_limit(f"bytes of model {name!r}", len(contents), settings.max_model_bytes)
    await asyncio.to_thread(
        Predictor, Version(0, START, len(contents), meta), contents
    )  # none is listed that cannot serve
    publication = _Publication(store, settings, name, contents, meta, promote)
    for attempt in range(ATTEMPTS):
        try:
            version = await publication.attempt(anew=attempt > 0)
        except (ModelGone, LogLost, LogTrimmed):
            continue
        if version is not None:
            log.info("version_published", model=name, version=version.number, job=meta.job, promoted=promote)
            return version
    raise NotReady(f"model {name!r} is being deleted or published to by others")


def _check_trained(record: ModelRecord) -> None:
    if not is_trained(record.spec):
        raise ModelIsOnline(record.name)


@dataclass(frozen=True, slots=True)
class _Publication:
    """What is to be published, and where."""

    store: Store
    settings: Settings
    name: str
    contents: bytes
    meta: VersionMeta
    promote: bool

    async def attempt(self, anew: bool) -> Version | None:
        """The version; None if another draft of the job has taken the place of this one. `anew` makes another draft.

        Raises
        ------
        ModelGone, LogLost, LogTrimmed
            The draft is of no use any more.
        """
        record = await self._record()
        ledger = VersionLog(record, self.store, self.settings)
        await ledger.read()
        if (earlier := ledger.catalogue.of_job(self.meta.job)) is not None:
            return earlier
        check_room(ledger.catalogue, self.settings.max_versions)
        if anew or self.meta.job not in ledger.catalogue.drafts:
            await ledger.append(Reserve(job=self.meta.job))
        position = ledger.catalogue.drafts.get(self.meta.job)
        if position is None:
            return ledger.catalogue.of_job(self.meta.job)
        await self.store.snapshots.put(record, position, self.contents)
        await self.store.snapshots.pin(record, position, True)
        version = (await ledger.append(self._whole(position))).version
        await sweep(self.store, record, ledger.catalogue)
        return version

    async def _record(self) -> ModelRecord:
        record = await self.store.models.find(self.name)
        if record is None:
            check_limit("the number of models", len(await self.store.models.all()) + 1, self.settings.max_models)
            try:
                return await self.store.models.create(self.name, TrainedSpec(name=self.name).written)
            except ModelExists:
                record = await self.store.models.find(self.name)
                if record is None:
                    raise NotReady(f"model {self.name!r} is being deleted") from None
        _check_trained(record)
        return record

    def _whole(self, position: str) -> Commit:
        meta = self.meta
        return Commit(
            job=meta.job,
            at=position,
            promote=self.promote,
            trainer=meta.trainer,
            params=dict(meta.params),
            rows=meta.rows,
            measures=None if meta.measures is None else dict(meta.measures),
            created_unix_ms=meta.created_unix_ms,
            size_bytes=len(self.contents),
        )


async def sweep(store: Store, record: ModelRecord, catalogue: VersionCatalogue) -> None:
    """Remove the contents of what is no version, and no draft that may become one.

    Raises
    ------
    StorageGone, ModelGone
    """
    needed = {version.position for version in catalogue.versions.values()} | set(catalogue.drafts.values())
    here = position_key(catalogue.position)
    for snapshot in await store.snapshots.all(record):
        # Of what stands behind the last entry known here, nothing is known.
        if snapshot.position not in needed and position_key(snapshot.position) <= here:
            await store.snapshots.pin(record, snapshot.position, False)
            await store.snapshots.delete(record, snapshot.position)
