"""Weights of rows in datasets: read from every format, kept, and refused if they are invalid."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core.datasets import (
    BadDataset,
    Dataset,
    ReaderLimits,
    read_arff,
    read_csv,
    read_dataset,
    read_ndjson,
    read_npz,
)
from manylabel_core.datasets.aligning import aligned
from manylabel_core.state import DamagedState, State

WEIGHTS = [0.5, 1.0, 1000.0]
HEADER = "@relation r\n@attribute tempo real\n@attribute rock {0,1}\n@attribute jazz {0,1}\n@data\n"
FILES = {
    "csv": ("tempo,w,rock,jazz\n120 WEIGHT,1,0\n80 WEIGHT,0,1\n95 WEIGHT,0,0\n", ",{}"),
    "tsv": ("tempo\tw\trock\tjazz\n120 WEIGHT\t1\t0\n80 WEIGHT\t0\t1\n95 WEIGHT\t0\t0\n", "\t{}"),
    "pairs": (
        '{"x": {"tempo": 120}, "y": ["rock"] WEIGHT}\n{"x": {"tempo": 80}, "y": ["jazz"] WEIGHT}\n'
        '{"x": {"tempo": 95}, "y": [] WEIGHT}\n',
        ', "weight": {}',
    ),
    "records": (
        '{"tempo": 120, "tags": ["rock"] WEIGHT}\n{"tempo": 80, "tags": ["jazz"] WEIGHT}\n'
        '{"tempo": 95, "tags": [] WEIGHT}\n',
        ', "w": {}',
    ),
    "dense arff": (HEADER + "120, 1, 0 WEIGHT\n80, 0, 1 WEIGHT\n95, 0, 0 WEIGHT\n", ", {{{}}}"),
    "sparse arff": (HEADER + "{0 120, 1 1} WEIGHT\n{0 80, 2 1} WEIGHT\n{0 95} WEIGHT\n", ", {{{}}}"),
}
"""The same rows in each format, and how a weight is written; it may be left out in all but tables."""


def written(kind: str, weights: list[Any]) -> io.BytesIO:
    text, form = FILES[kind]
    for weight in weights:
        shown = "" if weight is None else form.format("Infinity" if weight == np.inf else weight)
        text = text.replace(" WEIGHT", shown, 1)
    return io.BytesIO(text.encode())


def npz(**more: Any) -> io.BytesIO:
    file = io.BytesIO()
    Y = np.int8([[1, 0], [0, 1], [0, 0]])
    np.savez(file, X=np.float32([[120], [80], [95]]), Y=Y, label_names=["rock", "jazz"], **more)
    file.seek(0)
    return file


def read(kind: str, weights: list[Any]) -> Dataset:
    match kind:
        case "csv" | "tsv":
            return read_dataset(written(kind, weights), kind, label_columns=2, weight="w")
        case "pairs":
            return read_ndjson(written(kind, weights))
        case "records":
            return read_ndjson(written(kind, weights), "tags", weight="w")
        case "npz":
            return read_npz(npz(weight=np.array(weights)))
        case _:
            return read_arff(written(kind, weights), -2)


EACH = pytest.mark.parametrize("kind", [*FILES, "npz"])


@EACH
def test_every_format_has_weights(kind: str) -> None:
    dataset = read(kind, WEIGHTS)
    assert dataset.weights is not None
    assert dataset.weights.dtype == np.float64
    assert dataset.weights.tolist() == WEIGHTS
    assert dataset.describe()["weighted"] is True
    assert np.asarray(dataset.X[[0]].sum()) == 120  # the column of weights is no feature
    assert dataset.n_features == 1
    assert dataset.label_names == ("rock", "jazz")


@EACH
def test_rows_that_all_weigh_one_have_no_weights(kind: str) -> None:
    """Every byte is as it would be if nothing had been said of weights."""
    plain = {
        "csv": lambda: read_csv(written("csv", [1] * 3), 2, ignore=["w"]),
        "tsv": lambda: read_csv(written("csv", [1] * 3), 2, ignore=["w"]),
        "npz": lambda: read_npz(npz()),
    }.get(kind, lambda: read(kind, [None] * 3))()
    dataset = read(kind, [1, 1, 1])
    assert dataset.weights is None
    assert "weighted" not in dataset.describe()
    assert dataset.to_bytes() == plain.to_bytes()
    assert State.from_bytes(plain.to_bytes()).header["version"] == 1


@for_each("kind", ["pairs", "records", "dense arff", "sparse arff"])
def test_a_row_without_a_weight_weighs_one(kind: str) -> None:
    dataset = read(kind, [None, None, 3])
    assert dataset.weights is not None
    assert dataset.weights.tolist() == [1, 1, 3]
    assert read(kind, [3, None, None]).take([1, 2]).weights is None


@EACH
@pytest.mark.parametrize("weight", [0.0, -1.0, 1000.5, float("inf")])
def test_an_invalid_weight_is_refused_with_its_row_and_field(kind: str, weight: float) -> None:
    places = {
        "csv": r"line 3: the weight in column 'w' is .*: expected a number above 0 and at most 1000",
        "tsv": r"line 3: the weight in column 'w' is .*: expected a number above 0 and at most 1000",
        "pairs": r"line 2: (weight must be a number above 0 and at most 1000, not|Infinity is not a finite number)",
        "records": r"line 2: (w must be a number above 0 and at most 1000, not|Infinity is not a finite number)",
        "npz": r"row 1: 'weight' must be above 0 and at most 1000, not",
        "dense arff": r"line 7: the weight after a row must be a number above 0 and at most 1000, not",
        "sparse arff": r"line 7: the weight after a row must be a number above 0 and at most 1000, not",
    }
    with pytest.raises(BadDataset, match=f"^{places[kind]}"):
        read(kind, [2.0, weight, 1.0])


@for_each(
    ("weight", "message"),
    [
        (np.ones(2), "must be 3 numbers"),
        (np.ones((3, 1)), "dimension"),
        (np.array(["1", "2", "3"]), "must be 3 numbers"),
        (np.array([1.0, np.nan, 2.0]), "row 1: 'weight' must be above 0"),
        (np.array([True, True, False]), "must be 3 numbers"),
    ],
)
def test_npz_needs_one_weight_per_row(weight: Any, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_npz(npz(weight=weight))


@for_each("row", ["120, 1, 0 {2}", "{2}", "120, 1, {2}", "{0 120}, {}", "{0 120}, {2}}", "1, 1, 0, {x}"])
def test_invalid_arff_weights_are_refused(row: str) -> None:
    with pytest.raises(BadDataset, match="line 6"):
        read_arff(io.BytesIO(f"{HEADER}{row}\n".encode()), -2)


def test_weights_count_for_the_limit_of_bytes() -> None:
    weighed = b"\n".join(b'{"x": {"a": %d}, "y": ["u"], "weight": 2}' % row for row in range(200))
    plain = weighed.replace(b', "weight": 2', b"")
    least = next(size for size in range(1000, 20_000, 100) if is_read(plain, size))
    assert not is_read(weighed, least)
    assert is_read(weighed, least + 8 * 200)


def is_read(data: bytes, size: int) -> bool:
    try:
        read_ndjson(io.BytesIO(data), limits=ReaderLimits(bytes=size))
    except BadDataset as error:
        return "bytes" not in str(error)
    return True


def test_rows_keep_their_weights() -> None:
    dataset = read("csv", WEIGHTS)
    again = Dataset.from_bytes(dataset.to_bytes())
    assert again.to_bytes() == dataset.to_bytes()
    assert again.weights is not None
    assert again.weights.tolist() == WEIGHTS
    taken = dataset.take([2, 0])
    assert taken.weights is not None
    assert taken.weights.tolist() == [1000.0, 0.5]
    assert dataset.take(np.array([False, True, False])).weights is None
    dataset.splits["test"] = np.array([0])
    assert dataset.split("test").weights == [0.5]
    other = read("pairs", [1, 1, 1])
    assert np.array_equal(aligned(again, other).weights, WEIGHTS)
    assert aligned(other, again).weights is None


@for_each(
    "weights",
    [
        np.float32([1, 2, 3]),
        np.float64([1, 2]),
        np.float64([[1], [2], [3]]),
        np.float64([1, 0, 2]),
        np.float64([1, np.nan, 2]),
        np.float64([1, 2, 1001]),
        None,
    ],
)
def test_forged_weights_are_refused(weights: Any) -> None:
    state = State.from_bytes(read("csv", WEIGHTS).to_bytes())
    arrays = dict(state.arrays)
    del arrays["weights"]
    if weights is not None:
        arrays["weights"] = weights
    with pytest.raises(DamagedState):
        Dataset.from_bytes(State(arrays, dict(state.header)).to_bytes())
