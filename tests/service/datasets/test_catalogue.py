"""Datasets of a store: whole or absent if a process dies, and limited."""

import asyncio
import io
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
import structlog
from tests.support.cases import for_each
from tests.support.processes import READER, processes
from tests.support.waiting import DEADLINE_SECONDS, eventually_async

from manylabel_core.datasets import Dataset, read_libsvm
from manylabel_service import ulid as ulids
from manylabel_service.datasets import dataset_store as catalogue_module
from manylabel_service.datasets import sandbox as helper
from manylabel_service.datasets.dataset_store import KIND, DatasetStore
from manylabel_service.datasets.records import DatasetDocument
from manylabel_service.errors import (
    DatasetExists,
    DatasetInUse,
    DatasetNotFound,
    DocumentNewer,
    InvalidDataset,
    LimitExceeded,
    ServiceError,
    StorageFull,
    StorageUnavailable,
)
from manylabel_service.storage import Store, pieces_of
from manylabel_service.storage.blob_collection import ORPHANED_SECONDS

SONGS = b"1,2 1:0.5 3:2\n2 2:1\n3 1:1\n"
Catalogue = Callable[..., DatasetStore]


def file_of(datasets: DatasetStore, data: bytes) -> IO[bytes]:
    file = datasets.scratch_file()
    file.write(data)
    return file


async def add(
    datasets: DatasetStore, name: str = "songs", data: bytes = SONGS, format: str = "libsvm", **more: Any
) -> Any:
    with file_of(datasets, data) as file:
        return await datasets.add(name, file, format, **more)


async def unused(name: str) -> bool:
    return False


def readers() -> set[int]:
    """Return the child processes that read files."""
    return processes(READER, ancestor=os.getpid())


async def blobs(store: Store) -> int:
    return len(await store.blobs.keys())


async def test_a_dataset_is_listed_fetched_and_deleted(store: Store, catalogue: Catalogue, tmp_path: Path) -> None:
    datasets = catalogue(store)
    record = await add(datasets, options={"train_rows": 2})
    assert (record.name, record.format, record.rows, record.features, record.labels) == ("songs", "libsvm", 3, 3, 3)
    assert (record.views, record.splits) == ({"x": 3}, {"train": 2, "test": 1})
    assert await add(datasets, "early", b"a 1:1\n")
    assert [one.name for one in (await datasets.listed())[0]] == ["early", "songs"]
    assert await datasets.get("songs") == record
    details = await datasets.details("songs")
    report = details.pop("report")
    assert (report["rows"], report["labels"], report["warnings"]) == (3, {"1": 1, "2": 2, "3": 1}, [])
    assert details == {"label_names": ["1", "2", "3"], "label_counts": [1, 2, 1], "unlabelled": 0}
    assert await datasets.fetch("songs", tmp_path / "fetched") == record
    fetched = Dataset.from_bytes((tmp_path / "fetched").read_bytes())
    fetched.splits.clear()
    assert fetched.to_bytes() == read_libsvm(io.BytesIO(SONGS)).to_bytes()
    assert (tmp_path / "fetched").stat().st_size == record.bytes
    await datasets.delete("songs", unused)
    for call in (datasets.get, datasets.details, datasets.delete, lambda name: datasets.fetch(name, tmp_path / "x")):
        with pytest.raises(DatasetNotFound, match="'songs'"):
            await call("songs")
    assert [one.name for one in (await datasets.listed())[0]] == ["early"]
    assert await blobs(store) == 2
    assert await add(datasets) is not None


