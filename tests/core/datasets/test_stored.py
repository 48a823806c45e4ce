"""Datasets as bytes: the same back, and anything else refused, since bytes may come from anybody."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.support.cases import for_each

from manylabel_core.datasets import BadDataset, Dataset, read_ndjson, serialisation
from manylabel_core.datasets.aligning import aligned
from manylabel_core.datasets.label_details import read_label_details
from manylabel_core.state import DamagedState, NewerState, State


def sample() -> Dataset:
    return Dataset(
        {"text": sp.csr_array(np.float32([[0, 1.5], [2, 0], [0, 0]])), "sound": np.float32([[1], [2], [3]])},
        sp.csr_array(np.int8([[1, 0], [0, 1], [0, 0]])),
        ("rock", "jazz"),
        {"text": ("a", "b"), "sound": None},
        {"train": np.int64([0, 2]), "test": np.int64([1])},
        np.array([True, True, False]),
    )


def test_label_details_survive_bytes_splits_and_alignment() -> None:
    details = {"jazz": {"title": "Jazz", "uri": "http://x/jazz"}}
    dataset = replace(sample(), label_details=details)
    again = Dataset.from_bytes(dataset.to_bytes())
    assert again.to_bytes() == dataset.to_bytes() != sample().to_bytes()
    for part in (again, again.split("train"), aligned(sample(), again)):
        assert part.label_details == details
    arrays, header = State.from_bytes(dataset.to_bytes())
    for wrong in (b"", b"[1]", b'{"folk": {}}', b'{"jazz": {"name": "x"}}', b'{"jazz": {"title": 1}}', b"[" * 100_000):
        forged = {**arrays, "label_details": np.frombuffer(wrong, dtype=np.uint8)}
        with pytest.raises(DamagedState):
            Dataset.from_bytes(State(forged, header).to_bytes())


@for_each("text", ["x" * 501, "", 5, ["x"]])
def test_invalid_titles_are_refused(text: object) -> None:
    file = io.BytesIO(json.dumps({"rock": {"title": text}}).encode())
    with pytest.raises(BadDataset, match="the title of label 'rock'"):
        read_label_details(file, ["rock"])


@for_each("data", [b"", b"[]", b'{"rock": 1}', b'{"folk": {"uri": "x"}}', b"\xff", b"[" * 10**6])
def test_invalid_detail_files_are_refused(data: bytes) -> None:
    with pytest.raises(BadDataset, match="label_details"):
        read_label_details(io.BytesIO(data), ["rock"])


def test_fields_that_are_null_are_left_out() -> None:
    file = io.BytesIO(b'{"rock": {"title": null, "uri": "x"}, "jazz": {}, "folk": {"title": null}}')
    assert read_label_details(file, ["rock", "jazz", "folk"]) == {"rock": {"uri": "x"}}


def test_a_file_of_details_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manylabel_core.datasets.label_details.MAX_DETAILS_BYTES", 20)
    with pytest.raises(BadDataset, match="at most 20 bytes"):
        read_label_details(io.BytesIO(b'{"rock": {"title": "Rock"}}'), ["rock"])


def test_bytes_restore_the_dataset() -> None:
    dataset = sample()
    again = Dataset.from_bytes(dataset.to_bytes())
    assert again.to_bytes() == dataset.to_bytes()
    assert list(again.views) == ["text", "sound"]
    assert (again.views["text"] != dataset.views["text"]).nnz == 0
    np.testing.assert_array_equal(again.views["sound"], dataset.views["sound"])
    assert (again.Y != dataset.Y).nnz == 0
    assert (again.label_names, again.feature_names) == (dataset.label_names, dataset.feature_names)
    assert again.describe() == dataset.describe() == {
        "rows": 3, "features": 3, "labels": 2, "cardinality": 1.0, "density": 0.5,
        "views": {"text": 2, "sound": 1}, "splits": {"train": 2, "test": 1}, "unlabelled": 1,
    }  # fmt: skip
    assert again.label_counts().tolist() == [1, 1]


def test_rows_are_taken_by_number_or_mask() -> None:
    dataset = sample()
    for rows in ([1, 0], np.array([1, 0])):
        taken = dataset.take(rows)
        assert taken.views["sound"].tolist() == [[2], [1]]
        assert taken.Y.toarray().tolist() == [[0, 1], [1, 0]]
        assert taken.splits == {}
    assert dataset.take(~dataset.labelled).views["sound"].tolist() == [[3]]
    assert dataset.take([]).n_rows == 0
    assert dataset.split("train").labelled.tolist() == [True, False]
    assert dataset.split(None) is dataset
    taken = dataset.take([0])
    assert Dataset.from_bytes(taken.to_bytes()).to_bytes() == taken.to_bytes()


def lacking() -> Dataset:
    """The sample, of which the last row has no text and the first no sound."""
    dataset = sample()
    dataset.views["sound"][0] = 0
    return replace(dataset, missing={"text": np.array([False, False, True]), "sound": np.array([True, False, False])})


def test_bytes_restore_missing_views() -> None:
    dataset = lacking()
    again = Dataset.from_bytes(dataset.to_bytes())
    assert again.to_bytes() == dataset.to_bytes() != sample().to_bytes()
    assert {name: mask.tolist() for name, mask in again.missing.items()} == {
        "text": [False, False, True],
        "sound": [True, False, False],
    }
    nobody = replace(sample(), missing={"text": np.zeros(3, dtype=bool)})
    assert not nobody.missing
    assert nobody.to_bytes() == sample().to_bytes()


@for_each(
    "change",
    [
        lambda a, h: h.update(missing=[0, 2]),
        lambda a, h: h.update(missing=["text"]),
        lambda a, h: h.update(missing=7),
        lambda a, h: a.pop("missing1"),
        lambda a, h: a.update(missing0=np.int8([0, 0, 1])),
        lambda a, h: a.update(missing0=np.array([True])),
        lambda a, h: a.update(missing0=np.array([True, False, False])),
        lambda a, h: a.update(missing1=np.array([False, True, False])),
        lambda a, h: a.update(missing0=np.array([False, True, True])),
    ],
)
def test_forged_missing_views_are_refused(change: Any) -> None:
    arrays, header = State.from_bytes(lacking().to_bytes())
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays, header)
    with pytest.raises(DamagedState, match="not a dataset"):
        Dataset.from_bytes(State(arrays, header).to_bytes())


def test_a_byte_changed_anywhere_is_noticed_or_changes_nothing() -> None:
    data, rng = sample().to_bytes(), random.Random(0)
    for at in range(0, len(data), 3):
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        with contextlib.suppress(DamagedState):
            assert Dataset.from_bytes(bytes(changed)).to_bytes() == data


Change = Callable[[dict[str, Any], dict[str, Any]], object]


@for_each(
    "change",
    [
        lambda a, h: h.update(kind="model"),
        lambda a, h: h.update(version="1"),
        lambda a, h: h.update(views=[]),
        lambda a, h: h["views"][0].__setitem__(1, 1),
        lambda a, h: h["views"][0].__setitem__(1, 2**40),
        lambda a, h: h["views"][0].__setitem__(1, -1),
        lambda a, h: h["views"][0].__setitem__(0, "sound"),
        lambda a, h: h["views"][0].__setitem__(0, 7),
        lambda a, h: h["views"][1].__setitem__(2, True),
        lambda a, h: h["views"][0].__setitem__(2, False),
        lambda a, h: h["views"][1].__setitem__(3, True),
        lambda a, h: h.update(splits=["train", "train"]),
        lambda a, h: h.update(splits=["train", "test", "dev"]),
        lambda a, h: h.update(splits=7),
        lambda a, h: a.update(split0=np.int64([2, 0])),
        lambda a, h: a.update(split0=np.int64([0, 3])),
        lambda a, h: a.update(split0=np.int64([-1, 0])),
        lambda a, h: a.update(split0=np.float64([0, 1])),
        lambda a, h: a.pop("labelled"),
        lambda a, h: a.update(labelled=np.array([True, True])),
        lambda a, h: a.update(labelled=np.array([False, True, True])),
        lambda a, h: a.update(labelled=np.int8([1, 1, 1])),
        lambda a, h: a.update(view1=np.float32([[np.nan], [np.inf], [2]])),
        lambda a, h: a.update(view1=np.float32([[1e20], [1], [2]])),
        lambda a, h: a.update(view1=np.float64([[1], [1], [2]])),
        lambda a, h: a.update(view1=np.float32([[1], [2]])),
        lambda a, h: a.update(view1=np.float32([1, 2, 3])),
        lambda a, h: a["view0.values"].__setitem__(0, np.inf),
        lambda a, h: a["view0.indices"].__setitem__(0, 2),
        lambda a, h: a["view0.indices"].__setitem__(0, -1),
        lambda a, h: a["view0.indptr"].__setitem__(1, 3),
        lambda a, h: a["view0.indptr"].__setitem__(0, 1),
        lambda a, h: a.update({"view0.indptr": np.int64([])}),
        lambda a, h: a.update({"view0.indptr": np.int64([0, 2, 2, 2])}),
        lambda a, h: a.update({"view0.values": np.float32([1])}),
        lambda a, h: a.update({"view0.values": np.float64([1, 2])}),
        lambda a, h: a.update({"view0.indices": np.int64([1, 0])}),
        lambda a, h: a["Y.indices"].__setitem__(0, 2),
        lambda a, h: a.update({"labels.bytes": np.frombuffer(b"rockrock", np.uint8)}),
        lambda a, h: a["features0.offsets"].__setitem__(1, 9),
    ],
)
def test_forged_bytes_are_refused(change: Change) -> None:
    """The checksum is right, so only the content shows the forgery."""
    state = State.from_bytes(sample().to_bytes())
    arrays, header = dict(state.arrays), dict(state.header)
    change(arrays, header)
    with pytest.raises(DamagedState):
        Dataset.from_bytes(State(arrays, header).to_bytes())


def test_a_newer_version_has_its_own_error() -> None:
    arrays, header = State.from_bytes(sample().to_bytes())
    with pytest.raises(NewerState):
        Dataset.from_bytes(State(arrays, {**header, "version": serialisation.VERSION + 1}).to_bytes())


def test_rows_without_any_value() -> None:
    dataset = read_ndjson(io.BytesIO(b'{"x": {}, "y": []}\n{"x": {"a": 1}, "y": ["u"]}\n{"x": {}}\n'))
    assert Dataset.from_bytes(dataset.to_bytes()).X.toarray().tolist() == [[0], [1], [0]]  # type: ignore[union-attr]
