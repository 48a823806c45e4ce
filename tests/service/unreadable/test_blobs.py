"""A blob or a log entry that cannot be read stays as it is, and other things go on."""

from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from starlette.testclient import TestClient
from tests.service.storage.test_storage_damage import edit_log
from tests.service.unreadable.filling import Filled, check_everything, serving, work
from tests.service.unreadable.places import flipped

from manylabel_core.state import State
from manylabel_service.online.history.segment import MAGIC
from manylabel_service.storage import Store, position_key

LATER = 99

Find = Callable[[Filled], str]


def _of_state(field: str) -> Callable[[bytes], bytes]:
    """Return a function that gives a state a later version in a field of its header."""

    def later(data: bytes) -> bytes:
        arrays, header = State.from_bytes(data)
        return State(arrays, {**header, field: LATER}).to_bytes()

    return later


def _later_segment(data: bytes) -> bytes:
    return MAGIC[:-1] + b"2" + data[len(MAGIC) :]


def _newest_snapshot(filled: Filled) -> str:
    return max(_keys(filled, f"snapshots/{filled.incarnations['m']}/"), key=lambda key: key.split("/")[3])


def _segment(filled: Filled) -> str:
    return next(iter(_keys(filled, f"history/{filled.incarnations['m']}/")))


def _state(filled: Filled) -> str:
    return min(_keys(filled, f"snapshots/{filled.incarnations['m']}/"), key=lambda key: position_key(key.split("/")[2]))


def _ending(prefix: str, suffix: str) -> Find:
    return lambda filled: next(key for key in _keys(filled, prefix) if key.endswith(suffix))


def _artifact(filled: Filled) -> str:
    return next(key for key in _keys(filled, "versions/") if not key.endswith(".meta"))


def _keys(filled: Filled, prefix: str) -> list[str]:
    return sorted(key for key in filled.place.blobs() if key.startswith(prefix))


def _only(filled: Filled, prefix: str) -> str:
    (key,) = _keys(filled, prefix)
    return key


BLOBS: dict[str, tuple[Find, Callable[[bytes], bytes] | None]] = {
    "newest snapshot": (_newest_snapshot, _of_state("version")),
    "segment": (_segment, _later_segment),
    "state": (_state, _of_state("version")),
    "dataset": (_ending("datasets/", "/data"), _of_state("version")),
    "details of a dataset": (_ending("datasets/", "/details"), None),
    "artifact": (_artifact, _of_state("contents")),
    "metadata of a version": (_ending("versions/", ".meta"), None),
    "examples of a job": (_ending("jobs/", "/gathered"), None),
}
"""How to find a blob, and how a newer release would write it; None if its document says so."""

SAID: dict[tuple[str, str], tuple[Callable[[TestClient], Any], int, str]] = {
    ("newest snapshot", "newer"): (
        lambda client: client.post("/v1/models/m/update", json={"x": {"a": 1.0}, "y": ["l0"]}),
        503,
        "release_too_old",
    ),
    ("segment", "newer"): (lambda client: client.get("/v1/models/m/log"), 503, "release_too_old"),
    ("segment", "flipped"): (lambda client: client.get("/v1/models/m/log"), 500, "history_damaged"),
    ("artifact", "newer"): (
        lambda client: client.post("/v1/models/t/predict", json={"x": {"v": 1.0}}),
        503,
        "release_too_old",
    ),
}


def test_each_kind_of_blob_is_tried(filled: Filled) -> None:
    found = {find(filled).split("/")[0] for find, _ in BLOBS.values()}
    assert {key.split("/")[0] for key in filled.place.blobs()} == found


@pytest.mark.parametrize("how", ["newer", "wrong", "flipped"])
@pytest.mark.parametrize("kind", BLOBS)
def test_an_unreadable_blob_stays_and_other_things_go_on(copied: Filled, kind: str, how: str) -> None:
    find, later = BLOBS[kind]
    place, key = copied.place, find(copied)
    if (how == "newer" and later is None) or (how != "newer" and kind == "newest snapshot"):
        return  # nothing to write; retention drops a snapshot once newer ones are stored
    intact = place.blob(key)
    if how == "flipped":
        place.flip_blob(key)
    else:
        place.put_blob(key, later(intact) if how == "newer" and later else b"of another type")
    documents, before = place.documents(), place.blobs()
    with serving(place, copied.admin) as client:
        work(client)
        if (kind, how) in SAID:
            ask, status, code = SAID[kind, how]
            answer = ask(client)
            assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert client.get("/v1/models").status_code == 200
        assert client.post("/v1/models/g/update", json={"x": {"a": 1.0}, "y": ["l0"]}).status_code == 200
    after = place.blobs()
    assert after.get(key) == before[key]
    lost = {each for each, data in before.items() if after.get(each) != data}
    assert {each for each in lost if not each.startswith("snapshots/")} == set(), "retention drops old snapshots only"
    assert documents.keys() - place.documents().keys() == set()
    place.put_blob(key, intact)
    with serving(place, copied.admin) as client:
        check_everything(copied, client)


def _flip_last(rows: list[Any]) -> list[Any]:
    """Damage the payload of the last entry of a log."""
    rows[-1][1] = flipped(rows[-1][1])
    return rows


async def _rows(store: Store) -> list[Any]:
    """Return the stored entries of the log of `m`."""
    found: list[Any] = []

    def same(rows: list[Any]) -> list[Any]:
        found.extend(map(tuple, rows))
        return rows

    record = await store.models.find("m")
    assert record is not None
    edit_log(store, record, same)
    return found


@pytest.mark.parametrize("how", ["newer", "flipped"])
def test_an_unreadable_entry_stays_and_other_things_go_on(copied: Filled, how: str) -> None:
    place = copied.place

    async def spoil(store: Store) -> None:
        record = await store.models.find("m")
        assert record is not None
        newest = (await store.snapshots.all(record))[0]
        payload = msgpack.packb([LATER, "whatever"]) if how == "newer" else (await _rows(store))[-1][1]
        await store.logs.append(record, [payload], newest.position)
        if how == "flipped":
            edit_log(store, record, _flip_last)

    place.run(spoil)
    blobs, before = place.blobs(), place.run(_rows)
    with serving(place, copied.admin) as client:
        work(client)
        answer = client.post("/v1/models/m/update", json={"x": {"a": 1.0}, "y": ["l0"]})
        expected = (503, "release_too_old") if how == "newer" else (500, "model_damaged")
        assert (answer.status_code, answer.json()["code"]) == expected
        assert client.post("/v1/models/g/update", json={"x": {"a": 1.0}, "y": ["l0"]}).status_code == 200
    assert place.run(_rows) == before
    after, own = place.blobs(), copied.incarnations["m"]
    assert {key for key in blobs if key.split("/")[1] == own and after.get(key) != blobs[key]} == set()
