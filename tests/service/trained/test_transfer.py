"""Models of both kinds, versions and datasets between stores: all that they are, or nothing of what is not whole."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.trained.conftest import meta
from tests.support.forked_server import finished

from manylabel_core.records import TextSettings
from manylabel_service.access.key import new_key
from manylabel_service.access.key_store import KeyStore
from manylabel_service.datasets.dataset_store import DatasetStore
from manylabel_service.errors import DatasetExists, LimitExceeded, ModelExists, ModelNotFound
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.prediction_store import NO_FEATURES
from manylabel_service.online.snapshots.reader import SnapshotReader
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import TrainedSpec, read_spec
from manylabel_service.online.state.apply import ApplyBatch, LogEntry
from manylabel_service.online.state.log_entries import ServedBy, Update, encode
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.updates.replay import LogReplayer
from manylabel_service.settings import Settings
from manylabel_service.storage import Address, SQLiteStore, Store
from manylabel_service.storage.redis import RedisStore
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.predictor import read_estimator
from manylabel_service.trained.publishing import publish
from manylabel_service.trained.version_store import VersionStore
from manylabel_service.transfer.archive import ArchiveReader, ArchiveWriter, BadArchive
from manylabel_service.transfer.exporting import Selection, export
from manylabel_service.transfer.importing import BadContents, load
from manylabel_service.transfer.keys import NeedsKey

ALL = Selection()
TEXT = TextSettings(fields=("title",), ngrams=(1, 2))


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "settings")


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], Store]:
    return lambda name: SQLiteStore(tmp_path / name)


async def fill(store: Store, settings: Settings, one: Any, two: Any) -> OnlineModel:
    """Two versions of model `m`, the second of records, of which the first is served and one between was deleted;
    `tags`, which learns; a dataset of records. Returns the state of `tags`."""
    read = two._replace(contents=replace(ModelArtifact.from_bytes(two.contents), text=TEXT).to_bytes())
    for job, version, promote in (("job-1", one, "always"), ("job-x", two, "never"), ("job-2", read, "never")):
        await publish(store, settings, "m", version.contents, meta(job), promote=promote)
    record = await store.models.find("m")
    assert record is not None
    await VersionStore(record, store).delete(2)
    watched = OnlineModel(TrainedSpec(name="m"))
    for n, id in enumerate(("01KAHZY4T00000000000000000", "01KAHZY4T00000000000000001")):
        told = Example(NO_FEATURES, Labels.all_of([f"l{n}"]))
        by = (ServedBy(2 - n, ("l0", "l1")),)
        late = Update((told,), "log", prediction_ids=(id,), served=(np.array([1.0, -1.0]),), answered=by)
        (entry,) = await store.logs.append(record, [encode(late)], watched.position, "log")
        ApplyBatch(watched, [LogEntry(entry.position, late)]).step(10)
    spec = ModelSpec.model_validate({"name": "tags", "algorithm": "falt", "scaling": "unit"})
    record = await store.models.create("tags", spec.to_bytes())
    model = OnlineModel(spec)
    for i in range(20):
        x = Features((f"w{i % 5}", "b"), None, one.X[0, :2])
        update = Update((Example(x, Labels.all_of([f"l{i % 3}"])),), "log")
        (entry,) = await store.logs.append(record, [encode(update)], model.position, "log")
        ApplyBatch(model, [LogEntry(entry.position, update)]).step(10)
    datasets = DatasetStore(store, settings)
    with datasets.scratch_file() as file:
        file.write(
            b'{"title": "a song", "l": ["1", "2"]}\n{"title": "of words", "l": ["2"]}\n{"n": 1, "l": ["3"], "w": 2}\n'
        )
        options = {"tags": "l", "text": TEXT.to_json(), "train_rows": 2, "weight": "w"}
        with datasets.scratch_file() as details:
            details.write(b'{"2": {"title": "Two"}}')
            added = await datasets.add("songs", file, "ndjson", options, {"label_details": details})
        assert added.text is not None
        assert added.weighted
    return model


async def exported(store: Store, settings: Settings, path: Path, selection: Selection = ALL) -> dict[str, int]:
    return await export(store, settings, ArchiveWriter(path, False), selection)


async def imported(
    store: Store, settings: Settings, path: Path, overwrite: bool = False, selection: Selection = ALL
) -> dict[str, int]:
    return await load(store, settings, ArchiveReader(path), selection, overwrite)


async def contents(store: Store, settings: Settings, tmp_path: Path) -> dict[str, Any]:
    """All that a store has that is moved, in a form that can be compared."""
    found: dict[str, Any] = {}
    for record in await store.models.all():
        if record.name == "tags":
            spec = ModelSpec.from_bytes(record.spec)
            model = (await LogReplayer(record, spec, store, SnapshotReader(record, store)).restored()).model
            found["tags"] = bytes(model.seed("tags"))
            continue
        replayer = LogReplayer(record, read_spec(record.spec), store, SnapshotReader(record, store))
        answers = (await replayer.restored()).model.answers
        assert answers is not None
        found["measured"] = {version: answers[version].measures() for version in answers}
        assert len(found["measured"]) == 2
        versions = VersionStore(record, store)
        catalogue = await versions.read()
        found[record.name] = (catalogue.served, catalogue.last, dict(catalogue.jobs) | {"job-x": 2})
        for number, listed in catalogue.versions.items():
            version = await versions.version(listed)
            found[f"{record.name}/{number}"] = (version.meta, await versions.artifact(version))
    datasets = DatasetStore(store, settings)
    for each in await datasets.list():
        await datasets.fetch(each.name, tmp_path / "rows")
        found[f"data {each.name}"] = (each, (tmp_path / "rows").read_bytes(), await datasets.details(each.name))
    return found


@pytest.mark.parametrize("name", ["archive.zip", "archive"])
async def test_from_sqlite_to_redis_and_back(
    place: Callable[[str], Store], settings: Settings, shared_redis: Any, one: Any, two: Any, tmp_path: Path, name: str
) -> None:
    counts = {"models": 2, "versions": 2, "datasets": 1, "keys": 0}
    async with opened(place("first")) as store:
        await fill(store, settings, one, two)
        before = await contents(store, settings, tmp_path)
        assert await exported(store, settings, tmp_path / name) == counts
    async with opened(RedisStore(Address.parse(shared_redis()))) as store:
        assert await imported(store, settings, tmp_path / name) == counts
        assert await contents(store, settings, tmp_path) == before
        assert await exported(store, settings, tmp_path / f"back-{name}") == counts
    async with opened(place("last")) as store:
        await imported(store, settings, tmp_path / f"back-{name}")
        after = await contents(store, settings, tmp_path)
        assert after == before
        assert ModelArtifact.from_bytes(after["m/3"][1]).text == TEXT
        moved = read_estimator(ModelArtifact.from_bytes(after["m/1"][1]).estimator)
        assert moved.threshold_.any()
        np.testing.assert_array_equal(moved.predict(one.X), one.estimator.predict(one.X))
        np.testing.assert_array_equal(moved.predict_proba(one.X), one.estimator.predict_proba(one.X))
        record = await store.models.find("m")
        assert record is not None
        await publish(store, settings, "m", one.contents, meta("job-3"), promote="always")
        assert sorted((await VersionStore(record, store).read()).versions) == [1, 3, 4], "no number is given twice"


async def test_nothing_is_overwritten_unless_told(
    place: Callable[[str], Store], settings: Settings, one: Any, two: Any, tmp_path: Path
) -> None:
    archive = tmp_path / "archive.zip"
    async with opened(place("first")) as store:
        await fill(store, settings, one, two)
        await exported(store, settings, archive)
        with pytest.raises(BadArchive, match="exists"):
            ArchiveWriter(archive, False)
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "precious").touch()
        with pytest.raises(BadArchive, match="something else"):
            ArchiveWriter(tmp_path / "other", True)
        before = await contents(store, settings, tmp_path)
        with pytest.raises(ModelExists):
            await imported(store, settings, archive)
        with pytest.raises(DatasetExists):
            await imported(store, settings, archive, selection=Selection((), None))
        assert await contents(store, settings, tmp_path) == before
        await publish(store, settings, "m", one.contents, meta("job-9"), promote="always")
        await imported(store, settings, archive, overwrite=True)
        assert await contents(store, settings, tmp_path) == before
        await export(store, settings, ArchiveWriter(archive, True), ALL)
        with pytest.raises(ModelNotFound):
            await export(store, settings, ArchiveWriter(archive, True), Selection(("nobody",), ()))


async def test_parts_can_be_chosen(
    place: Callable[[str], Store], settings: Settings, one: Any, two: Any, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    async with opened(place("first")) as store:
        await fill(store, settings, one, two)
        assert (await exported(store, settings, archive, Selection(("tags",), None)))["versions"] == 0
    async with opened(place("last")) as store:
        assert await imported(store, settings, archive, selection=Selection((), ("songs",))) == {
            "models": 0,
            "versions": 0,
            "datasets": 1,
            "keys": 0,
        }
        with pytest.raises(BadContents, match="has no model 'm'"):
            await imported(store, settings, archive, selection=Selection(("m",), ()))
        limited = settings.model_copy(update={"max_model_bytes": 1_000})
        with pytest.raises(LimitExceeded):
            await imported(store, limited, archive, selection=Selection(("tags",), ()))
        assert await store.models.all() == []


async def test_what_is_damaged_or_hostile_is_refused_and_nothing_stored(
    place: Callable[[str], Store], settings: Settings, one: Any, two: Any, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    async with opened(place("first")) as store:
        await fill(store, settings, one, two)
        await exported(store, settings, archive)
    files = sorted(path for path in archive.rglob("*") if path.is_file() and path.name != "manifest.json")
    assert len(files) == 8
    async with opened(place("last")) as store:
        for file in files:
            whole = file.read_bytes()
            for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-1], whole + b"x"):
                file.write_bytes(damaged)
                with pytest.raises(BadArchive, match="does not match its checksum"):
                    await imported(store, settings, archive)
            file.unlink()
            with pytest.raises(BadArchive, match="cannot be read"):
                await imported(store, settings, archive)
            file.symlink_to("/etc/hostname")
            with pytest.raises(BadArchive, match="no plain file"):
                await imported(store, settings, archive)
            file.unlink()
            file.write_bytes(whole)
        manifest = archive / "manifest.json"
        told = json.loads(manifest.read_text())

        def hostile(change: Callable[[dict[str, Any]], object]) -> None:
            changed = json.loads(manifest_text)
            change(changed)
            manifest.write_text(json.dumps(changed))

        manifest_text = manifest.read_text()
        changes: list[Callable[[dict[str, Any]], object]] = [
            lambda m: m.update(format="other"),
            lambda m: m.update(version=2),
            lambda m: m.pop("models"),
            lambda m: m.pop("keyed"),
            lambda m: m["files"].update({"../outside": {"bytes": 1, "sha256": ""}}),
            lambda m: m["models"][0].update(name="../m"),
            lambda m: m["models"][0].update(kind="pickle"),
            lambda m: m["models"][0].update(served=9),
            lambda m: m["models"][0].update(versions=[3, 1]),
            lambda m: m["models"][0].update(versions=["x"]),
            lambda m: m["models"][1].update(kind="trained", versions=[1], served=1, last=1),
            lambda m: m["datasets"][0].update(rows=9),
            lambda m: m["datasets"][0].update(name="m"),
            lambda m: m["datasets"][0].update(text=None),
            lambda m: m["datasets"][0].update(weighted=False),
            lambda m: m["datasets"][0]["text"].update(ngrams=[1, 1]),
            lambda m: m["datasets"][0]["text"].update(tokeniser=2),
        ]
        for change in changes:
            hostile(change)
            with pytest.raises((BadArchive, BadContents)):
                await imported(store, settings, archive, overwrite=True)
        assert [model["name"] for model in told["models"]] == ["m", "tags"]
        manifest.write_text("[]")
        with pytest.raises(BadArchive, match="not one of ManyLabel"):
            await imported(store, settings, archive)
        manifest.write_text(manifest_text)
        await imported(store, settings, archive, overwrite=True)
    compressed = tmp_path / "compressed.zip"
    with zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as file:
        for path in [manifest, *files]:
            file.write(path, path.relative_to(archive).as_posix())
    with pytest.raises(BadArchive, match="compressed"):
        ArchiveReader(compressed)


def archive_of(path: Path, name: str = "models/m/state.safetensors") -> Path:
    writer = ArchiveWriter(path, False)
    writer.add(name, b"x")
    writer.finish({"models": [], "datasets": []})
    return path


async def with_keys(store: Store, count: int = 2) -> dict[str, bytes]:
    """Keys in a store, one of them revoked; as the store has them."""
    keys = KeyStore(store.documents, 100)
    for n in range(count):
        key = new_key(f"key {n}", ("admin",), expires_unix_ms=4 * 10**12)[0]
        await keys.add(key.model_copy(update={"revoked_unix_ms": 1} if n == 1 else {}))
    return await keys_of(store)


async def keys_of(store: Store) -> dict[str, bytes]:
    return {each.name: each.value for each in await store.documents.all("key")}


@pytest.mark.parametrize("name", ["a", "a.zip"])
async def test_keys_move_to_a_store_without_keys(
    place: Callable[[str], Store], settings: Settings, shared_redis: Any, tmp_path: Path, name: str
) -> None:
    async with opened(place("first")) as store:
        keys = await with_keys(store)
        assert (await exported(store, settings, tmp_path / name))["keys"] == 2
    async with opened(RedisStore(Address.parse(shared_redis()))) as store:
        assert (await imported(store, settings, tmp_path / name))["keys"] == 2
        assert await keys_of(store) == keys
    async with opened(place("last")) as store:
        own = await with_keys(store, 1)
        assert (await imported(store, settings, tmp_path / name))["keys"] == 0
        assert await keys_of(store) == own, "a store that has keys gets no other"


async def test_what_was_closed_is_never_imported_into_an_open_store(
    place: Callable[[str], Store], settings: Settings, one: Any, two: Any, tmp_path: Path
) -> None:
    async with opened(place("first")) as store:
        await fill(store, settings, one, two)
        keys = await with_keys(store)
        await exported(store, settings, tmp_path / "whole")
        await exported(store, settings, tmp_path / "part", Selection(("tags",), (), keys=False))
    assert not list((tmp_path / "part").rglob("keys*")), "a model that is handed on brings no key"
    async with opened(place("open")) as store:
        for archive, selection in (("part", ALL), ("whole", Selection(keys=False))):
            with pytest.raises(NeedsKey):
                await imported(store, settings, tmp_path / archive, selection=selection)
            assert await store.models.all() == []
        part = await imported(store, settings, tmp_path / "whole", selection=Selection(("tags",), ()))
        assert (part["models"], part["keys"], await keys_of(store)) == (1, 2, keys)
    async with opened(place("keyed")) as store:
        own = await with_keys(store, 1)
        assert (await imported(store, settings, tmp_path / "part"))["models"] == 1
        assert await keys_of(store) == own


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../../other"},
        {"digest": "zz"},
        {"digest": "00"},
        {"expires_unix_ms": 10**18},
        {"created_unix_ms": -1},
        {"models": ["**"]},
        {"models": []},
        {"scopes": ["root"]},
        {"name": ""},
        {"name": "x" * 257},
        {"more": 1},
    ],
    ids=str,
)
async def test_a_key_that_is_none_is_refused(
    place: Callable[[str], Store], settings: Settings, tmp_path: Path, change: dict[str, Any]
) -> None:
    key = new_key("x", ("admin",))[0].model_dump(mode="json") | change
    writer = ArchiveWriter(tmp_path / "a", False)
    writer.add("access/keys.json", json.dumps([key]).encode())
    writer.finish({"models": [], "datasets": [], "keyed": True})
    async with opened(place("last")) as store:
        with pytest.raises(BadContents):
            await imported(store, settings, tmp_path / "a")
        assert await keys_of(store) == {}


@pytest.mark.parametrize("size", ["Infinity", "1e999", "NaN", "-1", "1.5", '"1"', "null", "true"])
def test_a_size_that_is_no_number_of_bytes_is_refused(tmp_path: Path, size: str) -> None:
    manifest = archive_of(tmp_path / "a") / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"bytes": 1', f'"bytes": {size}'))
    with pytest.raises(BadArchive):
        ArchiveReader(tmp_path / "a")


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a")
    (archive / "models").rename(tmp_path / "outside")
    (archive / "models").symlink_to(tmp_path / "outside")
    with pytest.raises(BadArchive):
        ArchiveReader(archive).check()
    (tmp_path / "link").symlink_to(archive_of(tmp_path / "b"))
    ArchiveReader(tmp_path / "link").check()  # the path that the caller has given may be a link


@pytest.mark.parametrize("name", ["a", "a.zip"])
def test_an_export_deletes_nothing_that_it_has_not_made(tmp_path: Path, name: str) -> None:
    beside = [tmp_path / f"{name}.new", tmp_path / f".{name}.new"]
    for each in beside:
        each.mkdir()
        (each / "precious").touch()
    archive_of(tmp_path / name)
    ArchiveWriter(tmp_path / name, True).give_up()
    assert all((each / "precious").exists() for each in beside)
    assert sorted(tmp_path.iterdir()) == sorted([*beside, tmp_path / name])


@pytest.mark.parametrize("other", ["notes.txt", "models/m/notes.txt"])
def test_a_directory_with_other_files_is_not_replaced(tmp_path: Path, other: str) -> None:
    (archive_of(tmp_path / "a") / other).touch()
    with pytest.raises(BadArchive):
        ArchiveWriter(tmp_path / "a", True)
    (tmp_path / "a" / other).unlink()
    late = ArchiveWriter(tmp_path / "a", True)
    (tmp_path / "a" / other).touch()
    with pytest.raises(BadArchive):
        late.finish({"models": [], "datasets": []})
    late.give_up()
    assert (tmp_path / "a" / other).exists()


@pytest.mark.parametrize("name", ["a", "a.zip"])
def test_an_archive_is_for_its_owner_alone(tmp_path: Path, name: str) -> None:
    before = os.umask(0)
    try:
        archive = archive_of(tmp_path / name)
    finally:
        os.umask(before)
    assert stat.S_IMODE(archive.stat().st_mode) == (0o700 if archive.is_dir() else 0o600)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command itself."""
    command = [str(Path(sys.executable).with_name("manylabel")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def transfer(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the program that the command runs."""
    return finished("manylabel_service.transfer", *arguments)


def test_the_command(tmp_path: Path, settings: Settings, one: Any, two: Any, shared_redis: Any) -> None:
    async def filled() -> bytes:
        async with opened(SQLiteStore(tmp_path / "data")) as store:
            return bytes((await fill(store, settings, one, two)).seed("tags"))

    before = asyncio.run(filled())
    archive = str(tmp_path / "all.zip")
    done = run("export", archive, "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout == f"exported 2 models, 2 versions and 1 dataset to {archive}\n"
    nowhere = transfer("export", str(tmp_path / "none.zip"), "--data-dir", str(tmp_path / "dta"))
    assert (nowhere.returncode, (tmp_path / "dta").exists()) == (1, False)
    assert f"there is no store in {tmp_path / 'dta'}" in nowhere.stderr
    again = transfer("export", archive, "--data-dir", str(tmp_path / "data"))
    assert (again.returncode, "it exists" in again.stderr) == (1, True)
    to = ("--store", shared_redis(), "--data-dir", str(tmp_path / "scratch"))
    assert transfer("import", archive, "--model", "tags", *to).returncode == 0
    assert not (tmp_path / "scratch").exists()
    taken = transfer("import", archive, *to)
    assert (taken.returncode, taken.stderr.rstrip().endswith("or say --overwrite")) == (1, True), taken
    assert transfer("import", archive, "--overwrite", *to).returncode == 0
    assert not (tmp_path / "scratch").exists(), "a store that is elsewhere needs no data directory"
    assert run("import", "--help").stdout.count("--overwrite") >= 1
    assert transfer("import").returncode == 2

    async def found() -> bytes:
        async with opened(RedisStore(Address.parse(to[1]))) as store:
            record = await store.models.find("tags")
            assert record is not None
            return bytes((await SnapshotReader(record, store).load("1")).seed("tags"))

    assert asyncio.run(found()) == before


def test_an_archive_is_plain(tmp_path: Path) -> None:
    """What it has can be read without ManyLabel: JSON, and safetensors."""
    writer = ArchiveWriter(tmp_path / "a.zip", False)
    writer.add("models/m/state.safetensors", b"x")
    assert not (tmp_path / "a.zip").exists(), "before all of it is there"
    writer.finish({"models": [], "datasets": []})
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        assert file.namelist() == ["models/m/state.safetensors", "manifest.json"]
        assert json.loads(file.read("manifest.json"))["files"]["models/m/state.safetensors"]["bytes"] == 1
    assert ArchiveReader(tmp_path / "a.zip").read("models/m/state.safetensors") == b"x"