async def test_only_one_of_concurrent_uploads_gets_a_name(store: Store, catalogue: Catalogue) -> None:
    several = [catalogue(store), catalogue(store)]  # like two servers on one store
    outcomes = await asyncio.gather(*(add(datasets) for datasets in several), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["DatasetExists", "DatasetMeta"]
    assert await blobs(store) == 2, "of the one that lost nothing is left"
    with pytest.raises(DatasetExists, match="'songs' exists"):
        await add(several[0])


async def test_the_number_of_datasets_is_limited(sqlite_store: Store, catalogue: Catalogue) -> None:
    datasets = catalogue(sqlite_store, max_datasets=1)
    await add(datasets)
    with pytest.raises(LimitExceeded, match="the number of datasets would reach 2, above the limit of 1"):
        await add(datasets, "more")
    with pytest.raises(DatasetExists):  # says more than that there are too many
        await add(datasets)


async def test_nothing_of_a_bad_file_is_stored(sqlite_store: Store, catalogue: Catalogue) -> None:
    datasets = catalogue(sqlite_store)
    with pytest.raises(InvalidDataset, match="the dataset cannot be read: line 2: 'x' is not feature:number"):
        await add(datasets, data=b"1 1:1\n1 x\n")
    assert ((await datasets.listed())[0], await blobs(sqlite_store)) == ([], 0)
    await add(datasets)


async def test_limits_of_the_server_hold_for_datasets(sqlite_store: Store, catalogue: Catalogue) -> None:
    many = b"".join(b"%d %d:1\n" % (i, i) for i in range(1, 200))
    for limits, message in (
        ({"max_labels": 100}, "101 labels; at most 100 are allowed"),
        ({"max_dataset_features": 100}, "feature '101' must be a number from 0 to 100"),
        ({"max_dataset_bytes": 1_000}, "bytes; at most 1,000 are allowed|nonzeros; at most 250 are allowed"),
    ):
        with pytest.raises(InvalidDataset, match=message):
            await add(catalogue(sqlite_store, **limits), data=many)


# -- deleting ---------------------------------------------------------------------------------------------------------


async def test_a_dataset_in_use_is_not_deleted(store: Store, catalogue: Catalogue) -> None:
    datasets = catalogue(store)
    record = await add(datasets)
    seen: list[type[BaseException] | None] = []

    async def used(name: str) -> bool:
        try:  # a job that is written before this is asked, and looks only now, does not find it
            await datasets.get(name)
        except ServiceError as error:
            seen.append(type(error))
        return True

    with pytest.raises(DatasetInUse, match="a job needs the dataset 'songs'"):
        await datasets.delete("songs", used)
    assert seen == [DatasetNotFound]
    assert await datasets.get("songs") == record
    assert await blobs(store) == 2


async def test_a_dataset_stays_if_its_use_is_unknown(sqlite_store: Store, catalogue: Catalogue) -> None:
    datasets = catalogue(sqlite_store)
    record = await add(datasets)

    async def fails(name: str) -> bool:
        raise StorageUnavailable("no connection", heals=True)

    asked = asyncio.Event()

    async def hangs(name: str) -> bool:
        asked.set()
        return await asyncio.Event().wait()

    with pytest.raises(StorageUnavailable):
        await datasets.delete("songs", fails)
    deleting = asyncio.create_task(datasets.delete("songs", hangs))
    await asked.wait()
    deleting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deleting
    assert await datasets.get("songs") == record


async def test_an_interrupted_deletion_leaves_the_name_free(store: Store, catalogue: Catalogue) -> None:
    datasets = catalogue(store)
    await add(datasets)
    document = await store.documents.get(KIND, "songs")
    assert document is not None
    marked = DatasetDocument.model_validate_json(document.value).model_copy(update={"deleting": True})
    await store.documents.put(KIND, "songs", marked.model_dump_json().encode(), revision=document.revision)
    assert (await datasets.listed())[0] == []
    with pytest.raises(DatasetNotFound):
        await datasets.get("songs")
    await add(datasets, data=b"a 1:1\n")
    assert (await datasets.get("songs")).rows == 1


@pytest.mark.parametrize(("age_seconds", "left"), [(int(ORPHANED_SECONDS) + 100, 2), (26 * 3_600, 4)])
async def test_old_blobs_without_a_dataset_are_deleted(
    sqlite_store: Store, catalogue: Catalogue, age_seconds: int, left: int
) -> None:
    made_ms = time.time_ns() // 1_000_000 - 1_000 * age_seconds
    id = ulids.make(made_ms, bytes(10))
    for key in (f"datasets/{id}/data", f"datasets/{id}/details", "others/x"):
        await sqlite_store.blobs.put(key, pieces_of(b"x"))
    await add(catalogue(sqlite_store))
    assert len(await sqlite_store.blobs.keys("datasets/")) == left
    assert await sqlite_store.blobs.keys("others/") == ["others/x"]


# -- the process that reads -------------------------------------------------------------------------------------------

SLOW = b"a 1:1\n" * 2_000_000
"""A file that takes some seconds to read."""


async def test_the_memory_of_a_reader_is_limited(
    sqlite_store: Store, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_module, "BASE_BYTES", 2**24)
    wide = b'{"x": {%s}, "y": ["a"]}\n' % b", ".join(b'"feature %d": 1' % i for i in range(450_000))
    with pytest.raises(InvalidDataset, match="more memory"):
        await add(catalogue(sqlite_store, max_dataset_bytes=2**22), data=wide, format="ndjson")
    assert await blobs(sqlite_store) == 0


async def test_a_killed_reader_leaves_nothing(sqlite_store: Store, catalogue: Catalogue) -> None:
    datasets = catalogue(sqlite_store)
    adding = asyncio.create_task(add(datasets, data=SLOW))
    await eventually_async(readers)
    os.kill(min(readers()), signal.SIGKILL)
    with pytest.raises(InvalidDataset, match="the parsing process ended with -9"):
        await adding
    assert ((await datasets.listed())[0], await blobs(sqlite_store)) == ([], 0)
    await add(datasets)


async def test_a_reader_ends_with_its_upload(sqlite_store: Store, catalogue: Catalogue) -> None:
    adding = asyncio.create_task(add(catalogue(sqlite_store), data=SLOW))
    await eventually_async(readers)
    os.kill(min(readers()), signal.SIGSTOP)  # of itself it would never end now
    adding.cancel()
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(asyncio.CancelledError):
            await adding
    assert readers() == set()
    assert await blobs(sqlite_store) == 0


async def test_the_time_of_a_reader_is_limited(
    sqlite_store: Store, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper, "WORK_SECONDS", 0.05)
    with pytest.raises(InvalidDataset, match=r"parsing took longer than 0.05 s"):
        await add(catalogue(sqlite_store), data=SLOW)
    assert readers() == set()


async def test_a_full_disk_ends_the_reader(
    sqlite_store: Store, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = catalogue(sqlite_store)

    async def run_with_little_room(*arguments: Any, **limits: Any) -> dict[str, Any]:
        return await helper.run(*arguments, **{**limits, "file_bytes": 1_000})

    monkeypatch.setattr(catalogue_module, "run", run_with_little_room)
    with pytest.raises(StorageFull, match="the disk of the data directory is full"):
        await add(datasets, data=b"".join(b"a %d:1\n" % i for i in range(1, 1_000)))
    assert ((await datasets.listed())[0], await blobs(sqlite_store)) == ([], 0)


async def test_a_full_store_keeps_nothing(
    sqlite_store: Store, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored, whichever of the three writes fails."""
    for name, n_before in (("blobs", 0), ("blobs", 1), ("documents", 0)):
        datasets = catalogue(_Full(sqlite_store, name, n_before))
        with pytest.raises(StorageFull):
            await add(datasets)
        assert ((await datasets.listed())[0], await blobs(sqlite_store)) == ([], 0), (name, n_before)


class _Full:
    """A store with a part that is full after that number of `put`."""

    def __init__(self, store: Store, part: str, n_before: int) -> None:
        self._store, self._part, self._n_left = store, part, n_before

    def __getattr__(self, part: str) -> Any:
        found = getattr(self._store, part)
        return found if part != self._part else _Counting(found, self)

    def take(self) -> None:
        self._n_left -= 1
        if self._n_left < 0:
            raise StorageFull("there is no space left")


class _Counting:
    def __init__(self, part: Any, full: _Full) -> None:
        self._found, self._full = part, full

    def __getattr__(self, name: str) -> Any:
        if name == "put":
            self._full.take()
        return getattr(self._found, name)


@for_each(
    ("how", "raises", "words"),
    [
        ("bad", InvalidDataset, "the third row is wrong"),
        ("memory", InvalidDataset, "more memory"),
        ("time", InvalidDataset, "more memory or time"),
        ("defect", helper.ReaderFailed, "failed"),
        ("crash", helper.ReaderFailed, "failed"),
    ],
)
async def test_the_end_of_a_reader_is_reported(how: str, raises: type[Exception], words: str) -> None:
    with structlog.testing.capture_logs() as lines, pytest.raises(raises, match=words) as caught:
        await helper.run("tests.service.datasets.broken_reader", {"how": how}, [], memory_bytes=2**28, file_bytes=2**20)
    assert "Traceback" not in str(caught.value)
    told = [line for line in lines if line["event"] == "dataset_reader_failed"]
    assert len(told) == (raises is helper.ReaderFailed)
    assert how != "defect" or "nobody foresaw this" in told[0]["tail"]


async def test_a_damaged_dataset_can_be_deleted_and_a_newer_one_cannot(store: Store, catalogue: Catalogue) -> None:
    await store.documents.put(KIND, "damaged", b"???", revision=None)
    await store.documents.put(KIND, "newer", b'{"format": 2, "release": "9.9"}', revision=None)
    datasets = catalogue(store)
    assert await datasets.listed() == ([], ["damaged"])
    await datasets.delete("damaged")
    with pytest.raises(DocumentNewer):
        await datasets.delete("newer")
    assert set(await store.documents.revisions(KIND)) == {"newer"}
