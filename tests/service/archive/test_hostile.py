"""Archives with files that ManyLabel did not write: stray ones are ignored, forged ones are refused by name."""

import base64
import hashlib
import itertools
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.service.archive.origin import Make, Origin, opened, shipper, start_origin, stored_state
from tests.service.fleet import Fleet

from manylabel_core.state import DamagedState
from manylabel_service.archive import layout
from manylabel_service.archive.layout import StoreCatalogue
from manylabel_service.archive.restoring import restore
from manylabel_service.errors import ServiceError
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.settings import Settings
from manylabel_service.storage.places.files import FilePlace
from manylabel_service.storage.places.place import ArchiveError, ObjectDamaged

REFUSED = (ArchiveError, ServiceError, DamagedState, ValueError)
"""Errors that the program reports in one line."""

STRAYS = (
    ".nfs0000000000c0ffee",
    ".DS_Store",
    "0_2~",
    "0_2.swp",
    "._0_2",
    "#0_2#",
    "Thumbs.db",
    "0_2 (copy)",
    "x",
    "1e3_5",
    "desktop.ini",
)


async def archived(place: FilePlace, new_store: Make, **settings: Any) -> Origin:
    """An origin whose model has a log and a state in the archive."""
    origin = await start_origin(new_store("sqlite"), place, **settings)
    await origin.registry.create(Fleet.spec())
    await origin.learn(30)
    await origin.snapshot()
    state = OnlineModel.from_bytes(origin.states["30"])
    state.spec = Fleet.spec("seeded")
    await origin.registry.create(state.spec, state)
    await origin.shipper.ship()
    return origin


async def test_stray_files_are_ignored_and_named_once(place: FilePlace, new_store: Make) -> None:
    origin = await archived(place, new_store)
    folders = [folder for folder in (place._root, *place._root.rglob("*")) if folder.is_dir()]
    store = next(key for key in await place.keys(layout.STORES)).removeprefix(layout.STORES)
    for folder in (place._root / layout.replaced_prefix(store), place._root / layout.NOTES):
        folder.mkdir(exist_ok=True)
        folders.append(folder)
    strays = {folder / name for folder in folders if folder.name != "blobs" for name in STRAYS}
    for path in strays:
        path.write_bytes(b"not an object")
    with capture_logs() as logs:
        for _ in range(3):
            await origin.learn(10)
            assert (await origin.shipper.ship()).objects
        again = shipper(origin.store, place)  # as after a restart of the server
        await again.ship()
    named = [line["file"] for line in logs if line["event"] == "archive_stray_file"]
    assert {place._root / name for name in named} <= strays
    assert len(named) <= 2 * len(set(named))
    assert len(set(named)) > len(strays) / 2
    target = await opened(new_store("sqlite"))
    await restore(place, target, Settings())
    assert await stored_state(target) == list(origin.states.values())[-1]
    assert all(path.read_bytes() == b"not an object" for path in strays)


def _links(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(40 << 30)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # an address of a socket is short
    try:
        with closing(socket.socket(socket.AF_UNIX)) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("make", [_links, _pipe, _sparse, _socket])
async def test_only_regular_files_of_a_reasonable_size_are_read(
    make: Callable[[Path], None], place: FilePlace, new_store: Make
) -> None:
    origin = await archived(place, new_store)
    await origin.fleet.end()
    for kind in ("/log/", "/state/", "/catalogue/", "/stores/"):
        (key, *_) = [key for key in await place.keys("") if kind in f"/{key}"]
        path = place._root / key
        content = path.read_bytes()
        path.unlink()
        make(path)
        with pytest.raises(ObjectDamaged, match=r"regular file|at most"):
            await place.get(key)
        with pytest.raises(ObjectDamaged, match=r"regular file|at most"):
            await place.fetch(key, Path("fetched"), 1 << 20)
        target = await opened(new_store("sqlite"))
        try:
            refused = (await restore(place, target, Settings())).refused
        except ArchiveError:
            refused = {"m": "the whole restore"}
        assert refused
        path.unlink()
        path.write_bytes(content)


DEEP = b"[" * 100_000
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**53 + 1,
    2**63,
    10**400,
    0.5,
    "",
    "x" * 300,
    "\x00",
    "1" * 5_000,
    "../../x",
    [],
    [1],
    {},
    {"a": 1},
    base64.b64encode(DEEP).decode(),
    base64.b64encode(b'{"follow":' + b'{"a":' * 50_000).decode(),
    base64.b64encode(b"[]").decode(),
    base64.b64encode(b'{"follow": 1, "switches": 2}').decode(),
    base64.b64encode(b'{"algorithm": "trained", "switches": 2}').decode(),
)


def forged(document: Any) -> Iterator[Any]:
    """Yield copies of a JSON document, each with one value replaced."""
    parts = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(parts):
        for other in VALUES:
            document[key] = other
            yield document
        document[key] = value
        if isinstance(value, dict | list):
            for _ in forged(value):
                yield document


def with_checksum(body: bytes) -> bytes:
    """The object of a catalogue with this JSON."""
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


async def test_forged_catalogues_are_refused_or_harmless(place: FilePlace, new_store: Make, n_examples: int) -> None:
    origin = await archived(place, new_store)
    await origin.fleet.end()
    (*_, key) = sorted(key for key in await place.keys("") if "/catalogue/" in key)
    path = place._root / key
    document = json.loads(path.read_bytes().partition(b"\n")[2])
    target = await opened(new_store("sqlite"))
    refused = list[str]()
    for each in itertools.islice(forged(document), 0, None, max(1, 24 // n_examples)):  # a third in the quick lane
        path.write_bytes(with_checksum(json.dumps(each).encode()))
        try:
            await restore(place, target, Settings())
        except REFUSED as error:
            refused.append(str(error))
        else:
            await target.close()
            target = await opened(new_store("sqlite"))
    assert len(refused) > 4 * n_examples
    assert not [text for text in refused if "not empty" in text or "incomplete" in text], "each left nothing behind"


async def test_a_model_that_replaces_itself_is_refused(place: FilePlace, new_store: Make) -> None:
    origin = await archived(place, new_store)
    await origin.fleet.end()
    (*_, key) = sorted(key for key in await place.keys("") if "/catalogue/" in key)
    catalogue = StoreCatalogue.from_bytes(key, await place.get(key))
    model = next(model for model in catalogue.models if model.name == "m")
    replacement = layout.Replacement(store=catalogue.store, model=model)
    await place.put(layout.replaced_key(catalogue.store, model.incarnation), replacement.to_bytes())
    target = await opened(new_store("sqlite"))
    restored = await restore(place, target, Settings())
    assert "the model replaces itself" in restored.refused["m"]
