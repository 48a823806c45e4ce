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


@for_each("name", [None, True, 1.5, ("a", "b")])
def test_names_that_are_not_strings_are_refused(name: Any) -> None:
    with pytest.raises(TypeError, match=r"^/x names of features must be strings, not "):
        encode_example({name: 1.0})
    with pytest.raises(TypeError, match=r"^/y names of labels must be strings, not "):
        encode_example([1.0], {name: True})


def test_a_label_has_no_number_for_a_name() -> None:
    with pytest.raises(TypeError, match=r"^/y names of labels must be strings, not 1$"):
        encode_example([1.0], {1: True})


def test_a_name_that_is_a_string_and_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^/x must not have the same name as a string and as a number"):
        encode_example({1: 1.0, "1": 2.0})
    with pytest.raises(ValueError, match=r"^/x/price must be a finite number"):
        encode_example({"price": Decimal("NaN")})


def test_decimals_are_numbers_and_dates_are_refused_with_the_cure() -> None:
    assert encode_example({"price": Decimal("9.5")}) == b'{"x":{"price":9.5}}'
    for date in (datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29)):
        with pytest.raises(TypeError, match="send a date or time as a number, such as a count of days, or as a string"):
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


@for_each("x", [b"cat", 3.5, None, np.float32(1), sp.csr_matrix(np.eye(2)), object()])
def test_an_invalid_example_is_refused(x: Any) -> None:
    with pytest.raises(TypeError, match=r"^/x must be"):
        encode_example(x)


@for_each("y", ["pets", b"pets", 3, object()])
def test_an_invalid_collection_of_labels_is_refused(y: Any) -> None:
    with pytest.raises(TypeError, match=r"^/y must be"):
        encode_example([1.0], y)


@for_each("value", ["false", None, 2, 0.5])
def test_a_partial_label_is_true_or_false(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^/y/rock must be true or false"):
        encode_example([1.0], {"rock": value})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float32("-inf")])
def test_numbers_that_are_not_finite_are_named(bad: float) -> None:
    for x, place in [
        ({"age": bad}, "/x/age"),
        ([1.0, bad], "/x/1"),
        (Sparse([4], [bad]), "/x/values/0"),
        (np.array([np.inf if np.isnan(bad) else bad, 1]), "/x/0"),
    ]:
        with pytest.raises(ValueError, match=f"^{place} must be a finite number, or None where it is missing$"):
            encode_example(x)


def test_missing_values_are_null() -> None:
    assert encode_example({"age": None}) == b'{"x":{"age":null}}'
    assert encode_example([1.0, None]) == b'{"x":[1.0,null]}'
    assert encode_example(np.array([np.nan, 0])) == b'{"x":[null,0.0]}'
    assert encode_example(Sparse([4, 5], [None, 1])) == b'{"x":{"indices":[4,5],"values":[null,1]}}'


def test_errors_have_json_pointers() -> None:
    with pytest.raises(ValueError, match=r"^/x/km~1h~0 must be a finite number, or None"):
        encode_example({"km/h~": float("nan")})
    with pytest.raises(TypeError, match=r"^/y/km~1h must be true or false"):
        encode_example([1.0], {"km/h": 3})


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
