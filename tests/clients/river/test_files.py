"""Multi-label files as river streams: the same rows in every format, and errors that name the line."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tests.support.cases import for_each
from tests.support.rows import arff_of

from manylabel_clients.river import ArffFile, FileFormatError, LibsvmFile, NpzFile, open_stream

Row = tuple[dict[str, float], dict[str, bool]]

FEATURES = ("tempo", "it's", 'a "b", {c}', "naïve\\5%", "x y")
LABELS = ("rock", "jazz'n'soul", "R, B")

floats = st.floats(-(2.0**40), 2.0**40, width=32)
matrix = st.lists(
    st.tuples(
        st.lists(st.one_of(st.just(0.0), floats), min_size=len(FEATURES), max_size=len(FEATURES)),
        st.lists(st.booleans(), min_size=len(LABELS), max_size=len(LABELS)),
    ),
    min_size=1,
    max_size=8,
)


def dense_rows(data: list[tuple[list[float], list[bool]]]) -> list[Row]:
    return [(dict(zip(FEATURES, x, strict=True)), dict(zip(LABELS, y, strict=True))) for x, y in data]


def sparse_rows(data: list[tuple[list[float], list[bool]]]) -> list[Row]:
    return [({name: value for name, value in x.items() if value}, y) for x, y in dense_rows(data)]


def write_libsvm(path: Path, data: list[tuple[list[float], list[bool]]], base: int) -> None:
    lines = ["# written by a test"]
    for x, y in data:
        labels = ",".join(str(i) for i, relevant in enumerate(y, base) if relevant)
        lines.append(" ".join([labels, *(f"{i}:{value!r}" for i, value in enumerate(x, base) if value), "#"]))
    path.write_text("\n".join(lines))


def write_arff(path: Path, data: list[tuple[list[float], list[bool]]], *, is_sparse: bool) -> None:
    rows = [[*x, *map(int, y)] for x, y in data]
    path.write_text(arff_of(FEATURES, LABELS, rows, is_sparse) + "\n\n", encoding="utf-8")


def write_npz(path: Path, data: list[tuple[list[float], list[bool]]], *, is_sparse: bool) -> None:
    X = np.array([x for x, _ in data], dtype=np.float32).reshape(-1, len(FEATURES))
    Y = np.array([y for _, y in data], dtype=np.int8).reshape(-1, len(LABELS))
    names = {"feature_names": np.array(FEATURES), "label_names": np.array(LABELS)}
    if not is_sparse:
        np.savez(path, X=X, Y=Y, **names)
        return
    x, y = sparse.csr_array(X), sparse.csr_array(Y)
    np.savez_compressed(
        path,
        X_data=x.data,
        X_indices=x.indices,
        X_indptr=x.indptr,
        X_shape=x.shape,
        Y_indices=y.indices,
        Y_indptr=y.indptr,
        Y_shape=y.shape,
        **names,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@given(data=matrix, base=st.sampled_from([0, 1]))
def test_every_format_gives_the_same_rows(folder: Path, data: list, base: int) -> None:
    svm, arff, npz = (folder / f"data.{extension}" for extension in ("svm", "arff", "npz"))

    # In libsvm, a row with neither labels nor features is an empty line, which is skipped.
    visible = [(x, y) for x, y in data if any(x) or any(y)]
    write_libsvm(svm, visible, base)
    stream = open_stream(svm, labels=LABELS, features=FEATURES, zero_based=base == 0)
    assert list(stream) == sparse_rows(visible)

    write_arff(arff, data, is_sparse=True)
    assert list(open_stream(arff)) == sparse_rows(data)
    write_arff(arff, data, is_sparse=False)
    assert list(open_stream(arff)) == dense_rows(data)

    write_npz(npz, data, is_sparse=True)
    assert list(open_stream(npz)) == sparse_rows(data)
    write_npz(npz, data, is_sparse=False)
    assert list(open_stream(npz)) == dense_rows(data)


def test_a_stream_can_be_read_again_and_in_part(tmp_path: Path) -> None:
    data = [([1.0, 0, 0, 0, 2.0], [True, False, False]), ([0, 3.0, 0, 0, 0], [False, True, False])]
    write_npz(tmp_path / "a.npz", data, is_sparse=False)
    stream = open_stream(tmp_path / "a.npz")
    assert list(stream.take(1)) == dense_rows(data)[:1]
    assert list(stream) == list(stream) == dense_rows(data)
    assert (stream.n_samples, stream.n_features, stream.n_outputs, stream.labels) == (2, 5, 3, LABELS)
    assert repr(stream) == f"NpzFile({str(tmp_path / 'a.npz')!r}: 2 rows, 3 labels)"


def test_libsvm_without_names_finds_its_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.libsvm"
    path.write_text("10,2 3:1\n7:0.5 # no label\n\n2 word=cat:1\n")
    stream = LibsvmFile(path)
    assert stream.labels == ("2", "10")
    assert stream.n_samples == 3
    assert list(stream) == [
        ({"3": 1.0}, {"2": True, "10": True}),
        ({"7": 0.5}, {"2": False, "10": False}),
        ({"word=cat": 1.0}, {"2": True, "10": False}),
    ]


def write_songs(path: Path, rows: str, relation: str = "songs") -> Path:
    header = """
        @attribute tempo real
        @attribute mood {calm, 'very wild'}
        @attribute loud {1, 0}
        @attribute rock {0, 1}
        @attribute jazz {FALSE, TRUE}
    """
    path.write_text(f"@relation '{relation}'\n{header}\n@data\n{rows}\n")
    return path


def test_arff_has_nominal_missing_and_omitted_values(tmp_path: Path) -> None:
    rows = """
        120, 'very wild', 0, 1, TRUE
        ?, calm, 1, ?, FALSE
        % a comment
        {0 3, 4 TRUE}
        {1 'very wild', 2 0, 3 ?}
        {}
    """
    stream = ArffFile(write_songs(tmp_path / "a.arff", rows), labels=["rock", "jazz"])
    assert stream.n_features == 4
    assert list(stream) == [
        ({"tempo": 120.0, "mood=very wild": 1.0, "loud": 0.0}, {"rock": True, "jazz": True}),
        ({"mood=calm": 1.0, "loud": 1.0}, {"jazz": False}),
        ({"tempo": 3.0, "mood=calm": 1.0, "loud": 1.0}, {"rock": False, "jazz": True}),
        ({"mood=very wild": 1.0, "loud": 0.0}, {"jazz": False}),
        ({"mood=calm": 1.0, "loud": 1.0}, {"rock": False, "jazz": False}),
    ]


XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
  <label name="jazz"><label name="rock"></label></label>
</labels>"""


