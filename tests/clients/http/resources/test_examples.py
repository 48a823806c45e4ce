"""Examples and labels of any type are encoded as the JSON of the API."""

import datetime
import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_clients import Sparse
from manylabel_clients.http.resources.examples import encode_example, rows_of

row = np.array([[0.0, 1.5, 0.0, -2.0]], dtype=np.float32)


class Series:
    """Like a pandas Series: not a Mapping, but with `items` and `tolist`."""

    def items(self) -> list[tuple[str, Any]]:
        return [("age", np.float64(3.5)), ("word=cat", np.int64(1))]

    def tolist(self) -> list[float]:
        raise AssertionError("the names are lost")


@for_each(
    ("x", "expected"),
    [
        ({"age": 3.5, "word=cat": 1}, {"age": 3.5, "word=cat": 1}),
        ({"age": np.float32(0.5), "n": np.int8(2)}, {"age": 0.5, "n": 2}),
        ({3: 1.0}, {"3": 1.0}),
        (Series(), {"age": 3.5, "word=cat": 1}),
        ([1, 2.5], [1, 2.5]),
        ((1, np.float32(2.5)), [1, 2.5]),
        (row[0], [0.0, 1.5, 0.0, -2.0]),
        (Sparse([1, 3], [1.5, -2]), {"indices": [1, 3], "values": [1.5, -2]}),
        (Sparse(np.array([1, 3]), (1.5, -2)), {"indices": [1, 3], "values": [1.5, -2]}),
        (sp.csr_matrix(row), {"indices": [1, 3], "values": [1.5, -2]}),
        (sp.csr_array(row), {"indices": [1, 3], "values": [1.5, -2]}),
        (next(iter(sp.csr_array(row))), {"indices": [1, 3], "values": [1.5, -2]}),
        (sp.coo_matrix(row), {"indices": [1, 3], "values": [1.5, -2]}),
    ],
)
def test_every_form_of_an_example_is_encoded(x: Any, expected: Any) -> None:
    assert json.loads(encode_example(x)) == {"x": expected}


@for_each(
    ("y", "expected"),
    [
        (["rock", "jazz"], ["rock", "jazz"]),
        (("rock",), ["rock"]),
        ({"rock", "jazz", "folk"}, ["folk", "jazz", "rock"]),
        (np.array(["rock"]), ["rock"]),
        ([], []),
        ({"rock": True, "jazz": False}, {"rock": True, "jazz": False}),
        ({"rock": np.bool_(True), "jazz": 0}, {"rock": True, "jazz": False}),
        ({}, {}),
    ],
)
def test_every_form_of_labels_is_encoded(y: Any, expected: Any) -> None:
    assert json.loads(encode_example([1.0], y)) == {"x": [1.0], "y": expected}


def test_rows_of_polars_and_arrow_are_records_too() -> None:
    class Polars:
        columns, shape = ("age", "colour"), (2, 2)

        def iter_rows(self) -> Any:
            return iter([(42, None), (None, "red")])

    class Column(list[Any]):
        def to_pylist(self) -> list[Any]:
            return list(self)

    class Arrow:
        column_names, shape = ("age", "colour"), (2, 2)
        columns = (Column([42, None]), Column([None, "red"]))

    for frame in (Polars(), Arrow()):
        assert list(rows_of(frame)) == [{"age": 42}, {"colour": "red"}]


def test_decimals_are_numbers_and_dates_are_refused_with_the_cure() -> None:
    assert encode_example({"price": Decimal("9.5")}) == b'{"x":{"price":9.5}}'
    for date in (datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29)):
        with pytest.raises(TypeError, match="send a date as a number, such as days since 1970-01-01, or as a string"):
            encode_example({"seen": date})


def test_views_are_encoded_each_in_its_form() -> None:
    class Row:
        def tolist(self) -> list[float]:
            return [1.0, 2.0]

    views = {"views": {"text": {"word=cat": 1}, "image": Row()}}
    assert json.loads(encode_example(views)) == {"views": {"text": {"word=cat": 1}, "image": [1.0, 2.0]}}
    assert json.loads(encode_example(views, ["pets"]))["y"] == ["pets"]
    assert json.loads(encode_example({"views": 3.0})) == {"x": {"views": 3.0}}, "a feature may have that name"
    with pytest.raises(TypeError, match=r"^/views must be a mapping"):
        encode_example({"views": {"text": "cat"}})


def test_texts_and_records_are_encoded_unchanged() -> None:
    record = {"title": "Café", "tags": ["a", "b"], "in": {"flag": True, "count": np.int64(2)}, "none": None}
    assert json.loads(encode_example("a text")) == {"x": "a text"}
    assert json.loads(encode_example(record)) == {"x": {**record, "in": {"flag": True, "count": 2}}}


NAN, INF = float("nan"), float("inf")
NOT_FINITE = "must be a finite number, or None where it is missing$"


@for_each(
    ("x", "y", "kind", "message"),
    [
        *[
            ({name: 1.0}, None, TypeError, "/x names of features must be strings, not ")
            for name in (None, True, 1.5, ("a",))
        ],
        *[
            ([1.0], {name: True}, TypeError, "/y names of labels must be strings, not ")
            for name in (None, True, 1.5, 1)
        ],
        ({1: 1.0, "1": 2.0}, None, ValueError, "/x must not have the same name as a string and as a number"),
        *[
            (x, None, TypeError, "/x must be")
            for x in (b"cat", 3.5, None, np.float32(1), sp.csr_matrix(np.eye(2)), object())
        ],
        *[([1.0], y, TypeError, "/y must be") for y in ("pets", b"pets", 3, object())],
        *[([1.0], {"rock": value}, TypeError, "/y/rock must be true or false") for value in ("false", None, 2, 0.5)],
        ([1.0], {"km/h": 3}, TypeError, "/y/km~1h must be true or false"),
        ({"price": Decimal("NaN")}, None, ValueError, "/x/price must be a finite number"),
        ({"km/h~": NAN}, None, ValueError, f"/x/km~1h~0 {NOT_FINITE}"),
        ([1.0, INF], None, ValueError, f"/x/1 {NOT_FINITE}"),
        (Sparse([4], [np.float32("-inf")]), None, ValueError, f"/x/values/0 {NOT_FINITE}"),
        (np.array([np.inf, 1]), None, ValueError, f"/x/0 {NOT_FINITE}"),
    ],
)
def test_an_example_that_cannot_be_sent_is_named(x: Any, y: Any, kind: type[Exception], message: str) -> None:
    """The place is a JSON pointer."""
    with pytest.raises(kind, match=f"^{message}"):
        encode_example(x, y)


def test_missing_values_are_null() -> None:
    assert encode_example({"age": None}) == b'{"x":{"age":null}}'
    assert encode_example([1.0, None]) == b'{"x":[1.0,null]}'
    assert encode_example(np.array([np.nan, 0])) == b'{"x":[null,0.0]}'
    assert encode_example(Sparse([4, 5], [None, 1])) == b'{"x":{"indices":[4,5],"values":[null,1]}}'


@pytest.mark.usefixtures("programs")
def test_a_set_has_the_same_bytes_in_every_process() -> None:
    code = (
        "from manylabel_clients.http.resources.examples import encode_example; "
        "print(encode_example([1.0], set('abcdefgh')).decode())"
    )
    bodies = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(bodies) == 1


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(names, numbers), st.lists(names))
def test_names_and_numbers_are_encoded_exactly(x: dict[str, float], y: list[str]) -> None:
    assert json.loads(encode_example(x, y)) == {"x": x, "y": y}
