"""Batches of records: which columns say that a record has an optional number, and their values."""

import io
import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.support.cases import for_each
from tests.support.optional_numbers import names_of_batch, of_batch

from manylabel_core.datasets import BadDataset, ReaderLimits, read_ndjson
from manylabel_core.datasets.aligning import aligned
from manylabel_core.records import RecordEncoder
from manylabel_core.records.given_columns import given_pairs, with_given, with_new_given
from manylabel_core.records.vectorizer import RecordVectorizer

ENCODER = RecordEncoder()
BATCHES: dict[str, list[Any]] = {
    "records": [{"size": 1, "section": "games"}, {"price": 0, "size": 2}, "a text", {"price": 3, "free": False}],
    "numbers": [{"size": 1}, {"price": 2}],
    "all have it": [{"size": 1, "section": "games"}, {"size": 2}],
    "a category that has the name": [{"price": "given"}, {"price": 3}, {"size": 1, "price": "x"}],
    "a field that has the name": [{"price=given": 5, "price": 3}, {"price": 3}, {"size": 1}],
    "many": [{"a": 1, "c": "x"}, {f"n{i}": i for i in range(255)}],
    "too many": [{"a": 1, "c": "x"}, {f"n{i}": i for i in range(256)}],
    "categories": [{"c": "x"}, {"c": "y"}],
    "empty records": [{"size": 1, "c": "x"}, {}, {}],
}


def rows_of(X: Any, names: Any) -> list[dict[str, float]]:
    """Rows as values by name; a column occurs once in a row, and columns ascend."""
    found = []
    for begin, end in zip(X.indptr, X.indptr[1:], strict=False):
        columns = X.indices[begin:end]
        assert (np.diff(columns) > 0).all()
        found.append(dict(zip([names[column] for column in columns], X.data[begin:end].tolist(), strict=True)))
    return found


def file_of(records: list[Any]) -> io.BytesIO:
    return io.BytesIO("\n".join(json.dumps({"x": x, "y": ["p"]}) for x in records).encode())


@for_each("case", BATCHES)
def test_the_columns_of_a_batch(case: str) -> None:
    records = BATCHES[case]
    features = [ENCODER.encode(x) for x in records]
    vectorizer = RecordVectorizer()
    X = vectorizer.fit_transform(records)
    names = list(vectorizer.vocabulary_)
    assert X.dtype == np.float32
    assert rows_of(X, names) == of_batch(features)
    assert sorted(names) == sorted(names_of_batch(features))
    if not case.endswith("has the name"):
        assert names == names_of_batch(features)
    read = read_ndjson(file_of(records), text={})
    assert read.names == tuple(names)
    for part in ("data", "indices", "indptr"):
        assert getattr(read.X, part).tobytes() == getattr(X, part).tobytes()
    again = vectorizer.transform(records)
    assert (again != X).nnz == 0
    assert again.nnz == X.nnz


def test_a_transformed_record_says_which_known_optional_numbers_it_has() -> None:
    vectorizer = clone(RecordVectorizer()).fit(BATCHES["records"])
    X = vectorizer.transform([{"price": 9, "new": 1, "free": True}, {"size": 0, "price": "given"}, "text", {}])
    assert rows_of(X, list(vectorizer.vocabulary_)) == [
        {"price": 9.0, "free": 1.0, "price=given": 1.0, "free=given": 1.0},
        {"size": 0.0, "price=given": 1.0, "size=given": 1.0},
        {"text=text": 1.0},
        {},
    ]
    assert X.shape == (4, len(vectorizer.vocabulary_))


def test_the_columns_of_a_stream_become_those_of_a_batch() -> None:
    names = ["size", "c=x", "size=given", "c=y"]
    rows = sp.csr_array(np.array([[1, 1, 0, 0], [0, 0, 0, 1], [3, 0, 1, 0]], dtype=np.float32))
    whole, found = with_new_given(rows, names)
    assert found == ("size", "c=x", "c=y", "size=given")
    assert rows_of(whole, found) == [
        {"size": 1.0, "c=x": 1.0, "size=given": 1.0},
        {"c=y": 1.0},
        {"size": 3.0, "size=given": 1.0},
    ]
    again, same = with_new_given(whole, found)
    assert same == found
    assert (again != whole).nnz == 0


def test_a_dense_row_says_which_numbers_are_not_missing() -> None:
    columns = {"size": 0, "c=x": 1, "size=given": 2}
    X = np.array([[1, 1, np.nan], [np.nan, 1, np.nan]], dtype=np.float32)
    assert np.array_equal(with_given(X, given_pairs(columns), 3)[:, 2], [1, np.nan], equal_nan=True)
    assert np.isnan(X[:, 2]).all()


def test_a_dataset_without_optional_numbers_says_which_it_has_of_another() -> None:
    like = read_ndjson(file_of(BATCHES["records"]))
    other = read_ndjson(file_of([{"price": 3, "section": "games"}, {"price": 4, "section": "x"}]))
    assert "price=given" not in other.names
    assert rows_of(aligned(other, like).X, like.names) == [
        {"price": 3.0, "section=games": 1.0, "price=given": 1.0},
        {"price": 4.0, "price=given": 1.0},
    ]
    table = read_ndjson(file_of([{"price": 3}, {"size": 4, "price": 0}]))
    assert rows_of(aligned(table, like).X, like.names) == [
        {"price": 3.0, "price=given": 1.0},
        {"size": 4.0, "price": 0.0, "price=given": 1.0, "size=given": 1.0},
    ]


@for_each("limit", ["features", "nonzeros", "bytes"])
def test_limits_count_them(limit: str) -> None:
    records = [{"size": 1, "c": "x"}, {"c": "x"}]
    # 3 features; 2 labels and 4 values; 4 bytes a label, 8 a value and a row's end, 9 a row
    most = {"features": 3, "nonzeros": 6, "bytes": 2 * 4 + 4 * 8 + 3 * 8 + 2 * 9}[limit]
    assert read_ndjson(file_of(records), limits=ReaderLimits(**{limit: most})).names == ("size", "c=x", "size=given")
    with pytest.raises(BadDataset, match=f"{most - 1:,} are allowed"):
        read_ndjson(file_of(records), limits=ReaderLimits(**{limit: most - 1}))