@for_each("stem", ["songs", "songs-train", "songs-test", "songsTest-10", "songs-test-sparse"])
def test_arff_labels_from_the_xml_beside_it(tmp_path: Path, stem: str) -> None:
    (tmp_path / "songs.xml").write_text(XML)
    assert open_stream(write_songs(tmp_path / f"{stem}.arff", "")).labels == ("rock", "jazz")


def test_arff_labels_come_from_a_named_xml_or_from_meka(tmp_path: Path) -> None:
    (tmp_path / "other.xml").write_text(XML)
    path = write_songs(tmp_path / "a.arff", "")
    assert ArffFile(path, labels=tmp_path / "other.xml").labels == ("rock", "jazz")
    assert ArffFile(path, labels=str(tmp_path / "other.xml")).labels == ("rock", "jazz")
    assert ArffFile(path, labels=-1).labels == ("jazz",)
    meka = write_songs(tmp_path / "b.arff", "", "songs: -C -2 -split-percentage 66")
    assert ArffFile(meka).labels == ("rock", "jazz")


@for_each(
    ("name", "contents", "place"),
    [
        ("a.svm", "1 1:2\n1 1:x\n", ", line 2: '1:x' is not feature:number"),
        ("a.svm", "1 0:2\n", ", line 1: feature '0' has no name: allowed are the numbers 1 to 2"),
        ("a.svm", "1 1:2\n1,3 1:2\n", ", line 2: label '3' has no name: allowed are the numbers 1 to 2"),
        ("a.svm", "1, 1:2\n", ", line 1: label '' has no name"),
        ("a.arff", "@attribute a string\n@data\n", ", line 1: attribute 'a' is 'string'"),
        ("a.arff", "@attribute a real\n@attribute rock {0,1}\n@data\n1, 2\n", ", line 4: label 'rock' is '2'"),
        ("a.xml", "<labels>\n<label/></labels>", ", line 2: a label has no name"),
        ("a.npz", "PK but not really", ": "),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path: Path, name: str, contents: str, place: str) -> None:
    """`tests/core/datasets/test_hostile.py` has all kinds of invalid files."""
    path = tmp_path / name
    path.write_text(contents)
    arff = write_songs(tmp_path / "songs.arff", "")
    makes: dict[str, Callable[[], Any]] = {
        ".svm": lambda: LibsvmFile(path, labels=["rock", "jazz"], features=["a", "b"]),
        ".arff": lambda: ArffFile(path, labels=-1),
        ".xml": lambda: ArffFile(arff, labels=path),
        ".npz": lambda: NpzFile(path),
    }
    with pytest.raises(FileFormatError) as caught:
        list(makes[path.suffix]())
    assert str(caught.value).startswith(f"{path}{place}")
    assert caught.value.path == path


def test_arff_without_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="the label attributes are unknown: put the Mulan XML"):
        ArffFile(write_songs(tmp_path / "a.arff", ""))


