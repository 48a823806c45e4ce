"""Rows of tables and JSON lines are records: named features, the same bits whatever file they stand in."""

import csv
import gzip
import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.optional_numbers import names_of_batch, of_batch

from manylabel_core.datasets import BadDataset, Dataset, ReaderLimits, read_csv, read_dataset, read_libsvm, read_ndjson
from manylabel_core.datasets.aligning import aligned
from manylabel_core.datasets.reading import format_of
from manylabel_core.records import RecordEncoder, RecordError, RecordLimits, TextSettings

TEXT = TextSettings(fields=("title", "body"))
RECORDS: list[dict[str, Any]] = [
    {"title": "Tora! Tora! Tora!", "body": 'say "war", again', "country": "JP", "price": 3.5},
    {"title": "1984", "country": "GB", "year": 1949.0},
    {"title": "Über den Fluß\ncafé", "body": "नमस्ते दुनिया \U0001f600", "price": -0.1},
    {"body": "", "country": " two words ", "price": 0.0},
]
LABELS = [["war", "sea"], ["book"], ["sea"], ["book", "war"]]
COLUMNS = ("title", "body", "country", "price", "year")


def table(delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow([*COLUMNS, "tags"])
    for record, labels in zip(RECORDS, LABELS, strict=True):
        writer.writerow([*(record.get(name, "") for name in COLUMNS), "; ".join(labels)])
    return text.getvalue().encode()


def lines(flat: bool) -> bytes:
    rows = zip(RECORDS, LABELS, strict=True)
    return "\n".join(json.dumps({**x, "tags": y} if flat else {"x": x, "y": y}) for x, y in rows).encode()


FILES = {
    "csv": (table(), "csv", {"label_columns": "tags", "separator": ";"}),
    "tags": (table(), "csv", {"tags": "tags", "separator": ";"}),
    "tsv": (table("\t"), "tsv", {"label_columns": ["tags"], "separator": ";"}),
    "flat": (lines(True), "ndjson", {"label_columns": "tags"}),
    "items": (lines(False), "ndjson", {}),
}


def described(dataset: Dataset) -> tuple[Any, ...]:
    X, Y = dataset.X, dataset.Y
    parts = (X.data.tobytes(), X.indices.tolist(), X.indptr.tolist(), Y.indices.tolist(), Y.indptr.tolist())
    return (dataset.names, dataset.label_names, *parts, dataset.text)


@for_each("is_packed", [False, True])
@for_each("file", FILES)
def test_every_format_gives_the_features_of_the_encoder(file: str, is_packed: bool) -> None:
    data, format, options = FILES[file]
    source = io.BytesIO(gzip.compress(data) if is_packed else data)
    read = read_dataset(source, format, text=["title", "body"], **options)
    encoder = RecordEncoder(TEXT)
    features = [encoder.encode(record) for record in RECORDS]
    names, features = names_of_batch(features), of_batch(features)
    assert names[-2:] == ["price=given", "year=given"]
    assert read.names == tuple(names)
    assert (read.label_names, read.text) == (("war", "sea", "book"), TEXT)
    assert [[read.label_names[column] for column in row.indices] for row in read.Y] == [
        sorted(row, key=read.label_names.index) for row in LABELS
    ]
    for row, wanted in enumerate(features):
        values = read.X[[row]]
        stored = dict(zip((names[column] for column in values.indices), values.data.tolist(), strict=True))
        assert stored == {name: float(np.float32(value)) for name, value in wanted.items()}
    assert described(Dataset.from_bytes(read.to_bytes())) == described(read)


def test_a_table_of_numbers_is_dense() -> None:
    rows = b"a,b,tags\n1,,p\n0,0.1,q\n"
    dense = read_csv(io.BytesIO(rows), tags="tags")
    assert isinstance(dense.X, np.ndarray)
    assert (dense.text, dense.names) == (None, ("a", "b"))
    late = read_csv(io.BytesIO(rows + b"5,x,p\n"), tags="tags")
    first = read_csv(io.BytesIO(b"a,b,tags\n5,x,p\n" + rows.partition(b"\n")[2]), tags="tags")
    assert (late.names, first.names) == (("a", "b=0.1", "b=x"), ("a", "b=x", "b=0.1"))
    assert described(aligned(first.take([1, 2, 0]), late)) == described(late)
    assert late.text == TextSettings()
    named = read_ndjson(io.BytesIO(b'{"x": {"a": 1, "b": null}, "y": ["p"]}\n'))
    assert (named.text, named.names) == (None, ("a",))


def test_numbers_in_text_columns_are_text() -> None:
    data = b"title,size,l\n1984,12,1\nInfinity,nan,0\n"
    read = read_csv(io.BytesIO(data), 1, text={"fields": ["title"], "min_length": 9})
    assert read.names == ("size",), "what is not said is filled in, what is said holds"
    assert read_csv(io.BytesIO(data), 1, text="title", ignore=["size"]).names == ("title=1984", "title=infinity")


def test_labels_in_a_field() -> None:
    labels: list[Any] = ["a; b", ["b"], None, ..., [], " "]
    rows = "\n".join(json.dumps({"t": "x"} if y is ... else {"t": "x", "l": y}) for y in labels).encode()
    read = read_ndjson(io.BytesIO(rows), "l", separator=";")
    assert read.label_names == ("a", "b")
    assert read.labelled.tolist() == [True, True, False, False, True, False]
    assert read_ndjson(io.BytesIO(rows), tags="l").label_names == ("a; b", "b")
    assert read_ndjson(io.BytesIO(b'{"id": 7, "t": "x", "l": ["a"]}'), "l", ignore=["id"]).names == ("t=x",)
    assert read_ndjson(io.BytesIO(b'{"x": {"id": 7, "t": "x"}, "y": ["a"]}'), ignore=["id"]).names == ("t=x",)
    assert read_ndjson(io.BytesIO(b'{"x": "a bare text", "y": ["a"]}')).names == ("text=bare", "text=text")


@for_each(
    ("format", "data", "options", "message"),
    [
        ("csv", b"a,b\nx y,1\n", {"label_columns": "a"}, "line 2: label 'a' is 'x y': expected 0 or 1; if its cells"),
        ("csv", b"a,b,c\n1,2,3\n", {"label_columns": 2, "separator": ";"}, "a separator needs one column"),
        ("csv", b"a,b\n1,2\n", {"tags": "b", "label_columns": 1}, "cannot be combined with label columns"),
        ("csv", b"a,b\n1,2\n", {"tags": "b", "text": ["c"]}, "line 1: text column 'c' is not among the columns"),
        ("csv", b"a,b\n1,2\n", {"tags": "b", "text": ["b"]}, "line 1: a text column cannot have labels"),
        ("csv", b"a,a=x,l\nx,1,u\n", {"tags": "l"}, "line 2: x: a=x must not make a feature|line 2: .*another field"),
        ("ndjson", b'{"a": 1, "l": 3}', {"label_columns": "l"}, "line 1: l must be a list of all relevant labels"),
        ("ndjson", b'{"a": 1, "l": ["u", "u"]}', {"label_columns": "l"}, "line 1: l: a label occurs twice"),
        ("ndjson", b'{"a": 1, "l": [""]}', {"label_columns": "l"}, "line 1: names of labels have 1 to 256 bytes"),
        ("ndjson", b'{"a": 1, "l": ["u"]}', {}, "line 1: an example has x and y, not 'a', 'l'; for records, specify"),
        ("ndjson", b'{"a": 1, "l": ["u"]}', {"label_columns": 1}, "JSON lines have their labels in one field"),
        (
            "ndjson",
            b'{"a": 1, "l": ["u"]}',
            {"separator": ";"},
            "a separator needs the name of the field that lists labels",
        ),
        ("ndjson", b'{"x": {"a": ["u", 1]}, "y": ["u"]}', {}, r"line 1: x: a.1 must be a string"),
        ("ndjson", b'{"x": {"a": "\\ud800"}, "y": ["u"]}', {}, r"line 1: x: a must be valid Unicode"),
        ("ndjson", b'{"x": {"views": {"v": {"a": "u"}}}, "y": ["u"]}', {}, r"line 1: x.views.v: 'u' is not a number"),
        ("ndjson", b'{"x": {"views": {"v": "text"}}, "y": ["u"]}', {}, r"line 1: x.views.v: .*only x itself may be a"),
        ("ndjson", b'{"x": {"indices": [1]}, "y": ["u"]}', {}, r"line 1: x: must have the fields indices and values"),
    ],
)
def test_invalid_records_are_refused(format: str, data: bytes, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_dataset(io.BytesIO(data), format, **options)


@pytest.mark.parametrize(
    ("limits", "x", "message"),
    [
        (RecordLimits(characters=10), {"a": "abcde", "b": "fghijk"}, "at most 10 characters in all its strings"),
        (RecordLimits(tokens=3), {"t": "one two three four"}, "at most 3 tokens in all its texts"),
        (RecordLimits(depth=2), {"a": {"b": {"c": 1}}}, "a.b must be at most 2 objects deep"),
    ],
)
def test_a_record_is_bounded(limits: RecordLimits, x: dict[str, Any], message: str) -> None:
    data = b'{"x": {"t": "ok"}, "y": ["u"]}\n' + json.dumps({"x": x, "y": ["u"]}).encode()
    with pytest.raises(BadDataset, match=f"line 2: x: .*{message}"):
        read_ndjson(io.BytesIO(data), text=["t"], limits=ReaderLimits(record=limits))
    if "a" not in x or isinstance(x["a"], str):
        cells = ",".join(x) + ",l\n" + ",".join(x.values()) + ",u\n"
        with pytest.raises(BadDataset, match=f"line 2: x: .*{message}"):
            read_csv(
                io.BytesIO(cells.encode()),
                tags="l",
                text=["t"] if "t" in x else None,
                limits=ReaderLimits(record=limits),
            )


def test_the_vocabulary_is_bounded() -> None:
    rows = "".join(json.dumps({"x": f"word{row} and more{row}", "y": ["u"]}) + "\n" for row in range(20)).encode()
    with pytest.raises(BadDataset, match="line 10: 21 features; at most 20 are allowed"):
        read_ndjson(io.BytesIO(rows), limits=ReaderLimits(features=20))


def test_gzip_is_bounded_by_its_unpacked_size() -> None:
    bomb = gzip.compress(b"\n" * 2**24)
    assert len(bomb) < 2**15
    for format in ("csv", "tsv", "ndjson", "libsvm", "arff"):
        with pytest.raises(BadDataset, match="exceeds the limit of 65,536 bytes after decompression"):
            read_dataset(io.BytesIO(bomb), format, limits=ReaderLimits(bytes=2**16))
    with pytest.raises(BadDataset, match="the line has more than 16777216 bytes"):
        read_ndjson(io.BytesIO(gzip.compress(b"[" * 2**25)))


@for_each("damage", ["cut", "changed", "garbage", "head"])
def test_damaged_gzip_is_refused(damage: str) -> None:
    data = gzip.compress(b"1 1:1\n" * 1000)
    damaged = {
        "cut": data[:-9],
        "changed": data[:-8] + bytes(8),
        "garbage": data[:10] + b"\xff" * 20,
        "head": b"\x1f\x8b\xff",
    }[damage]
    with pytest.raises(BadDataset, match="gzip file is invalid or incomplete"):
        read_libsvm(io.BytesIO(damaged))
    assert read_libsvm(io.BytesIO(data)).n_rows == 1000


def test_formats_by_name() -> None:
    found = {name: format_of(name) for name in ("a.CSV", "a.csv.gz", "b.jsonl.GZ", "a.gz", "a.tsv", "a", "a.svm.gz")}
    assert list(found.values()) == ["csv", "csv", "ndjson", None, "tsv", None, "libsvm"]


def test_alignment_requires_equal_text_settings() -> None:
    data = io.BytesIO(lines(True))
    one = read_ndjson(data, "tags", text=TEXT)
    data.seek(0)
    other = read_ndjson(data, "tags", text={"fields": ["title", "body"], "ngrams": 2})
    with pytest.raises(ValueError, match="tokenised with different options: ngrams differ"):
        aligned(other, one)
    assert aligned(one.take([0]), one).text == TEXT


# -- any record -------------------------------------------------------------------------------------------------------

UNICODE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=30)
TEXTS = st.one_of(
    UNICODE,
    st.sampled_from(
        [
            "e\u0301 cafe\u0301 \u0915\u094d\u0937",  # combining characters
            "שלום עולם, مرحبا",  # from right to left
            "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd ok",  # emoji, joined and coloured
            '"quoted", and\ttabbed\nin two lines',
            "\ufb01ne \uff21\uff22 İstanbul ß",
            "\x00 \u2028 \x85 x",
            "w" * 300,
        ]
    ),
)
VALUES = st.one_of(
    TEXTS, st.none(), st.booleans(), st.integers(-(10**15), 10**15), st.floats(-1e15, 1e15), st.lists(TEXTS, max_size=3)
)
ANY_RECORD = st.one_of(TEXTS, st.dictionaries(TEXTS, st.one_of(VALUES, st.dictionaries(TEXTS, VALUES, max_size=2))))


@given(st.lists(ANY_RECORD, min_size=1, max_size=4), st.booleans())
def test_any_json_line_has_the_features_of_the_encoder(records: list[Any], is_packed: bool) -> None:
    encoder = RecordEncoder(TEXT)
    data = "\n".join(json.dumps({"x": x, "y": ["u"]}) for x in records).encode()
    source = io.BytesIO(gzip.compress(data, 1) if is_packed else data)
    try:
        expected = [encoder.encode(x) for x in records]
    except RecordError:
        with pytest.raises(BadDataset):
            read_ndjson(source, text=TEXT)
        return
    names, expected = names_of_batch(expected), of_batch(expected)
    if not names or {"views"} in [x.keys() for x in records if isinstance(x, dict)]:
        return
    check_rows(read_ndjson(source, text=TEXT), names, expected)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4), st.sampled_from(",\t"))
