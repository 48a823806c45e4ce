"""Publication of a job's result as a version of a model.

Publication can be interrupted at any time, and repeated by any process; a job still gets only one version. A version is
listed only after its artifact and metadata are stored.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog

from manylabel_service.errors import ModelExists, ModelGone, ModelIsOnline, NotReady, VersionNotFound, check_limit
from manylabel_service.online.spec.trained import TrainedSpec, is_trained
from manylabel_service.settings import Settings
from manylabel_service.storage import START, ModelMeta, Store
from manylabel_service.trained.predictor import Predictor
from manylabel_service.trained.version import Promote, Version, VersionMeta
from manylabel_service.trained.version_store import VersionCatalogue, VersionStore

ATTEMPTS = 5
"""Maximum attempts if other clients delete the model at the same time."""

log = structlog.get_logger()


async def check_publishable(store: Store, settings: Settings, name: str) -> None:
    """Check before training that a job can create a version of a model with this name. Raises ModelIsOnline,
    LimitExceeded or StorageUnavailable."""
    record = await store.models.find(name)
    if record is None:
        check_limit("the number of models", await store.models.count() + 1, settings.max_models)
        return
    _check_trained(record)
    with suppress(ModelGone):
        _check_room(name, await VersionStore(record, store).read(), settings.limits.max_versions)


async def publish(
    store: Store, settings: Settings, name: str, artifact: bytes, meta: VersionMeta, *, promote: Promote
) -> tuple[int, VersionMeta]:
    """Create a version of a model, and the model if necessary; return its number and its metadata. Raises
    ModelIsOnline, LimitExceeded, manylabel_core.state.DamagedState, NotReady or StorageUnavailable.

    Parameters
    ----------
    artifact : `ModelArtifact.to_bytes`.
    meta : metadata of the version, to which scaling, features and the reasons below are added. If the job has published
        before, its version is returned, and nothing changes; if this version was deleted, it is returned with the
        metadata `meta`.
    promote : whether to serve the version from now on, in the same step that publishes it. With "if_better", it is
        served if its fit converged, it was evaluated, its features and scaling are the same as those of the served
        version, and its metric on the same rows is not lower; else `not_promoted_because` in its metadata has
        the reasons.
    """
    check_limit(f"bytes of model {name!r}", len(artifact), settings.max_model_bytes)
    # A version that cannot be served must not be listed.
    meta = await asyncio.to_thread(_described, artifact, meta)
    for _ in range(ATTEMPTS):
        record = await _record(store, settings, name)
        try:
            number, written = await _published(record, store, settings, artifact, meta, promote)
        except ModelGone:
            continue
        log.info("version_published", model=name, version=number, job=meta.job, promoted=promote)
        return number, written
    raise NotReady(f"model {name!r} is being deleted by others")


def _described(artifact: bytes, meta: VersionMeta) -> VersionMeta:
    """Return the metadata with the fields of the artifact; raises DamagedState if the artifact cannot predict."""
    predictor = Predictor(Version(0, START, len(artifact), meta), artifact)
    return replace(meta, scaling=predictor.estimator.scaling, features=predictor.features_digest)


async def _not_promoted_because(versions: VersionStore, meta: VersionMeta) -> str | None:
    """Return the reasons against serving a version instead of the current one, or None."""
    reasons = []
    if not meta.converged:
        gap = "" if meta.gap is None else f" (gap {meta.gap:.2g})"
        reasons.append(f"its fit did not converge{gap}")
    if meta.measures is None:
        reasons.append("it was not evaluated")
    if found := await versions.differences(meta):
        reasons.append(f"it differs from version {versions.catalogue.served}: {found}")
    if worse := await versions.worse(meta):
        reasons.append(worse)
    return "; ".join(reasons) or None


async def _published(
    record: ModelMeta, store: Store, settings: Settings, artifact: bytes, meta: VersionMeta, promote: Promote
) -> tuple[int, VersionMeta]:
    """Return the number and the metadata of the job's version, created if necessary; raises ModelGone."""
    versions = VersionStore(record, store)
    while meta.job not in (catalogue := await versions.read()).jobs:
        _check_room(record.name, catalogue, settings.limits.max_versions)
        not_promoted_because = await _not_promoted_because(versions, meta) if promote == "if_better" else None
        serve = promote != "never" and not_promoted_because is None
        worse = await versions.worse(meta) if serve else None
        written = replace(meta, not_promoted_because=not_promoted_because, worse=worse)
        id = await versions.put_blobs(written, artifact)
        compared = [catalogue.served] if promote != "never" else None
        add = partial(
            _add,
            job=meta.job,
            id=id,
            size_bytes=len(artifact),
            serve=serve,
            not_promoted_because=not_promoted_because,
            compared=compared,
        )
        catalogue = await versions.change(add)
        if meta.job in catalogue.jobs:
            break
    else:
        number = catalogue.jobs[meta.job]
        with suppress(VersionNotFound):
            meta = (await versions.find(number)).meta
        return number, meta
    if await store.models.find(record.name) != record:  # it was deleted before its document was written
        await versions.files.delete_all()
        raise ModelGone(record.name, record.incarnation)
    await versions.collect_garbage()
    return catalogue.jobs[meta.job], written


def _add(
    catalogue: VersionCatalogue,
    *,
    job: str,
    id: str,
    size_bytes: int,
    serve: bool,
    not_promoted_because: str | None,
    compared: list[int | None] | None,
) -> bool:
    """Add the version of a job, unless it exists, or the version with which it was compared is no longer served."""
    if job in catalogue.jobs or (compared is not None and catalogue.served not in compared):
        return False
    number = catalogue.add(job, id, size_bytes)
    if serve:
        catalogue.promote(number)
    elif not_promoted_because is not None:
        catalogue.record_refusal(number, not_promoted_because)
    return True


async def _record(store: Store, settings: Settings, name: str) -> ModelMeta:
    """Return the model, created if necessary."""
    record = await store.models.find(name)
    if record is None:
        check_limit("the number of models", await store.models.count() + 1, settings.max_models)
        try:
            return await store.models.create(name, TrainedSpec(name=name).to_bytes())
        except ModelExists:
            record = await store.models.find(name)
            if record is None:
                raise NotReady(f"model {name!r} is being deleted") from None
    _check_trained(record)
    return record


def _check_trained(record: ModelMeta) -> None:
    record.check()
    if not is_trained(record.spec):
        raise ModelIsOnline(record.name)


def _check_room(name: str, catalogue: VersionCatalogue, limit: int) -> None:
    check_limit(f"the number of versions of model {name!r}", len(catalogue.versions) + 1, limit)
