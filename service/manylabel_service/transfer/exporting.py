"""Models and datasets of a store are written to an archive."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.errors import DatasetNotFound, ModelNotFound
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.trained import is_trained, read_spec
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.replay import LogReplayer
from manylabel_service.settings import Settings
from manylabel_service.storage import ModelMeta, Store
from manylabel_service.trained.version_store import VersionStore
from manylabel_service.transfer.archive import ArchiveWriter
from manylabel_service.transfer.files import META, details_of, rows_of, state_of, version_of
from manylabel_service.transfer.keys import export_keys


class Selection(NamedTuple):
    """The names of what is moved, None for all; and whether keys are."""

    models: tuple[str, ...] | None = None
    datasets: tuple[str, ...] | None = None
    keys: bool = True


async def export(store: Store, settings: Settings, archive: ArchiveWriter, selection: Selection) -> dict[str, int]:
    """Write models, with what they have learnt or their versions, datasets and keys; return how many of each.

    Raises
    ------
    ModelNotFound, DatasetNotFound
        One of the selection is not there.
    ModelDamaged, VersionDamaged, LogLost, StorageError
        One cannot be read.
    OSError
    """
    models = []
    for record in await _models(store, selection.models):
        record.check()
        write = _trained if is_trained(record.spec) else _online
        models.append(await write(store, archive, record))
    catalogue = DatasetStore(store, settings)
    datasets = [await _dataset(catalogue, archive, name) for name in await _datasets(catalogue, selection.datasets)]
    n_keys, keyed = await export_keys(store.documents, archive, selection.keys)
    archive.finish({"models": models, "datasets": datasets, "keyed": keyed})
    n_versions = sum(len(model.get("versions", ())) for model in models)
    return {"models": len(models), "versions": n_versions, "datasets": len(datasets), "keys": n_keys}


async def _models(store: Store, names: tuple[str, ...] | None) -> list[ModelMeta]:
    records = {record.name: record for record in await store.models.all()}
    for name in names or ():
        if name not in records:
            raise ModelNotFound(name)
    return [records[name] for name in sorted(records if names is None else set(names))]


async def _datasets(catalogue: DatasetStore, names: tuple[str, ...] | None) -> list[str]:
    there = [record.name for record in await catalogue.list()]
    for name in names or ():
        if name not in there:
            raise DatasetNotFound(name)
    return sorted(there if names is None else set(names))


async def _online(store: Store, archive: ArchiveWriter, record: ModelMeta) -> dict[str, Any]:
    """Write the state at the end of the log, as a new model begins with it."""
    model = await _folded(store, record)
    archive.add(state_of(record.name), await asyncio.to_thread(model.seed, record.name))
    return {"name": record.name, "kind": "online", "updates": model.updates, "spec": model.spec.model_dump(mode="json")}


async def _folded(store: Store, record: ModelMeta) -> OnlineModel:
    reader = LogReplayer(record, read_spec(record.spec), store, SnapshotReader(record, store))
    return (await reader.restored()).model


async def _trained(store: Store, archive: ArchiveWriter, record: ModelMeta) -> dict[str, Any]:
    """Write the artifact of each version, and its meta data; then what was measured of them, if anything was."""
    versions = VersionStore(record, store)
    catalogue = await versions.read()
    for number, listed in catalogue.versions.items():
        version = await versions.version(listed)
        archive.add(version_of(record.name, number, "safetensors"), await versions.artifact(version))
        archive.add(version_of(record.name, number, "json"), META.dump_json(version.meta))
    if (model := await _folded(store, record)).updates:
        archive.add(state_of(record.name), await asyncio.to_thread(model.seed, record.name))
    facts = {"versions": sorted(catalogue.versions), "served": catalogue.served, "last": catalogue.last}
    return {"name": record.name, "kind": "trained", **facts, "labelled": model.updates}


async def _dataset(catalogue: DatasetStore, archive: ArchiveWriter, name: str) -> dict[str, Any]:
    with TemporaryDirectory() as directory:
        rows = Path(directory) / "rows"
        record = await catalogue.fetch(name, rows)
        archive.add(rows_of(name), await asyncio.to_thread(rows.read_bytes))
    archive.add(details_of(name), json.dumps(await catalogue.details(name)).encode())
    return record.model_dump(mode="json")
