"""The datasets of a store: a document for each, and its bytes as a blob.

Blobs are written first, under a unique id; a dataset exists as soon as its document exists. The next upload removes
blobs of uploads whose process died before it wrote the document.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import structlog

from manylabel_core.datasets import ReaderLimits
from manylabel_service import ulid
from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.datasets.records import PREFIX, DatasetDocument, DatasetMeta, Details, id_of
from manylabel_service.datasets.sandbox import BASE_BYTES, run, scratch_file
from manylabel_service.datasets.upload_slots import UploadSlots
from manylabel_service.errors import (
    BlobNotFound,
    DatasetExists,
    DatasetInUse,
    DatasetNotFound,
    DocumentDamaged,
    DocumentNewer,
    LimitExceeded,
    RevisionConflict,
    StorageError,
    StorageFull,
)
from manylabel_service.settings import Settings
from manylabel_service.storage import (
    UNREADABLE,
    Collection,
    Store,
    blob_bytes,
    blob_to_file,
    intact,
    open_in_thread,
    pieces_of,
)
from manylabel_service.storage.blob_collection import is_old

KIND = "datasets"
PIECE_BYTES = 2**22

UPLOADS = 4
"""Maximum disk space of uploads in progress, as a multiple of the maximum size of a dataset, plus one snapshot of a
model."""

COPIES = 6
"""Number of copies of a dataset in the memory of the process that reads it: parsed, sorted, and serialised."""


log = structlog.get_logger()

InUse = Callable[[str], Awaitable[bool]]
"""Function that returns whether an unfinished job needs the dataset of a name."""


class DatasetStore:
    """Adds, lists, fetches and deletes datasets; all methods raise `StorageUnavailable`.

    Parameters
    ----------
    store : store of the datasets.
    settings : limits, and the directory for uploads.

    Attributes
    ----------
    uploads : quota of running uploads on the disk, including uploaded snapshots.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._documents = Collection(store.documents, KIND, DatasetDocument)
        self._settings = settings
        self.uploads = UploadSlots(UPLOADS * settings.max_dataset_bytes + settings.max_model_bytes)
        self._reading = asyncio.Semaphore(1)  # two readers at once would need twice the memory and finish no earlier

    def scratch_file(self) -> IO[bytes]:
        """Open an unnamed file for an upload, so that nothing is left behind. Raises OSError."""
        return scratch_file(self._settings.data_dir)

    async def check_free(self, name: str) -> None:
        """Reject a name that is taken, or a dataset above the limit, before the upload. Raises DatasetExists or
        LimitExceeded."""
        found = await self._documents.all()
        stored = found.get(name)
        if stored is not None and (isinstance(stored, UNREADABLE) or not stored.deleting):
            raise DatasetExists(name)
        n_others = len(found.keys() - {name})
        if n_others >= self._settings.limits.max_datasets:
            raise LimitExceeded("the number of datasets", n_others + 1, self._settings.limits.max_datasets)

    async def add(
        self,
        name: str,
        upload: IO[bytes],
        format: str,
        options: Mapping[str, Any] | None = None,
        parts: Mapping[str, IO[bytes]] = MappingProxyType({}),
    ) -> DatasetMeta:
        """Parse a file and store it as a dataset. Raises InvalidDataset, DatasetExists, LimitExceeded or StorageFull.

        Parameters
        ----------
        name : name of the dataset, validated by the caller.
        upload : file from `scratch_file`.
        format : one of `manylabel_core.datasets.FORMATS`.
        options : options of the reader, and ``train_rows``, the number of first rows in the split "train" (the others
            are "test").
        parts : additional files: "labels", the Mulan XML of an ARFF file; "label_details", titles, descriptions and
            URIs of labels as JSON.
        """
        await self.check_free(name)
        with await open_in_thread(self.scratch_file) as result:
            report = await self._read(upload, result, format, options or {}, parts)
            record = DatasetMeta(name=name, format=format, created=rfc3339(now_ms()), **report["record"])
            await self._keep(record, _pieces(result), report["details"])
        log.info("dataset_added", dataset=name, rows=record.rows, bytes=record.bytes)
        with suppress(StorageError):
            await self._collect_garbage()
        return record

    async def restore(self, record: DatasetMeta, data: bytes, details: Details) -> None:
        """Store an unchanged dataset from another store; the caller has validated it. Raises DatasetExists,
        LimitExceeded or StorageFull."""
        await self.check_free(record.name)
        await self._keep(record, pieces_of(data), details)
        log.info("dataset_restored", dataset=record.name, rows=record.rows, bytes=record.bytes)

    async def _read(
        self,
        upload: IO[bytes],
        result: IO[bytes],
        format: str,
        options: Mapping[str, Any],
        parts: Mapping[str, IO[bytes]],
    ) -> dict[str, Any]:
        most = self._settings.max_dataset_bytes
        limits = ReaderLimits(
            features=self._settings.max_dataset_features,
            labels=self._settings.max_labels,
            nonzeros=most // 4,
            bytes=most,
            record=self._settings.record_limits,
        )
        request = {
            "format": format,
            "options": dict(options),
            "parts": list(parts),
            "limits": {name: getattr(limits, name) for name in ("rows", "features", "labels", "nonzeros", "bytes")},
            "record": asdict(limits.record),
        }
        files = [upload, result, *parts.values()]
        async with self._reading:
            return await run(
                "manylabel_service.datasets.read_upload",
                request,
                files,
                memory_bytes=BASE_BYTES + COPIES * most,
                file_bytes=BASE_BYTES + 2 * most,
            )

    async def _keep(self, record: DatasetMeta, rows: AsyncIterable[bytes], details: Details) -> None:
        """Store the blobs first, then the document; `_collect_garbage` removes the remains of a failure."""
        name, stored = record.name, DatasetDocument(id=ulid.new(), record=record)
        try:
            await self._store.blobs.put(stored.data_key, rows)
            await self._store.blobs.put(stored.details_key, pieces_of(json.dumps(details).encode()))
            found = await self._documents.get(name)
            if found is not None and not found.deleting:
                raise DatasetExists(name)
            # A dataset marked as being deleted is overwritten, because the process that deleted it may have died.
            await self._documents.put(name, stored.at(0 if found is None else found.revision))
        except (RevisionConflict, StorageFull, asyncio.CancelledError, DatasetExists) as error:
            await self._remove_blobs(stored)
            if isinstance(error, RevisionConflict):
                raise DatasetExists(name) from None
            raise

    async def get(self, name: str) -> DatasetMeta:
        """Return the metadata of a dataset; raises DatasetNotFound."""
        return (await self._find(name)).record

    async def details(self, name: str) -> Details:
        """Return the label names, the number of rows with each label, and the number of unlabelled rows."""
        stored = await self._find(name)
        try:
            details: Details = json.loads(await blob_bytes(self._store.blobs, stored.details_key))
        except BlobNotFound:
            raise DatasetNotFound(name) from None
        return details

    async def listed(self) -> tuple[Sequence[DatasetMeta], Sequence[str]]:
        """Return all datasets, and the names of damaged ones, by name."""
        records, damaged = [], []
        for name, stored in (await self._documents.all()).items():
            if isinstance(stored, DocumentDamaged):
                log.error("dataset_damaged", dataset=name, action="delete it, or restore it")
                damaged.append(name)
            elif isinstance(stored, DocumentNewer):
                log.error("dataset_unreadable", dataset=name, error=str(stored))
            elif not stored.deleting:
                records.append(stored.record)
        return sorted(records, key=lambda record: record.name), sorted(damaged)

    async def fetch(self, name: str, to: Path) -> DatasetMeta:
        """Write the dataset to a file in the format of `manylabel_core.datasets.Dataset.from_bytes`. Raises
        DatasetNotFound or OSError."""
        stored = await self._find(name)
        try:
            await blob_to_file(self._store.blobs, stored.data_key, to)
        except BlobNotFound:
            raise DatasetNotFound(name) from None
        return stored.record

    async def delete(self, name: str, in_use: InUse | None = None) -> None:
        """Delete a dataset, even a damaged one.

        Raises DatasetNotFound, DatasetInUse or DocumentNewer. The dataset is marked first, then `in_use` is called. A
        job is stored before it checks its dataset for the last time, so either the job sees the mark, or this call sees
        the job.
        """
        if await self._documents.delete_damaged(name):
            return
        stored = await self._find(name)
        try:
            marked = await self._documents.put(name, stored.model_copy(update={"deleting": True}), urgent=True)
        except RevisionConflict:
            raise DatasetNotFound(name) from None  # another process has deleted it
        if in_use is not None and await self._needed(marked, in_use):
            raise DatasetInUse(name)
        if await self._documents.delete(name, marked.revision):
            await self._remove_blobs(stored)
        log.info("dataset_deleted", dataset=name)

    async def _needed(self, marked: DatasetDocument, in_use: InUse) -> bool:
        """Return whether the dataset is in use; if so, or if that cannot be determined, remove the mark."""
        needed = True
        try:
            needed = await in_use(marked.record.name)
        finally:
            if needed:
                with suppress(RevisionConflict):
                    await self._documents.put(marked.record.name, marked.model_copy(update={"deleting": False}))
        return needed

    async def _find(self, name: str) -> DatasetDocument:
        stored = await self._documents.get(name)
        if stored is None or stored.deleting:
            raise DatasetNotFound(name)
        return stored

    async def _remove_blobs(self, stored: DatasetDocument) -> None:
        with suppress(StorageError):  # `_collect_garbage` removes blobs that remain
            for key in (stored.data_key, stored.details_key):
                await self._store.blobs.delete(key)

    async def _collect_garbage(self) -> None:
        """Remove old blobs that no document names."""
        keys = await self._store.blobs.keys(PREFIX)
        if not keys:
            return
        found = await self._documents.all()
        known = intact(found)
        if len(known) < len(found):
            return  # the blobs of an unreadable document are unknown
        ids = {stored.id for stored in known.values()}
        for key in keys:
            if (id := id_of(key)) not in ids and is_old(id):
                await self._store.blobs.delete(key)


async def _pieces(file: IO[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of an open file, read in a thread."""
    file.seek(0)
    while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
        yield piece
