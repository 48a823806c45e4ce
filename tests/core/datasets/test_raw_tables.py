"""Tables as people have them: each is read right, or refused with the line and the cure."""

import bz2
import gzip
import io
import re
import zipfile
from typing import Any

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core.datasets import BadDataset, Dataset, read_arff, read_csv, read_libsvm, read_ndjson, read_tsv
from manylabel_core.datasets.formats.example_rows import RowParts
from manylabel_core.datasets.formats.ndjson import JsonLines
from manylabel_core.datasets.formats.tables.table import Table, rereadable
from manylabel_core.datasets.formats.text import opened_text
from manylabel_core.datasets.report import TableReport


def rows_of(table: str | bytes, **options: Any) -> list[tuple[Any, Any]]:
    data = table.encode() if isinstance(table, str) else table
    return [(row.x, row.y) for row in Table(io.BytesIO(data), RowParts(**options))]


def column_of(column: str, **options: Any) -> list[Any]:
    """The values of a column of cells, one a line."""
    cells = [f'"{cell}"' if "," in cell else cell for cell in column.split("\n")]
    text = "c,other,rock\n" + "".join(f"{cell},1,1\n" for cell in cells)
    return [x.get("c") for x, _ in rows_of(text, label_columns="rock", **options)]


def report_of(text: str | bytes, **options: Any) -> TableReport:
    return Table(io.BytesIO(text.encode() if isinstance(text, str) else text), RowParts(**options)).report()


def kinds_of(report: TableReport) -> dict[str, str]:
    return {column.name: column.kind for column in report.columns}


# -- numbers ----------------------------------------------------------------------------------------------------------


@for_each(
    ("column", "values"),
    [
        ("1\n-2.5\n.5\n+3.\n1e3\n 4 ", [1, -2.5, 0.5, 3, 1000, 4]),
        ("3_1\n2", ["3_1", "2"]),
        ("2024_11\n2024_12", ["2024_11", "2024_12"]),
        ("\u0661\u0662\n\u0663", ["\u0661\u0662", "\u0663"]),
        ("45 %\n5%", [45, 5]),
        ("€ 5\n€7", [5, 7]),
        ("$1,234.50\n$2.00", [1234.5, 2]),
        ("1,234.50\n12", [1234.5, 12]),
        ("1,234,567\n2", [1234567, 2]),
        ("1'234.5\n7", [1234.5, 7]),
        ("1\u00a0234\n7", [1234, 7]),
        ("1,23,456\n12,34,567.5", [123456, 1234567.5]),
        ("(1,234.50)\n300", [-1234.5, 300]),
        ("\u22125\n3", [-5, 3]),
        ("12.5 €\n3€", [12.5, 3]),
        ("#WERT!\n#NV\n2\n#VALEUR!", [None, None, 2, None]),
        ("2024-11-29\n1970-01-02\nNA", [20056, 1, None]),
        ("2024-11-29T12:00:00Z\n2024-11-29 18:00:00+06:00", [20056.5, 20056.5]),
        ("29.11.2024\n1.2.1970 06:00", [20056, 31.25]),
        ("29/11/2024\n1/2/1970", [20056, 31]),
        ("11/29/2024\n1/2/1970", [20056, 1]),
        ("11/29/2024 6:00 PM\n1/2/1970, 12:00 am\n1/2/1970 12:00 p.m.", [20056.75, 1, 1.5]),
        ("11/29/2024 16:00 PM\n1/2/1970 0:30 AM", ["11/29/2024 16:00 PM", "1/2/1970 0:30 AM"]),
        ("1/2/2024\n2/3/2024", ["1/2/2024", "2/3/2024"]),
        ("2024-02-30\n2024-02-28", ["2024-02-30", "2024-02-28"]),
        ("120,5\n80", [120.5, 80]),
        ("1.234,5\n2.000", [1234.5, 2000]),
        ("-,5\n1,25e1", [-0.5, 12.5]),
        ("007\n012", ["007", "012"]),
        ("1e5\n7B", ["1e5", "7B"]),
        ("1234567890123456789\n1234567890123456790", ["1234567890123456789", "1234567890123456790"]),
        ("5e31aa\n5e310\n77", ["5e31aa", "5e310", "77"]),
        ("Nan\nInfinity\nSmith", ["Nan", "Infinity", "Smith"]),
        ("TRUE\nFALSE", [1.0, 0.0]),
        ("True\nfalse\n", [1.0, 0.0, None]),
        ("yes\nno", ["yes", "no"]),
        ("T\nF", ["T", "F"]),
        ("[1, 2.5]\n[3, 4]", [[1, 2.5], [3, 4]]),
        ("['a', 'b c']\n[]", [["a", "b c"], None]),
        ("1\nhigh\n3", ["1", "high", "3"]),
        ("none\n-\n1", [None, None, 1]),
    ],
)
def test_a_column_has_one_kind(column: str, values: list[Any]) -> None:
    assert column_of(column) == values


