"""Models and datasets are made of an archive, which may come from anybody: all of it is checked before it is used."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pydantic import ValidationError

from manylabel_core.datasets import Dataset
from manylabel_core.state import DamagedState
from manylabel_service import names
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.datasets.records import DatasetMeta
from manylabel_service.errors import DatasetExists, DurabilityUnavailable, ModelExists
from manylabel_service.hosting.size_limits import check_limit
from manylabel_service.online.history.catalogue import CatalogueStore
from manylabel_service.online.size_limits import check_arrays, check_size
from manylabel_service.online.spec.trained import TrainedSpec, is_trained
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings
from manylabel_service.storage import START, ModelMeta, Store
from manylabel_service.trained.predictor import Predictor
from manylabel_service.trained.version import Version, VersionMeta
from manylabel_service.trained.version_store import VersionCatalogue, VersionStore
from manylabel_service.transfer.archive import ArchiveReader
from manylabel_service.transfer.exporting import Selection
from manylabel_service.transfer.files import META, details_of, rows_of, state_of, version_of
from manylabel_service.transfer.keys import NeedsKey, import_keys, missing_keys

_UNREADABLE = (DamagedState, ValidationError, ValueError, KeyError, TypeError, AttributeError, OverflowError)


class BadContents(ValueError):
    """An entry of an archive is not what it says."""


async def load(
    store: Store, settings: Settings, archive: ArchiveReader, selection: Selection, overwrite: bool
) -> dict[str, int]:
    """Make the models and datasets of an archive; return how many of each.

    All files are checked, and all names, before anything is stored. After a later failure, the models and datasets
    made before it stay. A store without keys gets the keys of the archive before anything else: it never serves data
    openly that needed a key before.

    Raises
    ------
    NeedsKey
        It is of a store with keys, and this store would have none.
    BadArchive, BadContents
        It is not what it should be, or does not have what is selected.
    ModelExists, DatasetExists
        A name is taken, and is not to be overwritten.
    LimitExceeded, DurabilityUnavailable, StorageError, OSError
    """
    archive.check()
    try:
        models = _chosen(archive.contents["models"], selection.models, "model")
        datasets = _chosen(archive.contents["datasets"], selection.datasets, "dataset")
        keys = await missing_keys(store.documents, archive, selection.keys, settings.max_keys)
    except NeedsKey:
        raise
    except _UNREADABLE as error:
        raise error if isinstance(error, BadContents) else BadContents(f"the manifest: {error!r}") from error
    importer = _Importer(store, settings, archive)
    await importer.make_way(list(models), list(datasets), overwrite)
    await import_keys(store.documents, keys)
    n_versions = 0
    for name, entry in models.items():
        n_versions += await _told(name, importer.model(entry))
    for name, entry in datasets.items():
        await _told(name, importer.dataset(entry))
    return {"models": len(models), "versions": n_versions, "datasets": len(datasets), "keys": len(keys)}


async def _told(name: str, work: Any) -> Any:
    """Return what some work gives; an error of its contents says of which entry they are."""
    try:
        return await work
    except _UNREADABLE as error:
        raise BadContents(f"{name!r} is not what the archive says: {error}") from error


def _chosen(entries: list[dict[str, Any]], wanted: tuple[str, ...] | None, kind: str) -> dict[str, dict[str, Any]]:
    there = {str(entry["name"]): entry for entry in entries}
    for name in there:
        if not names.valid(name):
            raise BadContents(f"{name!r} is no name of a {kind}")
    for name in wanted or ():
        if name not in there:
            raise BadContents(f"the archive has no {kind} {name!r}")
    return there if wanted is None else {name: there[name] for name in wanted}


class _Importer:
    """Import of models and datasets from the entries of one archive."""

    def __init__(self, store: Store, settings: Settings, archive: ArchiveReader) -> None:
        self._store, self._settings, self._archive = store, settings, archive
        self._datasets = DatasetStore(store, settings)
        self._to_delete: dict[str, ModelMeta] = {}
        self._datasets_to_delete: set[str] = set()

    async def make_way(self, models: list[str], datasets: list[str], overwrite: bool) -> None:
        """Find the models and datasets that already have these names.

        Refuse them, or note them for deletion once their replacements have been checked.
        """
        records = {record.name: record for record in await self._store.models.all()}
        known = {record.name for record in await self._datasets.list()}
        self._to_delete = {name: records[name] for name in models if name in records}
        self._datasets_to_delete = known.intersection(datasets)
        if not overwrite:
            for name in self._to_delete:
                raise ModelExists(name)
            for name in sorted(self._datasets_to_delete):
                raise DatasetExists(name)
        check_limit("the number of models", len(records.keys() | set(models)), self._settings.max_models)
        check_limit("the number of datasets", len(known.union(datasets)), self._settings.max_datasets)

    async def model(self, entry: dict[str, Any]) -> int:
        """Make a model of either kind; return how many versions it has."""
        if entry["kind"] == "trained":
            return await self._trained(entry)
        if entry["kind"] != "online":
            raise BadContents(f"there is no kind of model {entry['kind']!r}")
        await self._online(entry["name"])
        return 0

    async def _online(self, name: str) -> None:
        model, seed = await self._state(name, is_trained=False)
        durability = model.spec.durability
        if durability is not None and durability not in self._store.logs.durabilities:
            raise DurabilityUnavailable(durability, self._store.logs.durabilities)
        check_size(model.online_spec, model, self._settings)
        await self._delete_model(name)
        await self._store.models.create(name, model.spec.to_bytes(), seed)

    async def _state(self, name: str, *, is_trained: bool) -> tuple[OnlineModel, memoryview]:
        """Return a state of the archive, which is not trusted, and the bytes that a new model starts from."""
        data, settings = self._archive.read(state_of(name)), self._settings
        model = await asyncio.to_thread(
            OnlineModel.from_bytes, data, lambda arrays: check_arrays(arrays, settings), False
        )
        if model.spec.name != name or is_trained != (model.answers is not None):
            raise BadContents(f"the state is that of a model {model.spec.name!r}, or of another kind")
        check_limit(f"bytes of model {name!r}", model.nbytes, settings.max_model_bytes)
        return model, await asyncio.to_thread(model.seed, name)

    async def _trained(self, entry: dict[str, Any]) -> int:
        name, numbers = str(entry["name"]), [int(number) for number in entry["versions"]]
        served, last = entry["served"], int(entry["last"])
        if numbers != sorted(set(numbers)) or (numbers and not 0 < numbers[0] <= numbers[-1] <= last):
            raise BadContents("its versions are not numbered as they should be")
        if served is not None and served not in numbers:
            raise BadContents(f"it serves version {served}, which is not there")
        check_limit(f"the number of versions of model {name!r}", len(numbers), self._settings.max_versions)
        for number in numbers:
            await self._version(name, number)  # check that all can predict before anything is stored
        seed = (await self._state(name, is_trained=True))[1] if entry["labelled"] else None
        await self._delete_model(name)
        record = await self._store.models.create(name, TrainedSpec(name=name).to_bytes(), seed)
        versions = VersionStore(record, self._store)
        listed = []
        for number in numbers:
            meta, artifact = await self._version(name, number)
            listed.append((number, meta.job, await versions.put_blobs(meta, artifact), len(artifact)))

        def fill(catalogue: VersionCatalogue) -> bool:
            for number, job, id, size_bytes in listed:
                catalogue.last = number - 1
                catalogue.add(job, id, size_bytes)
            catalogue.last = last
            if served is not None:
                catalogue.promote(served)
            return True

        await versions.change(fill)
        return len(numbers)

    async def _version(self, name: str, number: int) -> tuple[VersionMeta, bytes]:
        meta = META.validate_json(self._archive.read(version_of(name, number, "json")))
        artifact = self._archive.read(version_of(name, number, "safetensors"))
        if not names.valid(meta.job):
            raise BadContents(f"{meta.job!r} is no id of a job")
        check_limit(f"bytes of model {name!r}", len(artifact), self._settings.max_model_bytes)
        await asyncio.to_thread(Predictor, Version(number, START, len(artifact), meta), artifact)
        return meta, artifact

    async def _delete_model(self, name: str) -> None:
        if (record := self._to_delete.pop(name, None)) is None:
            return
        await self._store.models.delete(record)
        await CatalogueStore(record, self._store).delete_all()
        if not record.damaged and is_trained(record.spec):
            await VersionStore(record, self._store).delete_all()

    async def dataset(self, entry: dict[str, Any]) -> None:
        """Make a dataset."""
        record = DatasetMeta.model_validate(entry)
        data, details = (
            self._archive.read(rows_of(record.name)),
            json.loads(self._archive.read(details_of(record.name))),
        )
        check_limit(f"bytes of dataset {record.name!r}", len(data), self._settings.max_dataset_bytes)
        rows = await asyncio.to_thread(Dataset.from_bytes, data)
        found = (rows.n_rows, rows.n_features, rows.n_labels, len(data), rows.weights is not None)
        text = None if record.text is None else record.text.settings()
        told = (record.rows, record.features, record.labels, record.bytes, record.weighted)
        if rows.text != text or found != told:
            raise BadContents("its rows are not those that the manifest describes")
        if not isinstance(details, dict) or details.keys() - {"missing", "label_details"} != {
            "label_names",
            "label_counts",
            "unlabelled",
        }:
            raise BadContents("its details are not those of a dataset")
        if record.name in self._datasets_to_delete:
            await self._datasets.delete(record.name)
        await self._datasets.restore(record, data, details)
