"""Vectors in files: each field is a view of the data set."""

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core.batch import LSAMML, M3L
from manylabel_core.datasets import BadDataset, Dataset, read_csv, read_ndjson

CSV = b"""title,age,embedding,cat,dog
a black cat,3,"[0.5, -1]",1,0
an old dog,,"[1, 2.5]",0,1
a cat,4,,1,0
"""
LINES = [
    {"title": "a black cat", "age": 3, "embedding": [0.5, -1], "tags": ["cat"]},
    {
        "title": "an old dog",
        "embedding": {"f32": base64.b64encode(np.array([1, 2.5], "<f4").tobytes()).decode()},
        "tags": ["dog"],
    },
    {"title": "a cat", "age": 4, "embedding": None, "tags": ["cat"]},
]


def ndjson(lines: list[Any]) -> Dataset:
    raw = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return read_ndjson(io.BytesIO(raw), "tags", text=["title"])


def test_a_field_of_vectors_is_a_view_that_rows_may_lack() -> None:
    of_table, of_lines = read_csv(io.BytesIO(CSV), 2, text=["title"]), ndjson(LINES)
    for data in (of_table, of_lines):
        assert list(data.views) == ["x", "embedding"]
        assert data.views["embedding"].tolist() == [[0.5, -1.0], [1.0, 2.5], [0.0, 0.0]]
        assert data.missing["embedding"].tolist() == [False, False, True]
        assert data.feature_names["embedding"] == ("embedding[0]", "embedding[1]")
        assert Dataset.from_bytes(data.to_bytes()).to_bytes() == data.to_bytes()
    assert np.array_equal(of_table.X.toarray(), of_lines.X.toarray())


def test_numbers_alone_before_the_first_vector_and_a_row_of_vectors_alone() -> None:
    data = read_csv(io.BytesIO(b'a,v,y\n1,,1\n2,"[1,2]",0\n'), 1)
    assert data.views["v"].tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert data.views["x"].toarray().tolist() == [[1.0], [2.0]]
    data = ndjson([{"v": [1, 2], "tags": ["p"]}, {"v": [3, 4], "tags": []}])
    assert list(data.views) == ["v"]


@for_each(
    ("second", "message"),
    [
        ([1, 2, 3], "x: v must have 2 numbers, as in earlier rows; has 3"),
        ([1, None], "x: v.1 must be a finite number"),
        ([1, "x"], "x: v.1 must be a finite number"),
        ({"f32": "AAA"}, "x: v.f32 must be base64"),
        ([0] * 8193, "x: v must have 1 to 8,192 numbers"),
    ],
)
def test_a_bad_vector_is_refused_with_its_line(second: Any, message: str) -> None:
    with pytest.raises(BadDataset, match=message) as caught:
        ndjson([{"a": "b", "v": [1, 2], "tags": ["p"]}, {"a": "b", "v": second, "tags": ["p"]}])
    assert caught.value.line == 2


def test_trainers_take_vectors_as_views_or_as_numbers() -> None:
    rng = np.random.default_rng(0)
    Y = rng.random(40) < 0.5
    lines = [
        {"title": f"word{i % 3}", "v": (rng.standard_normal(4) + 3 * y).tolist(), "tags": ["p"] if y else ["q"]}
        for i, y in enumerate(Y)
    ]
    data = ndjson(lines)
    of_views = LSAMML(scaling="none").fit(data.views, data.Y.toarray())
    assert (of_views.predict(data.views)[:, 0] == data.Y.toarray()[:, 0]).mean() > 0.9
    of_numbers = M3L(scaling="auto").fit(data.X, data.Y.toarray())
    assert (of_numbers.predict(data.X)[:, 0] == data.Y.toarray()[:, 0]).mean() > 0.9