def test_npz_stored_by_columns(tmp_path: Path) -> None:
    X, Y = np.float32([[1, 2], [3, 4], [5, 6]]), np.int8([[0, 1, 1], [1, 0, 0], [1, 1, 0]])
    np.savez(tmp_path / "rows.npz", X=X, Y=Y)
    np.savez(tmp_path / "columns.npz", X=np.asfortranarray(X), Y=np.asfortranarray(Y))
    rows = list(NpzFile(tmp_path / "rows.npz"))
    assert [list(x.values()) for x, _ in rows] == X.tolist()
    assert list(NpzFile(tmp_path / "columns.npz")) == rows


@pytest.mark.parametrize("form", ["svm", "arff", "csv", "jsonl.gz"])
def test_rows_are_read_lazily(tmp_path: Path, form: str) -> None:
    path, n_samples = tmp_path / f"a.{form}", 40_000 if form == "csv" else 5_000  # of a table, 256 rows are in memory
    data = [([float(i), 1.5, 2.5, 0, 7.5], [True, False, i % 2 == 0]) for i in range(n_samples)]
    options = {"csv": {"tags": "tags", "separator": " "}, "jsonl.gz": {"tags": "tags"}}.get(form, {})
    if form == "arff":
        write_arff(path, data, is_sparse=True)
    elif form == "svm":
        write_libsvm(path, data, 1)
    elif form == "csv":
        path.write_text("title,tags\n" + "".join(f"some words of row {i},a b\n" for i in range(n_samples)))
    else:
        lines = (json.dumps({"title": f"some words of row {i}", "tags": ["a", "b"]}) + "\n" for i in range(n_samples))
        path.write_bytes(gzip.compress("".join(lines).encode()))
    del data
    unpacked_bytes = len(gzip.decompress(path.read_bytes())) if path.suffix == ".gz" else path.stat().st_size
    next(iter(open_stream(path, **options)))  # imports and compiles
    tracemalloc.start()
    try:
        assert sum(1 for _ in open_stream(path, **options)) == n_samples
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < unpacked_bytes


def test_unknown_extension(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown extension '\.xls', allowed are \.arff, \.csv, \.jsonl, \.libsvm"):
        open_stream(tmp_path / "a.xls.gz")


def test_examples_have_the_weights_of_rows(tmp_path: Path) -> None:
    """Iteration over a stream omits the weights."""
    rows = [({"tempo": 120.0}, {"rock": True}), ({"tempo": 80.0}, {"rock": False})]
    head = "@relation r\n@attribute tempo real\n@attribute rock {0,1}\n@data\n"
    (tmp_path / "dense.arff").write_text(f"{head}120,1,{{2.5}}\n80,0\n")
    (tmp_path / "sparse.arff").write_text(f"{head}{{0 120, 1 1}}, {{2.5}}\n{{0 80}}\n")
    for name in ("dense.arff", "sparse.arff"):
        file = ArffFile(tmp_path / name, labels=-1)
        assert list(file) == rows
        assert list(file.examples()) == [(*rows[0], 2.5), rows[1]]
    arrays = {"X": np.float32([[120], [80]]), "Y": np.int8([[1], [0]]), "feature_names": ["tempo"]}
    np.savez(tmp_path / "songs.npz", **arrays, label_names=["rock"], weight=[2.5, 1])
    npz = NpzFile(tmp_path / "songs.npz")
    assert list(npz) == rows
    assert list(npz.examples()) == [(*rows[0], 2.5), (*rows[1], 1.0)]
    np.savez(tmp_path / "wrong.npz", **arrays, weight=[2.5, 0])
    with pytest.raises(FileFormatError, match="row 1: 'weight' must be above 0 and at most 1000, not 0"):
        list(NpzFile(tmp_path / "wrong.npz"))
