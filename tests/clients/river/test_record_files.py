"""Files of records as river streams: read lazily, and learnt to the same bits as Python objects."""

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from manylabel_clients.river import FALT, FileFormatError, open_stream

TEXT = {"fields": ["title"]}
ROWS = [
    ({"title": "Tora! Tora!", "country": "JP", "price": 3.5}, ["war", "sea"]),
    ({"title": "1984", "country": "GB"}, ["book"]),
    ({"title": "Über den Fluß", "price": 0.0}, []),
]
CSV = 'title,country,price,id,tags\nTora! Tora!,JP,3.5,1,"war; sea"\n1984,GB,,2,book\nÜber den Fluß,,0,3,\n'


def write(folder: Path, form: str) -> Path:
    path = folder / f"rows.{form}"
    flat = [{**x, "id": i, "tags": y} for i, (x, y) in enumerate(ROWS)]
    texts = {
        "csv": CSV,
        "tsv": CSV.replace(",", "\t"),
        "jsonl": "\n".join(map(json.dumps, flat)),
        "ndjson": "\n".join(json.dumps({"x": x, "y": y}) for x, y in ROWS),
    }
    data = texts[form.split(".")[0]].encode()
    path.write_bytes(gzip.compress(data) if form.endswith(".gz") else data)
    return path


def options_of(form: str) -> dict[str, Any]:
    if form.startswith("ndjson"):
        return {}
    separator = {} if form.startswith("jsonl") else {"separator": ";", "text": ["title"]}
    return {"labels": "tags", "ignore": ["id"], **separator}


@pytest.mark.parametrize("form", ["csv", "tsv.gz", "jsonl", "ndjson.gz"])
def test_records_of_a_file_are_learnt_as_python_objects(tmp_path: Path, form: str) -> None:
    stream = open_stream(write(tmp_path, form), **options_of(form))
    rows = [row for row in ROWS if row[1] or form[0] not in "ct"]  # an empty cell is not known
    assert [(x, sorted(y)) for x, y in stream.examples()] == [(x, sorted(y)) for x, y in rows]
    labels = ("war", "sea", "book")
    assert (stream.labels, stream.n_outputs, stream.n_samples) == (labels, 3, len(rows))
    from_file, from_python = FALT(text=TEXT), FALT(text=TEXT)
    for x, y in stream:
        from_file.learn_one(x, y)
    for x, relevant in rows:
        from_python.learn_one(x, {label: label in relevant for label in labels})
    assert pickle.dumps(from_file) == pickle.dumps(from_python)


def test_labels_are_columns_or_partial(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("title,p,q\nsome words,1,0\n7,,\nmore,0,1\n")
    stream = open_stream(path, labels=2, text=["title"])
    assert list(stream) == [
        ({"title": "some words"}, {"p": True, "q": False}),
        ({"title": "more"}, {"p": False, "q": True}),
    ]
    part = tmp_path / "rows.jsonl"
    part.write_text('{"x": "a text", "y": {"p": true}}\n{"x": [1, null, 3], "y": ["q"]}\n')
    assert list(open_stream(part)) == [
        ("a text", {"p": True}),
        ({"0": 1, "2": 3}, {"p": False, "q": True}),
    ]


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("a.csv", "a,b\n1\n", {"labels": 1}, "a.csv, line 2: 1 value for 2 columns"),
        ("a.jsonl", '{"x": [1], "y": []}\n{"x": [true], "y": []}\n', {}, "a.jsonl, line 2: x True is not a number"),
        ("a.jsonl", '{"x": [1], "y": []}\n{"x": 3, "y": []}\n', {}, "a.jsonl, line 2: x must be an object"),
        (
            "a.jsonl",
            '{"x": {"indices": [1], "values": []}, "y": []}',
            {},
            "a.jsonl, line 1: x must have the fields indices and values, of the same length",
        ),
    ],
)
def test_errors_name_the_line(tmp_path: Path, name: str, text: str, options: dict[str, Any], message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        list(open_stream(path, **options))
    views = tmp_path / "views.jsonl"
    views.write_text('{"x": {"views": {"v": [1]}}, "y": []}\n')
    with pytest.raises(ValueError, match="its examples have views, which streams do not support"):
        open_stream(views)