def test_any_table_row_has_the_features_of_the_encoder(rows: list[tuple[str, ...]], delimiter: str) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(["title", "body", "kind", "l"])
    writer.writerows([*row, "u"] for row in rows)
    records = [
        {
            name: cell
            for name, cell in zip(("title", "body", "kind"), row, strict=True)
            if not (not cell or cell.isspace())
        }
        for row in rows
    ]
    expected = [RecordEncoder(TEXT).encode(x) for x in records]
    names, expected = names_of_batch(expected), of_batch(expected)
    assume(names)
    source = io.BytesIO(text.getvalue().encode())
    options = {"tags": "l", "text": TEXT, "category": "kind", "missing": ()}
    check_rows(read_dataset(source, {",": "csv", "\t": "tsv"}[delimiter], **options), names, expected)


def check_rows(read: Dataset, names: list[str], expected: list[dict[str, float]]) -> None:
    assert read.names == tuple(names)
    X = read.X
    for row, wanted in enumerate(expected):
        begin, end = X.indptr[row], X.indptr[row + 1]
        stored = {names[column]: value for column, value in zip(X.indices[begin:end], X.data[begin:end], strict=True)}
        assert stored == {name: np.float32(value) for name, value in wanted.items()}


@for_each("x", [{"title": "\ud800"}, {"\udfff": 1}, {"kind": ["a", "\udc00"]}, "\ud83d"])
def test_a_lone_surrogate_is_refused(x: Any) -> None:
    lines = b'{"x": {"title": "ok"}, "y": ["u"]}\n' + json.dumps({"x": x, "y": ["u"]}).encode()
    with pytest.raises(BadDataset, match=r"line 2: x: .*(must be valid|is not) Unicode"):
        read_ndjson(io.BytesIO(lines), text=TEXT)


def test_a_word_of_a_megabyte() -> None:
    word = "é" * 10**6
    lines = json.dumps({"x": {"title": f"{word} cat", "kind": word}, "y": ["u"]}).encode()
    with pytest.raises(BadDataset, match="line 1: x: must have at most 100,000 characters"):
        read_ndjson(io.BytesIO(lines), text=TEXT)
    limits = RecordLimits(characters=3 * 10**6)
    read = read_ndjson(io.BytesIO(lines), text=TEXT, limits=ReaderLimits(record=limits))
    assert read.names == tuple(RecordEncoder(TEXT, limits).encode(json.loads(lines)["x"]))
    assert max(len(name.encode()) for name in read.names or ()) <= 256
