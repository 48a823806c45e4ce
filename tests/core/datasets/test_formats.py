"""The same dataset in every format, and what each format can say beside."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rows import arff_of

from manylabel_core.datasets import (
    FORMATS,
    BadDataset,
    Dataset,
    ReaderLimits,
    read_arff,
    read_csv,
    read_dataset,
    read_libsvm,
    read_ndjson,
    read_npz,
)

FEATURES = ("tempo", "it's", 'a "b", {c}', "naïve\\5%", "x y")
LABELS = ("rock", "jazz'n'soul", "R, B")

floats = st.one_of(st.just(0.0), st.floats(-(2.0**40), 2.0**40, width=32))
tables = st.integers(1, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(floats, min_size=5, max_size=5), min_size=n, max_size=n),
        st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=n, max_size=n),
    )
)


def arff(X: np.ndarray, Y: np.ndarray, sparse: bool) -> bytes:
    rows = [[*x, *y] for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    return arff_of(FEATURES, LABELS, rows, sparse).encode()


def csv_file(X: np.ndarray, Y: np.ndarray) -> bytes:
    names = ['"' + name.replace('"', '""') + '"' for name in (*FEATURES, *LABELS)]
    rows = [",".join(map(repr, [*x, *y])) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    return "\r\n".join([",".join(names), *rows]).encode()


def ndjson(X: np.ndarray, Y: np.ndarray, form: str) -> bytes:
    lines = []
    for x, y in zip(X.tolist(), Y.tolist(), strict=True):
        items: object = x
        if form == "named":
            items = dict(zip(FEATURES, x, strict=True))
        elif form == "sparse":
            items = {"indices": [4, 0, 1, 2, 3], "values": [x[4], *x[:4]]}
        lines.append(
            json.dumps({"x": items, "y": [name for name, relevant in zip(LABELS, y, strict=True) if relevant]})
        )
    return "\n".join(lines).encode()


def npz(**arrays: object) -> io.BytesIO:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    file.seek(0)
    return file


def csr(name: str, matrix: np.ndarray) -> dict[str, np.ndarray]:
    m = sp.csr_array(matrix)
    parts = {"data": m.data, "indices": m.indices, "indptr": m.indptr, "shape": np.array(m.shape)}
    return {f"{name}_{part}": array for part, array in parts.items()}


def dense(view: object) -> np.ndarray:
    return view.toarray() if sp.issparse(view) else view  # type: ignore[attr-defined, no-any-return]


def same(dataset: Dataset, X: np.ndarray, Y: np.ndarray, by_name: bool = False) -> None:
    assert dataset.X.dtype == np.float32
    assert dataset.Y.dtype == np.int8
    np.testing.assert_array_equal(dense(dataset.X), X)
    found = dataset.Y.toarray()
    if by_name:  # labels in the order in which they came; one that is relevant nowhere has no column
        found = np.zeros_like(Y)
        found[:, [LABELS.index(name) for name in dataset.label_names]] = dataset.Y.toarray()
    np.testing.assert_array_equal(found, Y)
    assert dataset.labelled.all()


@given(table=tables)
def test_every_format_gives_the_same_dataset(table: tuple[list[list[float]], list[list[int]]]) -> None:
    X, Y = np.array(table[0], dtype=np.float32), np.array(table[1], dtype=np.int8)
    for sparse in (False, True):
        read = read_arff(io.BytesIO(arff(X, Y, sparse)))
        same(read, X, Y)
        assert sp.issparse(read.X) == sparse
        assert (read.names, read.label_names) == (FEATURES, LABELS)
    table_read = read_csv(io.BytesIO(csv_file(X, Y)), label_columns=3)
    same(table_read, X, Y)
    assert (table_read.names, table_read.label_names) == (FEATURES, LABELS)
    names = {"feature_names": np.array(FEATURES), "label_names": np.array(LABELS)}
    for features in ({"X": X}, {"X": X.astype(np.float64)}, {"X": np.asfortranarray(X)}, csr("X", X)):
        for labels in ({"Y": Y}, {"Y": Y.astype(bool)}, csr("Y", Y)):
            read = read_npz(npz(**features, **labels, **names))
            same(read, X, Y)
            assert (read.names, read.label_names) == (FEATURES, LABELS)
    if Y.any():
        for form in ("list", "sparse", "named"):
            read = read_ndjson(io.BytesIO(ndjson(X, Y, form)))
            same(read, X, Y, by_name=True)
            assert read.names == (FEATURES if form == "named" else None)


@given(table=tables, base=st.sampled_from([0, 1]), said=st.booleans())
def test_libsvm(table: tuple[list[list[float]], list[list[int]]], base: int, said: bool) -> None:
    X, Y = np.array(table[0], dtype=np.float32), np.array(table[1], dtype=np.int8)
    X[:, 0], X[0, 4], Y[0] = 1.5, 2.5, 1  # the first and the last feature are there, and every label
    lines = ["# a comment"]
    for x, y in zip(X.tolist(), Y.tolist(), strict=True):
        words = [",".join(str(10 - i) for i, relevant in enumerate(y) if relevant)]
        words += [f"{i}:{value!r}" for i, value in enumerate(x, base) if value]
        lines.append(" ".join([*words, "#", "ignored"]))
    source = io.BytesIO("\n\n".join(lines).encode())
    dataset = read_libsvm(source, zero_based=base == 0) if said else read_libsvm(source)
    assert dataset.label_names == ("8", "9", "10"), "numbers stand in their order"
    same(dataset, X, Y[:, ::-1])


def test_libsvm_with_sizes_counts_from_0() -> None:
    dataset = read_libsvm(io.BytesIO(b"2 4 3\n0,2 1:1\n 2:5\n"))
    assert dataset.label_names == ("0", "1", "2")
    assert dense(dataset.X).tolist() == [[0, 1, 0, 0], [0, 0, 5, 0]]
    assert dataset.Y.toarray().tolist() == [[1, 0, 1], [0, 0, 0]]


def test_zero_based_overrides_detection_in_libsvm() -> None:
    dataset = read_libsvm(io.BytesIO(b"a 1:1 3:2\n"), zero_based=True)
    assert dense(dataset.X).tolist() == [[0, 1, 0, 2]]
    with pytest.raises(BadDataset, match="a feature has the number 0"):
        read_libsvm(io.BytesIO(b"a 0:1 3:2\n"), zero_based=False)


def test_arff_nominal_attributes_and_missing_values() -> None:
    text = b"""@relation r
        @attribute tempo real
        @attribute mood {calm, 'very wild'}
        @attribute loud {1, 0}
        @attribute rock {0, 1}
        @attribute jazz {FALSE, TRUE}
        @attribute soul {1, 0}
        @data
        120, 'very wild', 0, 1, TRUE, 0
        ?, calm, 1, ?, ?, ?
        {0 3, 4 TRUE}
        {1 'very wild', 2 0, 5 0}
    """
    dataset = read_arff(io.BytesIO(text), labels=["jazz", "rock", "soul"])
    assert dataset.names == ("tempo", "mood=calm", "mood=very wild", "loud")
    assert dense(dataset.X).tolist() == [[120, 0, 1, 0], [0, 1, 0, 1], [3, 1, 0, 1], [0, 0, 1, 0]]
    assert np.diff(dataset.X.indptr).tolist() == [3, 2, 3, 2], "a 0 in a dense row is stored, what is missing is not"
    assert dataset.label_names == ("rock", "jazz", "soul")
    assert dataset.labelled.tolist() == [True, False, True, True]
    assert dataset.Y.toarray().tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1], [0, 0, 0]]


XML = b'<labels xmlns="http://mulan.sourceforge.net/labels"><label name="b"><label name="a"></label></label></labels>'


@pytest.mark.parametrize(("labels", "names"), [(2, ("a", "b")), (-1, ("c",)), (["c", "a"], ("a", "c"))])
def test_arff_labels(tmp_path: Path, labels: int | list[str], names: tuple[str, ...]) -> None:
    text = b"@relation r\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c {0,1}\n@data\n0,1,1\n"
    assert read_arff(io.BytesIO(text), labels).label_names == names
    (tmp_path / "r.xml").write_bytes(XML)
    for xml in (tmp_path / "r.xml", str(tmp_path / "r.xml"), io.BytesIO(XML)):
        assert read_arff(io.BytesIO(text), xml).label_names == ("a", "b")


def test_missing_values_and_zeros() -> None:
    """A missing value is NaN in a dense view and not stored in a sparse one; a given 0 is a value in both."""
    expected = np.float32([[0, np.nan], [np.nan, 2]])
    arff_text = b"@relation r\n@attribute a real\n@attribute b real\n@attribute l {0,1}\n@data\n0,?,1\n?,2,0\n"
    for read in (
        read_csv(io.BytesIO(b"a,b,l\n0,,1\n ,2,0\n"), 1),
        read_arff(io.BytesIO(arff_text), -1),
        read_ndjson(io.BytesIO(b'{"x":[0,null],"y":["l"]}\n{"x":[null,2],"y":[]}\n')),
        read_npz(npz(X=expected, Y=np.int8([[1], [0]]))),
    ):
        np.testing.assert_array_equal(read.X, expected)
        np.testing.assert_array_equal(Dataset.from_bytes(read.to_bytes()).X, expected)
    data = {"X_data": np.float32([0, 2]), "X_indices": np.array([0, 1]), "X_indptr": np.array([0, 1, 2])}
    for read in (
        read_ndjson(io.BytesIO(b'{"x":{"a":0,"b":null},"y":["l"]}\n{"x":{"b":2},"y":[]}\n')),
        read_ndjson(
            io.BytesIO(b'{"x":{"indices":[1,0],"values":[null,0]},"y":["l"]}\n{"x":{"indices":[1],"values":[2]}}')
        ),
        read_libsvm(io.BytesIO(b"l 1:0\n 2:2\n")),
        read_npz(npz(**data, X_shape=np.array([2, 2]), Y=np.int8([[1], [0]]))),
    ):
        X = Dataset.from_bytes(read.to_bytes()).X
        assert [part.tolist() for part in (X.indptr, X.indices, X.data)] == [[0, 1, 2], [0, 1], [0.0, 2.0]]
    views = Dataset({"dense": expected, "sparse": X}, read.Y, read.label_names).X
    assert [part.tolist() for part in (views.indptr, views.indices, views.data)] == [
        [0, 2, 4],
        [0, 2, 1, 3],
        [0, 0, 2, 2],
    ]


def test_unlabelled_rows() -> None:
    ndjson_read = read_ndjson(io.BytesIO(b'{"x":[1],"y":["a"]}\n{"x":[2],"y":null}\n{"x":[3]}\n{"x":[4],"y":[]}\n'))
    assert ndjson_read.labelled.tolist() == [True, False, False, True]
    csv_read = read_csv(io.BytesIO(b"f,a,b\n1,0,1\n2,,\n3,0,0\n"), ["a", "b"])
    assert csv_read.labelled.tolist() == [True, False, True]
    Y, labelled = np.int8([[1], [0], [0]]), np.array([True, False, True])
    npz_read = read_npz(npz(X=np.ones((3, 1)), Y=Y, labelled=labelled))
    assert npz_read.labelled.tolist() == [True, False, True]
    assert npz_read.describe() | {"rows": 3} == npz_read.describe()
    assert (npz_read.describe()["unlabelled"], npz_read.describe()["cardinality"]) == (1, 0.5)


def test_npz_views_and_splits() -> None:
    X, Y = np.arange(12, dtype=np.float32).reshape(3, 4) + 1, np.int8([[1], [0], [1]])
    more = {"view_id": np.int8([1, 0, 1, 0]), "view_names": np.array(["text", "sound"])}
    splits = {"train_idx": np.int32([2, 0]), "test_idx": np.int64([1])}
    unsigned = {**more, "view_id": np.uint64([1, 0, 1, 0])}
    for features, views in ({"X": X}, more), (csr("X", X), more), ({"X": X}, unsigned):
        names = np.array(list("abcd"))
        dataset = read_npz(npz(**features, Y=Y, feature_names=names, **views, **splits))
        assert {name: dense(view).tolist() for name, view in dataset.views.items()} == {
            "text": X[:, [1, 3]].tolist(),
            "sound": X[:, [0, 2]].tolist(),
        }
        assert dataset.feature_names == {"text": ("b", "d"), "sound": ("a", "c")}
        assert dataset.names == ("b", "d", "a", "c")
        np.testing.assert_array_equal(dense(dataset.X), X[:, [1, 3, 0, 2]])
        assert {name: rows.tolist() for name, rows in dataset.splits.items()} == {"train": [0, 2], "test": [1]}
        assert dense(dataset.split("train").views["text"]).tolist() == X[np.ix_([0, 2], [1, 3])].tolist()
        with pytest.raises(ValueError, match="there is no split 'dev'; allowed are train, test, all"):
            dataset.split("dev")


def test_ndjson_views() -> None:
    lines = [
        {"x": {"views": {"text": {"a": 1, "b": 2}, "sound": [1, 2]}}, "y": ["u"]},
        {"x": {"views": {"sound": [3, 4], "text": {"c": 5}}}, "y": ["v", "u"]},
    ]
    dataset = read_ndjson(io.BytesIO("\n".join(map(json.dumps, lines)).encode()))
    assert dense(dataset.views["text"]).tolist() == [[1, 2, 0], [0, 0, 5]]
    assert dense(dataset.views["sound"]).tolist() == [[1, 2], [3, 4]]
    assert dataset.feature_names == {"text": ("a", "b", "c"), "sound": None}
    assert dataset.names is None
    assert dense(dataset.X).tolist() == [[1, 2, 0, 1, 2], [0, 0, 5, 3, 4]]
    assert dataset.Y.toarray().tolist() == [[1, 0], [1, 1]]


def test_ndjson_rows_lack_views() -> None:
    lines = [
        {"x": {"views": {"text": {"a": 1}}}, "y": ["u"]},
        {"x": {"views": {"sound": [3, 4], "text": {"b": 5}}}},
        {"x": {"views": {"sound": [0, 6]}}, "y": ["v"]},
    ]
    dataset = read_ndjson(io.BytesIO("\n".join(map(json.dumps, lines)).encode()))
    assert list(dataset.views) == ["text", "sound"]
    assert dense(dataset.views["text"]).tolist() == [[1, 0], [0, 5], [0, 0]]
    assert dense(dataset.views["sound"]).tolist() == [[0, 0], [3, 4], [0, 6]]
    assert isinstance(dataset.views["sound"], np.ndarray)
    assert {name: mask.tolist() for name, mask in dataset.missing.items()} == {
        "text": [False, False, True],
        "sound": [True, False, False],
    }
    assert dataset.describe()["missing"] == {"text": 1, "sound": 1}
    assert list(dataset.take([1, 2]).missing) == ["text"]
    assert not dataset.take([1]).missing
    assert "missing" not in dataset.take([1]).describe()


def test_npz_rows_lack_views() -> None:
    X, Y = np.arange(12, dtype=np.float32).reshape(3, 4) + 1, np.int8([[1], [0], [1]])
    more = {"view_id": np.int8([1, 0, 1, 0]), "view_names": np.array(["text", "sound"])}
    missing = np.array([[True, False], [False, False], [False, True]])
    X[0, [1, 3]], X[2, [0, 2]] = np.nan, np.inf
    for features in ({"X": X}, csr("X", X)):
        dataset = read_npz(npz(**features, Y=Y, missing=missing, **more))
        assert dense(dataset.views["text"]).tolist() == [[0, 0], [6, 8], [10, 12]]
        assert dense(dataset.views["sound"]).tolist() == [[1, 3], [5, 7], [0, 0]]
        assert {name: mask.tolist() for name, mask in dataset.missing.items()} == {
            "text": [True, False, False],
            "sound": [False, False, True],
        }
        assert not sp.issparse(dataset.views["text"]) or dataset.views["text"].nnz == 4


def test_equal_feature_names_in_two_views_are_prefixed() -> None:
    line = {"x": {"views": {"title": {"cat": 1}, "body": {"cat": 2, "dog": 1}}}, "y": ["pets"]}
    assert read_ndjson(io.BytesIO(json.dumps(line).encode())).names == ("title.cat", "body.cat", "body.dog")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match=f"format must be one of {', '.join(FORMATS)}, not 'xls'"):
        read_dataset(io.BytesIO(), "xls")


def test_values_too_small_for_float32_are_0() -> None:
    dataset = read_libsvm(io.BytesIO(b"a 1:1e-60 2:1\n"))
    assert dataset.X.toarray().tolist() == [[0, 1]]  # type: ignore[union-attr]


@pytest.mark.parametrize("between", [";", "\t", ","])
def test_the_separator_of_a_table_is_recognised(between: str) -> None:
    text = "a,the b,rock,jazz\n1,2,1,0\n3,4,0,1\n".replace(",", between).encode()
    dataset = read_csv(io.BytesIO(text), ["rock", "jazz"])
    assert dataset.to_bytes() == read_csv(io.BytesIO(text), ["rock", "jazz"], delimiter=between).to_bytes()
    assert (dataset.n_rows, dataset.label_names) == (2, ("rock", "jazz"))


def test_separators_within_quotes_do_not_count() -> None:
    dataset = read_csv(io.BytesIO(b'"a;b;c;d",e,y\n1,2,1\n'), ["y"])
    assert (dataset.n_rows, dataset.label_names) == (1, ("y",))


def test_a_missing_label_column_error_lists_the_columns() -> None:
    columns = [f"c{i}" for i in range(9)]
    for options in ({"label_columns": ["mood"]}, {"tags": "mood"}, {"label_columns": 10}):
        with pytest.raises(BadDataset) as refused:
            read_csv(io.BytesIO((";".join(columns) + "\n").encode()), **options)  # type: ignore[arg-type]
        assert all(f"'{column}'" in str(refused.value) for column in columns)


def test_empty_and_header_only_tables_have_different_errors() -> None:
    with pytest.raises(BadDataset) as empty:
        read_csv(io.BytesIO(b"\n"), 1)
    with pytest.raises(BadDataset) as header_alone:
        read_csv(io.BytesIO(b"a,y\n"), 1)
    assert str(empty.value) != str(header_alone.value)


def test_csv_with_a_column_of_tags() -> None:
    text = b"id,tempo,tags\n1,120,rock;loud\n2,80,\n3,90, jazz ;rock;rock\n"
    data = read_csv(io.BytesIO(text), tags="tags", separator=";", ignore=["id"])
    assert (data.names, data.label_names) == (("tempo",), ("rock", "loud", "jazz"))
    assert data.Y.toarray().tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 1]]
    assert data.labelled.tolist() == [True, False, True]
    with pytest.raises(BadDataset, match="labels"):
        read_csv(io.BytesIO(text), tags="tags", separator=";", ignore=["id"], limits=ReaderLimits(labels=2))