@for_each("word", ["NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "-", ".", "?", "<NA>", "\\N", ""])
def test_words_for_a_missing_number(word: str) -> None:
    text = f"c,b,rock\n1,TRUE,1\n{word},{word},0\n3,FALSE,1\n"
    assert [x for x, _ in rows_of(text, label_columns="rock")] == [{"c": 1, "b": 1}, {}, {"c": 3, "b": 0}]
    columns = {column.name: column for column in report_of(text, label_columns="rock").columns}
    assert (columns["c"].kind, columns["c"].missing, columns["b"].missing) == ("number", 1, 1)
    dense = read_csv(io.BytesIO(text.encode()), "rock")
    assert isinstance(dense.X, np.ndarray)
    assert np.isnan(dense.X).tolist() == [[False, False], [True, True], [False, False]]


@for_each(
    ("column", "message"),
    [
        ("1,234\n5", r"line 2: column 'c' is '1,234', which has two readings: .*decimal mark"),
        ("1,5\n2.5", r"line 3: column 'c' is '2.5', with a decimal point, but the decimal mark of the file is a comma"),
        ("1\nInf\n2", r"line 3: column 'c' is 'Inf': expected a finite number; .*missing values, or .*category"),
        ("1\n1e300", r"line 3: column 'c' is '1e300': expected a finite number of at most 1e\+15"),
        ("€ 5\n$ 7", r"column 'c' has numbers with several units .*: make it a number.*or a category"),
        ("45 %\n5", r"column 'c' has numbers with several units"),
    ],
)
def test_a_column_that_contradicts_itself_is_refused(column: str, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        column_of(column)


def test_options_decide() -> None:
    assert column_of("007\n12", number="c") == [7, 12]
    assert column_of("7\n12", category="c") == ["7", "12"]
    assert column_of("7\n12", text="c") == ["7", "12"]
    assert column_of("7\nhigh\n3_1\nnan", number="c") == [7, None, None, None]
    assert column_of("1.234,50\nn.d.\n-3,2", number="c") == [1234.5, None, -3.2]
    assert column_of("1,234\n5", decimal=",") == [1.234, 5]
    assert column_of("1,234\n5", decimal=".") == [1234, 5]
    assert column_of("-999\n5\nNA", missing=["-999", "NA"]) == [None, 5, None]
    assert column_of("NA\nred\nblue", missing=[]) == ["NA", "red", "blue"]
    assert column_of("NA\n5\n", missing="") == ["NA", "5", None]
    assert column_of("1e300\n5", category="c") == ["1e300", "5"]
    assert column_of("TRUE\n0\nyes", number="c") == [1, 0, None]
    assert column_of("2024-11-29\nsoon", number="c") == [20056, None]
    assert column_of("2024-11-29\n5", number="c") == [None, 5]
    assert column_of("2024-11-29\n2024-11-30", category="c") == ["2024-11-29", "2024-11-30"]
    assert column_of("['a']\n['b', 'c']", category="c") == [["a"], ["b", "c"]]
    for options in ({"number": "x"}, {"category": ["other"], "number": "other"}, {"number": "rock"}, {"decimal": "x"}):
        with pytest.raises(BadDataset, match=r"is not among|more than one kind|cannot have labels|must be '\.' or ','"):
            column_of("1\n2", **options)


def test_a_european_excel_file() -> None:
    text = '\ufefftempo;town;id;rock\r\n120,5;Köln;1;1\r\n80;"a;b";2;0\r\n;Ulm;3;1\r\n'
    rows = [
        ({"tempo": 120.5, "town": "Köln", "id": 1}, {"rock": True}),
        ({"tempo": 80, "town": "a;b", "id": 2}, {"rock": False}),
        ({"town": "Ulm", "id": 3}, {"rock": True}),
    ]
    assert rows_of(text, label_columns="rock") == rows
    assert rows_of(text.encode("utf-16"), label_columns="rock") == rows, "Unicode text of Excel"
    assert rows_of(text.replace("\r\n", "\r"), label_columns="rock") == rows, "line ends of old programs"
    assert rows_of("\ufeffsep=;\r\n" + text[1:], label_columns="rock") == rows
    assert rows_of(gzip.compress(text.encode("utf-16")), label_columns="rock") == rows
    report = report_of(text, label_columns="rock")
    assert report.settings == {"separator of cells": ";", "decimal mark": ","}
    mixed = text.replace("1;1\r", "1.5;1\r")
    with pytest.raises(BadDataset, match=r"line 2: column 'id' is '1\.5', with a decimal point"):
        rows_of(mixed, label_columns="rock")


# -- missing names ----------------------------------------------------------------------------------------------------


@for_each(
    ("text", "values"),
    [
        ("c,n,rock\nNA,1,1\nFR,2,0\nDE,3,1\n", ["NA", "FR", "DE"]),  # Namibia among the codes of countries
        ("c,n,rock\nNA,,1\nred,2,0\nblue,3,1\n", ["NA", "red", "blue"]),  # pandas leaves missing cells empty
        ("c,n,rock\nNA,NA,1\nred,2,0\nFR,3,1\n", [None, "red", "FR"]),  # NA is what the file has for missing values
        ('"c","n","rock"\nNA,1,1\n"FR",2,0\n"DE",3,1\n', [None, "FR", "DE"]),  # R: strings are in quotes, NA is not
        ('"c","n","rock"\n"NA",NA,1\n"FR",2,0\n"DE",3,1\n', ["NA", "FR", "DE"]),
        ("c,n,rock\nNA,1,1\nred,2,0\n", [None, "red"]),
        ("c,n,rock\nNone,1,1\nred,2,0\n", ["None", "red"]),
    ],
)
def test_namibia_and_missing_names(text: str, values: list[str | None]) -> None:
    assert [x.get("c") for x, _ in rows_of(text, label_columns="rock")] == values
    said = [warning for warning in report_of(text, label_columns="rock").warnings if "'NA' is" in warning]
    assert len(said) == ("NA" in text and "None" not in text), "it is said what NA means"


# -- shape ------------------------------------------------------------------------------------------------------------

PLAIN = [({"a": 1, "b": "x"}, ["rock"]), ({"a": 2, "b": "y z"}, ["jazz"])]


@for_each(
    "text",
    [
        '"","a","b","l"\n"1",1,"x","rock"\n"2",2,"y z","jazz"\n',  # write.csv of R
        ",a,b,l\n0,1,x,rock\n1,2,y z,jazz\n",  # to_csv of pandas
        "Unnamed: 0,a,b,l\n0,1,x,rock\n1,2,y z,jazz\n",
        '"a" "b" "l"\n"1" 1 "x" "rock"\n"2" 2 "y z" "jazz"\n',  # write.table of R
        '"a"\t"b"\t"l"\n"r 1"\t1\t"x"\t"rock"\n"r 2"\t2\t"y z"\t"jazz"\n',
        "a,b,l,\n1,x,rock,\n2,y z,jazz,\n",  # a separator at the end of each line
        "a,b,l\n1,x,rock,\n2,y z,jazz,\n",
        "sep=,\na,b,l\n1,x,rock\n2,y z,jazz\n",
        '"sep=;"\na;b;l\n1;x;rock\n2;y z;jazz\n',
        "a|b|l\n1|x|rock\n2|y z|jazz\n",
        'a, b, l\n1, x, rock\n2, "y z", jazz\n',
        "\n  \na,b,l\n\n1,x,rock\n,,\n2,y z,jazz\n , ,\n",  # rows without any value
        "a,b,l\r1,x,rock\r2,y z,jazz\r",
    ],
)
def test_shapes_of_a_table(text: str) -> None:
    assert rows_of(text, tags="l") == PLAIN
    assert report_of(text, tags="l").rows == 2


def test_what_is_left_out_is_counted() -> None:
    report = report_of(",a,l,\n7,1,x,\n8,2,,\n,,,\n9,3,x,\n", tags="l")
    assert (report.rows, report.unlabelled, report.omitted) == (3, 1, {"without any value": 1})
    assert kinds_of(report) == {"column 1": "ignored", "a": "number", "l": "labels", "column 4": "ignored"}
    assert report.labels == {"x": 2}
    assert report.first[0] == {"x": {"a": 1}, "y": ["x"]}
    assert report.first[1] == {"x": {"a": 2}, "y": None}
    text = " ".join(report.warnings)
    assert "'column 1' seems to have the names of the rows and is ignored" in text
    assert "'column 4' has no name and no values" in text
    assert "1 row has unknown labels" in text
    assert rows_of(",a,l\n7,1,x\n", tags="l", category="column 1") == [({"column 1": "7", "a": 1}, ["x"])]
    assert rows_of(",a,l\n7,1,x\n", tags="l", ignore="column 1") == [({"a": 1}, ["x"])]
    assert rows_of("a,,l\n7,1,x\n", tags="l") == [({"a": 7, "column 2": 1}, ["x"])]


def test_a_table_without_a_header() -> None:
    annif = "A text, with a comma\t<http://x/1> <http://x/2>\nAnother\t<http://x/1>\n"
    with pytest.raises(BadDataset, match=r"line 1: the first line seems to be data.*'<http://x/1>.*state the names"):
        read_tsv(io.BytesIO(annif.encode()), tags="tags")
    read = read_tsv(io.BytesIO(annif.encode()), names=["t", "tags"], tags="tags", text="t")
    assert read.label_names == ("http://x/1", "http://x/2")
    assert read.n_rows == 2
    for first in ("120,rock", "1,0.5,rock", "5,1,0"):
        with pytest.raises(BadDataset, match="seems to be data"):
            rows_of(f"{first}\n{first}\n")
    assert rows_of("0,1,2,l\n5,6,7,x\n", tags="l") == [({"0": 5, "1": 6, "2": 7}, ["x"])], "pandas counts columns"
    assert rows_of("5,6,7\n", names=["a", "b", "l"], tags="l") == [({"a": 5, "b": 6}, ["7"])]
    with pytest.raises(BadDataset, match="line 1: 3 values for 2 columns"):
        rows_of("5,6,7\n", names=["a", "l"], tags="l")


@for_each(
    ("text", "message"),
    [
        ('a,b,l\n1,x,p\n2,"y,q\n3,z,r\n', "line 3: not CSV: a quote that opens in this line is not closed"),
        ('a,b,l\n1,x,p\n2,"y"z,q\n', "line 3: not CSV: .*must be doubled"),
        (
            'a,b,l\n1,x,p\n2,"y,q\n3,z,r\n4,w",s\n',
            "line 3: a quote opens in this line and closes in line 5, but line 4",
        ),
        ("Sales 2026;;;\na;b;c;l\n1;2;3;p\n", "line 1: the first line names 1 of 4 columns: is it a title?"),
        ("a,b,l\n1,x,p\n2,y\n", "line 3: 2 values for 3 columns"),
        (
            "a,b,l\n1,x,p\n2,5,y,p\n",
            "line 3: 4 values for 3 columns: put a cell with a comma in quotes; a decimal comma",
        ),
        ("a,a,l\n1,x,p\n", "line 1: two columns are called 'a': rename one"),
        ("a,b,l\n1,\u00e9,p\n".encode("latin-1"), "line 2: not UTF-8 .*Excel, save it as CSV UTF-8"),
        ('{"a": 1, "l": ["p"]}\n', "line 1: this seems to be JSON: name the file .jsonl"),
        ("<!DOCTYPE html>\n<html></html>\n", "line 1: this is a web page"),
        (bz2.compress(b"a,l\n1,p\n"), "this is a bzip2 file: unpack it, or compress it with gzip"),
        (b"PAR1\x15\x04\x15\x10", "this is a Parquet file, not text: save it as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "this is an old Excel workbook"),
        (b"", "the file is empty"),
    ],
)
def test_what_contradicts_itself_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        rows_of(text, tags="l")


def test_a_workbook_under_another_name() -> None:
    workbook = io.BytesIO()
    with zipfile.ZipFile(workbook, "w") as archive:
        archive.writestr("xl/workbook.xml", "x")
    with pytest.raises(BadDataset, match="a ZIP archive or an Excel workbook, not text"):
        rows_of(workbook.getvalue(), tags="l")


def test_texts_of_several_lines_are_read() -> None:
    text = 'a,t,l\n1,"one, two\nthree, four, five\n",p\n2,"x\n",q\n'
    assert [x["t"] for x, _ in rows_of(text, tags="l", text="t")] == ["one, two\nthree, four, five\n", "x\n"]
    first = 't,a,l\n"one\ntwo",1,p\n'
    assert [x["t"] for x, _ in rows_of(first, tags="l")] == ["one\ntwo"]


# -- labels -----------------------------------------------------------------------------------------------------------


@for_each(
    ("cells", "labels"),
    [
        (['["x", "y z"]', "[]"], [["x", "y z"], []]),
        (["['rock', 'jazz']", '["it\'s"]'], [["rock", "jazz"], ["it's"]]),
        (['{"choices": ["a", "b"]}', '{"choices": []}'], [["a", "b"], []]),
        (['{"choices": ["a", "b"]}', "a", "b, c"], [["a", "b"], ["a"], ["b, c"]]),
        (['["x"]', "y z", "[]"], [["x"], ["y z"], []]),
        (["<python><list>", "<c++>"], [["python", "list"], ["c++"]]),
        (["<http://x/1> <http://x/2>", "<http://x/1>"], [["http://x/1", "http://x/2"], ["http://x/1"]]),
        (["a|b c", "d"], [["a", "b c"], ["d"]]),
        (["a; b", "d"], [["a", "b"], ["d"]]),
        (["a, b", "b", "a"], [["a", "b"], ["b"], ["a"]]),
        (["rock loud", "rock", "loud"], [["rock", "loud"], ["rock"], ["loud"]]),
        (["a b", "b c", "c a"], [["a", "b"], ["b", "c"], ["c", "a"]]),
        (["rock", "jazz"], [["rock"], ["jazz"]]),
        (["Hepatitis A", "Mumps", "Polio"] * 10, [["Hepatitis A"], ["Mumps"], ["Polio"]] * 10),
        (["1", "2"], [["1"], ["2"]]),
        (["TRUE", "FALSE"], [["TRUE"], ["FALSE"]]),
    ],
)
def test_cells_that_list_labels(cells: list[str], labels: list[list[str]]) -> None:
    text = "a,l\n" + "".join('1,"{}"\n'.format(cell.replace('"', '""')) for cell in cells)
    assert [y for _, y in rows_of(text, tags="l")] == labels


@for_each(
    ("cells", "message"),
    [
        (
            ["rock loud", "calm"],
            "column 'l' has cells with a space, such as 'rock loud': is that one label or several?",
        ),
        (["Very Good", "Good", "Ideal"], "cells with a space, such as 'Very Good'"),
        (["Portland, OR", "Salem, MA"], "cells with a comma, such as 'Portland, OR'"),
        (["Portland, OR, USA", "USA"], "cells with a comma, such as 'Portland, OR, USA'"),
    ],
)
def test_doubtful_labels_are_refused_without_a_separator(cells: list[str], message: str) -> None:
    text = "a,l\n" + "".join(f'1,"{cell}"\n' for cell in cells)
    with pytest.raises(BadDataset, match=message):
        rows_of(text, tags="l")
    assert [y for _, y in rows_of(text, tags="l", separator="")] == [[cell] for cell in cells]
    assert [y for _, y in rows_of(text, tags="l", separator=" ")] == [cell.split(" ") for cell in cells]


def test_alike_labels_are_merged_on_request() -> None:
    text = "a,l\n1,Rock|jazz\n2,rock|Cafe\u0301\n3,caf\u00e9|ROCK|rock\n"
    assert [y for _, y in rows_of(text, tags="l", merge_alike=True)] == [
        ["Rock", "jazz"],
        ["Rock", "Cafe\u0301"],
        ["Cafe\u0301", "Rock"],
    ]
    remedy = "labels 'Rock' (1), 'rock' (2), 'ROCK' (1) differ only in case, spaces or Unicode form; merge_alike makes"
    assert any(warning.startswith(remedy) for warning in report_of(text, tags="l").warnings)
    columns = report_of("a,x,X\n1,0,1\n2,1,0\n", label_columns=["x", "X"])
    assert "merge_alike" not in " ".join(columns.warnings)
    dataset = read_csv(io.BytesIO(text.encode()), tags="l", merge_alike=True)
    assert dataset.label_names == ("Rock", "jazz", "Cafe\u0301")
    assert dataset.Y.toarray().tolist() == [[1, 1, 0], [1, 0, 1], [1, 0, 1]]
    assert dataset.report is not None
    assert dict(dataset.report.labels) == {"Rock": 3, "jazz": 1, "Cafe\u0301": 2}
    lines = (
        b'{"x": {"a": 1}, "y": {"Rock": false, "rock ": true}}\n{"x": {"a": 2}, "y": {"ROCK": false, "rock": false}}\n'
    )
    merged = read_ndjson(io.BytesIO(lines), merge_alike=True)
    assert (merged.label_names, merged.Y.toarray().tolist()) == (("Rock",), [[1], [0]])
    with pytest.raises(BadDataset, match="labels that are columns cannot be merged"):
        read_csv(io.BytesIO(b"a,x,X\n1,0,1\n"), label_columns=["x", "X"], merge_alike=True)


def test_empty_cells_of_labels() -> None:
    text = "a,l\n1,p\n2,\n3,NA\n4,p\n"
    assert [y for _, y in rows_of(text, tags="l")] == [["p"], None, ["NA"], ["p"]]
    assert [y for _, y in rows_of(text, tags="l", empty="none")] == [["p"], [], ["NA"], ["p"]]
    assert [y for _, y in rows_of(text, tags="l", missing="NA")] == [["p"], None, None, ["p"]]
    columns = "a,p,q\n1,1,0\n2,,1\n3,,\n4,NA,no\n5,TRUE,T\n"
    truths = [y for _, y in rows_of(columns, label_columns=2)]
    assert truths == [{"p": True, "q": False}, {"q": True}, None, {"q": False}, {"p": True, "q": True}]
    report = report_of(columns, label_columns=2)
    assert (report.labels, report.unlabelled) == ({"p": 2, "q": 2}, 1)
    with pytest.raises(BadDataset, match="line 3: label 'p' is unknown, but other labels of the row are known"):
        read_csv(io.BytesIO(columns.encode()), 2)
    whole = read_csv(io.BytesIO(columns.encode()), 2, empty="none")
    assert whole.Y.toarray().tolist() == [[1, 0], [0, 1], [0, 0], [0, 0], [1, 1]]
    with pytest.raises(BadDataset, match="line 2: label 'l' is 'p': expected 0 or 1; if its cells list labels"):
        rows_of(text, label_columns="l")


# -- report -----------------------------------------------------------------------------------------------------------


def test_the_report() -> None:
    lines = [f"{i},u{i},{'n.d.' if i == 7 else i / 2},{'AB'[i % 2]},{['p', 'q'][i % 2]}" for i in range(30)]
    report = read_csv(io.BytesIO(("n,id,m,k,l\n" + "\n".join(lines)).encode()), tags="l").report
    assert report is not None
    assert kinds_of(report) == {"n": "number", "id": "category", "m": "category", "k": "category", "l": "labels"}
    odd = next(column for column in report.columns if column.name == "m")
    assert (odd.odd, odd.odd_cells[0].line, odd.odd_cells[0].cell) == (1, 9, "n.d.")
    assert len(report.first) == 10
    for words in (
        "'m' has 29 numbers of 30 values, but also 'n.d.' (line 9)",
        "column 'id' has a different value in each row",
        "column 'n' counts the rows",
    ):
        assert any(words in warning for warning in report.warnings), (words, report.warnings)
    assert report.to_json()["columns"][2]["odd_cells"] == ({"line": 9, "cell": "n.d."},)


@for_each(
    ("tags", "words"),
    [
        (["x p", "x q", "x r"], "label 'x' is on every row"),
        (['"[p"', '"q]"'], "labels look like parts of a list, such as '[p'"),
    ],
)
def test_warnings_about_labels(tags: list[str], words: str) -> None:
    report = report_of("a,l\n" + "".join(f"1,{tag}\n" for tag in tags), tags="l", separator=" ")
    assert any(words in warning for warning in report.warnings), report.warnings


def test_a_stream_that_cannot_go_back_is_read() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: Any) -> int:
            raise OSError("a pipe")

        tell = seek

    read = read_csv(Pipe(b"a,l\n1,p\nNA,q\n"), tags="l")
    assert isinstance(read, Dataset)
    assert np.array_equal(read.X, [[1], [np.nan]], equal_nan=True)
    with pytest.raises(BadDataset, match="more than 3 bytes"), rereadable(Pipe(b"a,l\n1,p\n"), 3):
        pass


def test_the_beginning_does_not_decide() -> None:
    """The last row of a column counts as much as the first."""
    rows = "".join(f"{i},{i},p\n" for i in range(3000))
    late = rows_of(f"a,b,l\n{rows}x,TRUE,p\n", tags="l")
    assert late[0] == ({"a": "0", "b": "0"}, ["p"])
    assert late[-1] == ({"a": "x", "b": "TRUE"}, ["p"])


# -- ARFF and JSON lines ----------------------------------------------------------------------------------------------


@for_each(
    "text",
    [
        "@relation r\n@attribute a numeric\n@attribute l{0,1}\n@data\n1.5,1\n2,0\n",
        "@relation r\n@attribute a numeric % years\n@attribute l {0, 1} % rock\n@data\n1.5,1 % one\n2,0\n",
        "@relation r\n@attribute a real [0,10]\n@attribute l{0, 1}\n@data\n1.5,1\n2,0\n",
        "@RELATION\tr\n@ATTRIBUTE\ta\tREAL\n@ATTRIBUTE\tl\t{0,1}\n@DATA\n1.5\t1\n2\t0\n",
        "@relation r\n@attribute 'a' integer\n@attribute \"l\" {0,1}\n@data\n1.5 1\n'2' 0\n",
        "@relation r\n@attribute a numeric\n@attribute l {0,1}\n@data\n{0\t1.5, 1\t1}\n{0 2}\n",
    ],
)
def test_arff_as_weka_reads_it(text: str) -> None:
    read = read_arff(io.BytesIO(text.encode()), ["l"])
    X = read.X if isinstance(read.X, np.ndarray) else read.X.toarray()
    assert (X.tolist(), read.Y.toarray().tolist(), read.names) == ([[1.5], [2.0]], [[1], [0]], ("a",))


def test_a_per_cent_sign_in_quotes_is_no_comment() -> None:
    text = "@relation r\n@attribute a {'5%',b} % c\n@attribute l {0,1}\n@data\n'5%',1\nb,0 %\n"
    assert read_arff(io.BytesIO(text.encode()), ["l"]).names == ("a=5%", "a=b")


@for_each(("value", "message"), [("3_1", "expected a finite number"), ("\u0663", "expected a finite number")])
def test_one_grammar_of_numbers(value: str, message: str) -> None:
    arff = f"@relation r\n@attribute a numeric\n@attribute l {{0,1}}\n@data\n{value},1\n"
    with pytest.raises(BadDataset, match=f"line 5: attribute 'a' is .*: {message}"):
        read_arff(io.BytesIO(arff.encode()), ["l"])
    with pytest.raises(BadDataset, match=r"line 1: .* is not feature:number"):
        read_libsvm(io.BytesIO(f"1 1:{value}\n".encode()))


@for_each(
    ("line", "labels"),
    [
        ('{"text": "x", "cats": {"a": 1.0, "b": 0.0}}', {"a": True, "b": False}),
        ('{"text": "x", "cats": {"a": true, "b": false}}', {"a": True, "b": False}),
        ('{"text": "x", "cats": ["a"]}', ["a"]),
    ],
)
def test_objects_of_labels(line: str, labels: Any) -> None:
    data = f"\ufeff{line}\n".encode()
    with opened_text(io.BytesIO(data)) as file:
        assert [row.y for row in JsonLines(file, RowParts("cats"))] == [labels]
    assert read_ndjson(io.BytesIO(data), "cats").label_names == tuple(labels)


@for_each(
    ("lines", "message"),
    [
        ('{"a": 1, "l": [3, 17]}', "line 1: l: labels must be strings: 3 is a number"),
        ('{"a": 1, "l": {"p": 0.5}}', "line 1: l.p must be true or false .*, not 0.5"),
        (
            '{"a": 1, "l": {"p": true}}\n{"a": 1, "l": {"q": true}}',
            "line 2: the labels of y differ from those of line 1",
        ),
        ('{"a": 1, "l": {"p": true}}\n{"a": 1, "l": ["q"]}', "line 1: y lacks 'q', which other rows have"),
    ],
)
def test_objects_of_labels_that_are_refused(lines: str, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_ndjson(io.BytesIO(lines.encode()), "l")


def test_kinds_of_fields() -> None:
    lines = b'{"a": "42", "zip": 7, "l": ""}\n{"a": "x", "zip": 12, "l": "p"}\n'
    with opened_text(io.BytesIO(lines)) as file:
        parts = RowParts("l", number=["a"], category=["zip"], empty="none")
        assert [(row.x, row.y) for row in JsonLines(file, parts)] == [
            ({"a": 42, "zip": "7"}, []),
            ({"a": None, "zip": "12"}, ["p"]),
        ]
    with pytest.raises(BadDataset, match="decimal is for tables"):
        read_ndjson(io.BytesIO(lines), "l", decimal=",")
    report = read_ndjson(io.BytesIO(lines), "l").report
    assert report is not None
    assert (report.rows, report.unlabelled, report.labels) == (2, 1, {"p": 1})
    assert kinds_of(report) == {"a": "category", "zip": "number"}


@for_each(
    ("column", "options", "note"),
    [
        ("2024-11-29\n2024-11-30", {}, r"dates.* days since 1970-01-01: '2024-11-29' \(line 2\) is 20056"),
        ("1/2/2024\n2/3/2024", {}, r"dates in which day and month cannot be told apart, such as '1/2/2024' \(line 2\)"),
        ("29/11/2024\n11/29/2024", {}, "dates in several orders"),
        ("2024-11-29 10:00Z\n2024-11-29 10:00", {}, "dates with and without an offset from UTC"),
        ("2024-02-28\n2024-02-27\n2024-02-30", {}, r"2 dates of 3 values, but also '2024-02-30' \(line 4\)"),
        ("TRUE\nFALSE\nmaybe", {}, r"2 truth values of 3 values, but also 'maybe' \(line 4\)"),
        ("TRUE\n0\n1\nFALSE", {}, r"2 numbers of 4 values, but also 'TRUE' \(line 2\)"),
        ("1\n" + "high\n" * 9, {}, r"1 number of 10 values, but also 'high' \(line 3\)"),
        (
            "1.234\n12.000",
            {},
            r"points that may be marks of thousands, such as '1.234' \(line 2\): it is read as 1.234",
        ),
        ("12.5 kg\n13 lbs\n12 kg", {}, r"numbers with the units 'kg', 'lbs', such as '12.5 kg' \(line 2\)"),
        ("9:30\n10:00\n09:30\n12:15:30 PM", {}, r"times of day, such as '9:30' \(line 2\): it is read as categories"),
        ("\n".join(f"u{max(i, 2)}" for i in range(40)), {}, "column 'c' has 38 different values in 40 rows: ignore it"),
        (
            "same\nsame\n" + "\n".join(f"u{i}" for i in range(1_100)),
            {},
            "more than 1,000 different values in 1,102 rows",
        ),
        ("low\nHigh\nhigh", {}, "such as 'High' and 'high': each is another category"),
        ("low\nhigh\nlow ", {}, "such as 'low' and 'low ': each is another category"),
        ("12 kg\n\n13 kg\nNA", {}, "numbers with the unit 'kg'"),
        ("9:30\nNA\n\n10:00", {}, "times of day"),
        ("12 kg\n13 kg", {}, r"numbers with the unit 'kg', such as '12 kg' \(line 2\)"),
        ("1\nhigh\n2", {"number": "c"}, r"1 of 3 values of column 'c' are not numbers, such as 'high' \(line 3\)"),
        ("\n".join(map(str, range(5001, 5021))), {}, "column 'c' counts the rows: ignore it"),
    ],
)
def test_what_looks_strange_is_noted(column: str, options: dict[str, Any], note: str) -> None:
    cells = column.split("\n")
    text = "c,other,rock\n" + "".join(f"{cell},1,{i % 2}\n" for i, cell in enumerate(cells))
    assert re.search(note, "\n".join(report_of(text, label_columns="rock", **options).warnings))


@for_each(
    "column",
    [
        "1.234\n0.500",
        "1.234\n12.0",
        "5A\n7B\n9A",
        "18-25\n26-35",
        "1:99\n25:00",
        "one\n" * 10 + "\n".join("abcdefghij"),
    ],
)
def test_what_is_plain_is_not_noted(column: str) -> None:
    rows = "".join(f"{cell},{i % 2},{i % 3 % 2}\n" for i, cell in enumerate(column.split("\n")))
    assert report_of("c,other,rock\n" + rows, label_columns="rock").warnings == ()


def test_a_total_is_noted() -> None:
    text = "town,n,rock\nA,5,1\nB,6,0\n{},11,\n"
    assert (
        "the last row (line 4) seems to be a total: remove it"
        in report_of(text.format("Total:"), label_columns="rock").warnings
    )
    assert "total" not in " ".join(report_of(text.format("C"), label_columns="rock").warnings)


@for_each(
    ("text", "message"),
    [
        ("town,b,tags\nA,x,p\ntown,b,tags\nB,y,q\n", "line 3: repeats the names of the columns"),
        ("a,b,tags\n1,2,p\n\ufeffa,b,tags\n2,3,q\n", "line 3: repeats the names of the columns"),
        ("# made by x\na,b,tags\n1,2,p\n", "line 1: the first line is a comment: remove"),
        ("a,b,tags\n1,2,p\n# end\n", "line 3: 1 value for 3 columns: remove comments"),
        ("a,b,tags\n1,2,p\nSource: the office\n", "line 3: 1 value for 3 columns: remove lines that are no rows"),
        ("a,b,tags\n“x, y”,2,p\n“z”,3,q\n", "line 3: 3 values, but the first row has 4.*quotes must be straight"),
        ("a,b,tags\nx,2,p\n“y, z”,3,q\n", "line 3: 4 values for 3 columns: quotes must be straight"),
        ("a,b\x00,tags\n1,2,p\n", "line 1: has a NUL byte.*encoding"),
        ("a,b,tags\n1e400,2,p\n", "line 2: column 'a' is '1e400': expected a finite number"),
    ],
)
def test_lines_that_are_no_rows_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        rows_of(text, tags="tags")


def test_files_that_were_joined_without_their_names_are_read() -> None:
    text = "\ufeffa,b,tags\n1,2,p\n\ufeff2,3,q\n"
    assert rows_of(text, tags="tags") == [({"a": 1, "b": 2}, ["p"]), ({"a": 2, "b": 3}, ["q"])]


@for_each(
    ("cells", "truths"),
    [
        (["yes", "No", "YES "], [True, False, True]),
        (["ja", "nein", "j"], [True, False, True]),
        (["oui", "non", "1.0"], [True, False, True]),
        (["x", "0", "X"], [True, False, True]),
    ],
)
def test_labels_as_people_mark_them(cells: list[str], truths: list[bool]) -> None:
    text = "a,rock\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells))
    assert [y for _, y in rows_of(text, label_columns="rock")] == [{"rock": truth} for truth in truths]


def test_a_mark_and_empty_cells_are_labels() -> None:
    text = "a,rock\n1,x\n2,\n3,✓\n"
    truths = [y for _, y in rows_of(text, label_columns="rock", empty="none")]
    assert truths == [{"rock": True}, {"rock": False}, {"rock": True}]
    assert [y for _, y in rows_of(text, label_columns="rock")] == [{"rock": True}, None, {"rock": True}]


@for_each(
    ("written", "encoding"),
    [
        ("cp1252", "cp1252"),
        ("latin-1", "latin-1"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16"),
        ("utf-16-be", "utf-16"),
        ("utf-8-sig", "cp1252"),
        ("utf-16", "cp1252"),
        ("gb18030", "gb18030"),
    ],
)
def test_an_encoding_can_be_stated(written: str, encoding: str) -> None:
    text = "näme;größe;tags\nKöln;1,5;a|b\nÜlm;2;c\n"
    expected = [({"näme": "Köln", "größe": 1.5}, ["a", "b"]), ({"näme": "Ülm", "größe": 2}, ["c"])]
    for data in (text.encode(written), gzip.compress(text.replace("\n", "\r").encode(written))):
        assert rows_of(data, tags="tags", encoding=encoding) == expected
    lines = '{"x": {"näme": "Köln"}, "y": ["a"]}\n'.encode(written)
    assert read_ndjson(io.BytesIO(lines), encoding=encoding).feature_names == {"x": ("näme=Köln",)}


def test_an_encoding_that_does_not_exist_or_fit_is_refused() -> None:
    with pytest.raises(BadDataset, match=r"the encoding must be one of utf-8, utf-16, latin-1.*, not 'klingon'"):
        RowParts(tags="tags", encoding="klingon")
    with pytest.raises(BadDataset, match=r"line 1: not UTF-8.*state its encoding, such as cp1252"):
        rows_of("näme,tags\n1,a\n".encode("latin-1"), tags="tags")
    with pytest.raises(BadDataset, match=r"not SHIFT_JIS.*state its encoding"):
        rows_of(b"a,tags\n\x81\x20,a\n", tags="tags", encoding="shift_jis")
