"""Files that are wrong, damaged or hostile: refused with the place, without code, without filling the memory."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core.datasets import (
    FORMATS,
    BadDataset,
    ReaderLimits,
    read_arff,
    read_csv,
    read_dataset,
    read_libsvm,
    read_ndjson,
    read_npz,
)

ARFF = b"""@relation songs
@attribute tempo real
@attribute mood {calm, 'very wild'}
@attribute rock {0, 1}
@attribute jazz {0, 1}
@data
120, calm, 1, 0
{0 80, 1 'very wild', 3 1}
"""
TEXTS = {
    "libsvm": (b"1,3 1:0.5 7:2\n2 3:1e-3\n# end\n", {}),
    "arff": (ARFF, {"labels": -2}),
    "ndjson": (b'{"x": {"a": 1, "b": 2.5}, "y": ["u", "v"]}\n{"x": {"c": -1e3}, "y": []}\n', {}),
    "csv": (b'tempo,"a ""b""",rock\n1,2,0\n3,4.5,1\n', {"label_columns": 1}),
}
SMALL = ReaderLimits(rows=100, features=50, labels=20, nonzeros=1_000, bytes=10_000)


def npz_bytes(compressed: bool = True, **arrays: Any) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def small_npz(compressed: bool = True) -> bytes:
    X = sp.csr_array(np.float32([[1, 0, 2], [0, 3, 0]]))
    return npz_bytes(
        compressed,
        X_data=X.data,
        X_indices=X.indices,
        X_indptr=X.indptr,
        X_shape=np.array(X.shape),
        Y=np.int8([[0, 1], [1, 0]]),
        label_names=np.array(["u", "v"]),
        train_idx=np.array([0]),
        test_idx=np.array([1]),
    )


def read_or_refuse(data: bytes, format: str, **options: Any) -> None:
    """Anything else than a dataset within the limits, or BadDataset, fails the test."""
    try:
        dataset = read_dataset(io.BytesIO(data), format, limits=SMALL, **options)
    except BadDataset as error:
        assert 0 < len(str(error)) < 1_000  # noqa: PT017 (a dataset is as good)
    else:
        assert 0 < dataset.n_rows <= SMALL.rows
        assert 0 < dataset.n_labels <= SMALL.labels
        assert 0 < dataset.n_features <= SMALL.features
        dataset.from_bytes(dataset.to_bytes())


# -- damage -----------------------------------------------------------------------------------------------------------


@for_each("format", TEXTS)
def test_text_cut_at_every_byte(format: str) -> None:
    data, options = TEXTS[format]
    for end in range(len(data)):
        read_or_refuse(data[:end], format, **options)


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_cut_at_every_byte(compressed: bool) -> None:
    data = small_npz(compressed)
    for end in range(len(data)):
        with pytest.raises(BadDataset):
            read_npz(io.BytesIO(data[:end]), limits=SMALL)


@for_each("format", [*TEXTS, "npz"])
def test_a_byte_changed_anywhere(format: str, n_examples: int) -> None:
    data, options = TEXTS.get(format, (small_npz(), {}))
    rng = random.Random(0)
    for at in range(0, len(data), max(1, 24 // n_examples)):  # the quick lane has every third
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        read_or_refuse(bytes(changed), format, **options)


@given(data=st.binary(max_size=60), format=st.sampled_from([*FORMATS]))
def test_any_bytes(data: bytes, format: str) -> None:
    options = TEXTS[format][1] if format in TEXTS else {}
    read_or_refuse(data, format, **options)
    if format in TEXTS:  # beginning well
        whole = TEXTS[format][0]
        read_or_refuse(whole + data, format, **options)
        read_or_refuse(whole[: len(whole) // 2] + data + whole[len(whole) // 2 :], format, **options)


alphabet = st.text(alphabet="0123456789:,.-+e{}?%@'\"\\ \t\n[]xyaNnIfui é\ud800\x00", max_size=80)


@given(text=alphabet, format=st.sampled_from([*TEXTS]))
def test_words_of_the_formats_in_any_order(text: str, format: str) -> None:
    whole, options = TEXTS[format]
    tail = text.encode("utf-8", "surrogatepass")
    read_or_refuse(tail, format, **options)
    read_or_refuse(whole + tail, format, **options)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(list("xyab")), inner, max_size=4),
)


@given(values=st.lists(st.fixed_dictionaries({"x": json_values}, optional={"y": json_values}), max_size=3))
def test_any_json(values: list[Any]) -> None:
    read_or_refuse("\n".join(map(json.dumps, values)).encode(), "ndjson")


# -- what is wrong, and where -----------------------------------------------------------------------------------------


@for_each("format", TEXTS)
@for_each("data", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_empty_files(format: str, data: bytes) -> None:
    with pytest.raises(BadDataset, match=r"there are no rows|there is no @data|the file is empty"):
        read_dataset(io.BytesIO(data), format, **TEXTS[format][1])


@for_each("format", TEXTS)
def test_text_that_is_not_utf8(format: str) -> None:
    data, options = TEXTS[format]
    first, rest = data.split(b"\n", 1)
    with pytest.raises(BadDataset, match="line 2: not UTF-8"):
        read_dataset(io.BytesIO(first + b"\n\xff\xfe" + rest), format, **options)


@for_each(
    ("text", "message"),
    [
        (b"1 1:1\n1 1:x\n", "line 2: '1:x' is not feature:number"),
        (b"1 1:nan\n", "line 1: '1:nan' is not feature:number"),
        (b"1 1:inf\n", "line 1: '1:inf' is not feature:number"),
        (b"1 2\n", "line 1: '2' is not feature:number"),
        (b"1 :2\n", "line 1: ':2' is not feature:number"),
        (b"1 1:1e16\n", "line 1: '1:1e16' is not feature:number"),
        (b"1 1:1\n\n1 1:1 1:2\n", "line 3: a feature occurs twice"),
        (b"1 1:1 01:2\n", "line 1: a feature occurs twice"),
        (b"1 4294967296:1\n", "line 1: feature '4294967296' must be a number from 0 to 50"),
        (b"1 99999999999999999999999:1\n", "line 1: feature '99999999999999999999999' must be a number"),
        (b"1 -1:1\n", "line 1: feature '-1' must be a number"),
        (b"1 \xd9\xa3:1\n", "line 1: feature '\u0663' must be a number"),
        (b"1,1 1:1\n", "line 1: a label occurs twice"),
        (b"1, 1:1\n", "line 1: names of labels have 1 to 256 bytes, not ''"),
        (b"x" * 257 + b" 1:1\n", "line 1: names of labels have 1 to 256 bytes"),
        (b"1:1\n2:1\n", "the data have no labels, and need at least one"),
        (b"".join(b"%d 1:1\n" % i for i in range(21)), "line 21: 21 labels; at most 20 are allowed"),
        (b"1 1:1\n" * 101, "line 101: 101 rows; at most 100 are allowed"),
        (b"2 1000000000000 3\n0 1:1\n", "line 1: 1,000,000,000,000 features; at most 50 are allowed"),
        (b"2 5 1000000000\n0 1:1\n", "line 1: 1,000,000,000 labels; at most 20 are allowed"),
        (b"2 5 3\n0 5:1\n", "line 2: feature '5' must be a number from 0 to 4"),
        (b"2 5 3\n3 1:1\n", "line 2: label '3' must be a number from 0 to 2"),
    ],
)
def test_libsvm_errors_say_where(text: bytes, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_libsvm(io.BytesIO(text), limits=SMALL)


@for_each(
    ("rows", "message"),
    [
        (b"1, calm, 0, 0\n1, calm, 0", "line 7: the row has 3 values for 4 attributes"),
        (b"1, calm, 0, 0, 1, 1, 1", "line 6: the row has 7 values for 4 attributes"),
        (b"'1', calm, 0, 0, '1', 1", r"line 6: the row has more values than there are attributes \(4\)"),
        (b"nan, calm, 0, 0", "line 6: attribute 'tempo' is 'nan': expected a finite number"),
        (b"1e999, calm, 0, 0", "line 6: attribute 'tempo' is '1e999': expected a finite number"),
        (b"1, wild, 0, 0", "line 6: attribute 'mood' is 'wild': expected one of calm, very wild"),
        (b"1, calm, 2, 0", "line 6: label 'rock' is '2': expected 0 or 1"),
        (b"1, calm, ?, 0", "line 6: label 'rock' is missing, but other labels are not"),
        (b"1, 'calm, 0, 0", "line 6: a quote is not closed"),
        (b"{0 1, 4 1}", "line 6: '4 1' must be an index from 0 to 3, used once, and a value"),
        (b"{0 1, 0 1}", "line 6: '0 1' must be an index"),
        (b"{99999999999999999999 1}", "line 6: '99999999999999999999 1' must be an index"),
        (b"{0 1", "line 6: a sparse row is"),
        (b"{0 1}}", "line 6: a sparse row is"),
        (b"{0}", "line 6: '0' must be an index"),
        (b"{0 1}, 5", "line 6: a sparse row is"),
        (b"", "there are no rows after @data"),
    ],
)
def test_arff_errors_say_where(rows: bytes, message: str) -> None:
    header = ARFF[: ARFF.index(b"@data")]
    with pytest.raises(BadDataset, match=message):
        read_arff(io.BytesIO(header.replace(b"@relation songs\n", b"") + b"@data\n" + rows), -2)


@for_each(
    ("header", "message"),
    [
        (b"@attribute a string\n@data\n", "line 1: attribute 'a' is 'string': allowed are numeric"),
        (b"@attribute a date yyyy-MM-dd\n@data\n", "line 1: attribute 'a' is 'date'"),
        (b"@attribute a\n@data\n", "line 1: an attribute is: @attribute name type"),
        (b"@attribute a real\n1, 2\n", "line 2: '1,' in the header"),
        (b"@attribute a real\n", "there is no @data line"),
        (b"@attribute a {x, x}\n@data\n", "line 1: two values of attribute 'a' are called 'x'"),
        (b"@attribute a real\n@attribute a real\n@data\n", "two attributes are called 'a'"),
        (
            b"@attribute a {0,1}\n@attribute b {p,q}\n@attribute b=p real\n@data\n1,p,1\n",
            "two features are called 'b=p'",
        ),
        (b"@attribute a {x, y}\n@data\n", "line 1: label 'a' has the values x, y: expected 0 and 1"),
        (b"@attribute a {0, '1}\n@data\n", "line 1: a quote is not closed"),
        (b"@attribute '' real\n@data\n", "names of attributes have 1 to 256 bytes"),
        (b"@attribute a {0,1}\n@data\n1\n", "the data have no features"),
        (b"@data\n1\n", "1 labels were requested, but the file has 0 attributes"),
    ],
)
def test_arff_header_errors_say_where(header: bytes, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_arff(io.BytesIO(header), 1)


def test_arff_without_label_names() -> None:
    with pytest.raises(BadDataset, match="the label attributes are unknown: pass the Mulan XML"):
        read_arff(io.BytesIO(ARFF))


@for_each(
    ("xml", "message"),
    [
        (b"<labels><label name='rock'></labels>", "labels, line 1: mismatched tag"),
        (b"<labels>\n<label/></labels>", "labels, line 2: a label has no name"),
        (b"<labels/>", "labels: the XML has no <label name=...>"),
        (b"", "labels, line 1: no element found"),
        (b"@relation", "labels, line 1: not well-formed"),
        (b"<labels><label name='folk'/></labels>", "label 'folk' is not among the attributes"),
        (b"<labels><label name='rock'/><label name='rock'/></labels>", "two labels are called 'rock'"),
        (b"<?xml version='1.0' encoding='nonsense'?><labels/>", "labels.*: unknown encoding"),
        (b'<!DOCTYPE l [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><l/>', "labels, line 1: document type declarations"),
        (b'<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><l/>', "labels, line 1: document type declarations"),
        (b'<!DOCTYPE l SYSTEM "http://127.0.0.1:1/l.dtd"><l/>', "labels, line 1: document type declarations"),
    ],
)
def test_wrong_xml(xml: bytes, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_arff(io.BytesIO(ARFF), io.BytesIO(xml))


@for_each(
    ("text", "message"),
    [
        (b"a,b\n1,0\n1\n", "line 3: 1 value for 2 columns"),
        (b"a,b\n1,0\n1,0,1\n", "line 3: 3 values for 2 columns"),
        (b"a,b\n-1e999,0\n", "line 2: column 'a' is '-1e999': expected a finite number"),
        (b"a,b\n1,maybe\n", "line 2: label 'b' is 'maybe': expected 0 or 1"),
        (b'a,b\n"1,0\n2,1\n', "line 2: not CSV: a quote that opens in this line is not closed"),
        (b'a,b\n"1"x,0\n', "line 2: not CSV"),
        (b"a,a\n1,0\n", "line 1: two columns are called 'a'"),
        (b"a," + b"x" * 300 + b"\n1,0\n", "line 1: names of columns have 1 to 256 bytes"),
        (b"b\n1\n", "the data have no features"),
        (b"a,b\n", "there are no rows"),
        (b'a,b\n"' + b"x" * 200_000 + b'",0\n', "line 2: not CSV: field larger than field limit"),
        (b"a,b\n1,\x00\n", "line 2"),
    ],
)
def test_csv_errors_say_where(text: bytes, message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_csv(io.BytesIO(text), label_columns=1)


@for_each(
    ("columns", "message"),
    [
        (0, "0 label columns requested, but there are 2 columns"),
        (3, "3 label columns requested, but there are 2 columns"),
        (["c"], "label column 'c' is not among the columns"),
        (["b", "b"], "two label columns are called 'b'"),
        ([], "the data have no labels"),
    ],
)
def test_csv_label_columns_that_are_not_there(columns: int | list[str], message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_csv(io.BytesIO(b"a,b\n1,0\n"), columns)


@for_each(
    ("line", "message"),
    [
        ('{"x": [1], "y": ["a"]', "not JSON"),
        ('{"x": [1], "y": ["a"]}{"x": [2], "y": ["b"]}', "--data-binary"),
        ("[1]", "must be an object"),
        ('{"y": ["a"]}', "an example has x and y, not 'y'"),
        ('{"x": [1], "y": ["a"], "z": 1}', "an example has x and y, not 'x', 'y', 'z'"),
        ('{"x": 1, "y": ["a"]}', "must be a list of numbers"),
        ('{"x": [1, NaN], "y": ["a"]}', "NaN is not a finite number"),
        ('{"x": [1, -Infinity], "y": ["a"]}', "-Infinity is not a finite number"),
        ('{"x": [1e999, 1], "y": ["a"]}', "inf is not a finite number"),
        ('{"x": [1, 2e15], "y": ["a"]}', "is not a finite number of at most"),
        ('{"x": [1, true], "y": ["a"]}', "True is not a number"),
        ('{"x": [1, "2"], "y": ["a"]}', "'2' is not a number"),
        ('{"x": [1, ' + "9" * 5000 + '], "y": ["a"]}', "Exceeds the limit|is not a finite number"),
        ('{"x": [1], "y": ["a"]}', "must have 2 numbers, as in earlier rows, not 1"),
        ('{"x": {"a": 1}, "y": ["a"]}', "features are named, but in earlier rows a list"),
        ('{"x": [1, 2], "y": "a"}', "y must be a list of all relevant labels"),
        ('{"x": [1, 2], "y": {"a": true}}', "y has not the same labels as|y lacks 'u', which other rows have"),
        ('{"x": [1, 2], "y": {"a": 0.5}}', "y.a must be true or false"),
        ('{"x": [1, 2], "y": [3]}', "y: labels must be strings: 3 is a number"),
        ('{"x": [1, 2], "y": ["a", "a"]}', "y: a label occurs twice"),
        ('{"x": [1, 2], "y": [""]}', "names of labels have 1 to 256 bytes"),
        ('{"x": [1, 2], "y": ["\\ud800"]}', "a name of labels is not Unicode"),
        ('{"x": [1, 2], "x": [1, 2], "y": []}', "'x' occurs twice in an object"),
        ('{"x": {"views": {"x": [1, 2]}}, "y": [], "y": []}', "'y' occurs twice in an object"),
        ('{"x": ' + "[" * 100_000 + "]" * 100_000 + ', "y": []}', "nested too deeply|is not a number"),
    ],
)
def test_ndjson_errors_say_where(line: str, message: str) -> None:
    data = f'{{"x": [1, 2], "y": ["u"]}}\n\n{line}\n'.encode()
    with pytest.raises(BadDataset, match=f"line 3: .*({message})"):
        read_ndjson(io.BytesIO(data))


@for_each(
    ("x", "message"),
    [
        ({"indices": [0, 2**31], "values": [1, 1]}, "indices must be integers, at least 0 and below"),
        ({"indices": [0, -1], "values": [1, 1]}, "indices must be integers, at least 0"),
        ({"indices": [0, True], "values": [1, 1]}, "indices must be integers"),
        ({"indices": [1, 1], "values": [1, 1]}, "must have one value for each index, and no index twice"),
        ({"indices": [1], "values": [1, 1]}, "must have one value for each index"),
        ({"indices": [100], "values": [1]}, "101 features; at most 50 are allowed"),
        ({"views": {}}, "must have 1 to 100 different views"),
        ({"views": {"": [1]}}, "names of views have 1 to 256 bytes"),
        ({"views": {"v": 1}}, "must be a list of numbers"),
    ],
)
def test_invalid_ndjson_features_are_refused(x: Any, message: str) -> None:
    with pytest.raises(BadDataset, match=f"line 1: .*{message}"):
        read_ndjson(io.BytesIO(json.dumps({"x": x, "y": ["u"]}).encode()), limits=SMALL)


@for_each(
    ("second", "message"),
    [
        ({"views": {}}, "all rows together must have 1 to 100 different views"),
        (
            {"views": {f"v{at}": [1] for at in range(99)}},
            "all rows together must have 1 to 100 different views",
        ),
        ({"views": {"c": 1}}, "must be a list of numbers"),
        ({"views": {"": [1]}}, "names of views have 1 to 256 bytes"),
        ({"views": {"a": {"f": 1}}}, "x.views.a: features are named, but in earlier rows a list"),
        ({"views": {"a": [1, 2]}}, "x.views.a: must have 1 numbers, as in earlier rows, not 2"),
        ([1], "x has no views, unlike earlier rows"),
    ],
)
def test_ndjson_views_that_change(second: Any, message: str) -> None:
    rows = [{"views": {"a": [1], "b": [1]}}, {"views": {"b": [2]}}, second]
    lines = "\n".join(json.dumps({"x": x, "y": ["u"]}) for x in rows).encode()
    with pytest.raises(BadDataset, match=f"line 3: {message}"):
        read_ndjson(io.BytesIO(lines))


def test_ndjson_views_after_rows_without() -> None:
    lines = b'{"x": [1], "y": ["u"]}\n{"x": {"views": {"a": [1]}}, "y": ["u"]}\n'
    with pytest.raises(BadDataset, match="line 2: x has views, unlike earlier rows"):
        read_ndjson(io.BytesIO(lines))


@pytest.mark.parametrize(("limits", "line"), [(ReaderLimits(nonzeros=1_010), 11), (ReaderLimits(bytes=5_000), 12)])
def test_rows_that_lack_a_dense_view_count_as_wide_as_others(limits: ReaderLimits, line: int) -> None:
    """A reader asked for a dataset in memory returns a matrix with all rows."""
    rows = [{"wide": [1] * 100}, *[{"narrow": {"f": 1}}] * 50]
    lines = "\n".join(json.dumps({"x": {"views": views}, "y": []}) for views in rows).encode()
    with pytest.raises(BadDataset, match=f"line {line}: "):
        read_ndjson(io.BytesIO(lines), limits=limits)


@for_each(
    ("missing", "message"),
    [
        (np.int8([[0, 1], [0, 0]]), "'missing' must have a boolean for each of 2 rows and 2 views"),
        (np.array([[False], [True]]), "'missing' must have a boolean for each of 2 rows and 2 views"),
        (np.array([False, True]), "'missing' must have 2 dimension"),
        (np.array([[False, False], [True, True]]), "row 1: has no view according to 'missing'"),
        (np.array([[False, False], [False, True]]), "row 1: X must be finite"),
    ],
)
def test_npz_missing_must_match_the_views(missing: Any, message: str) -> None:
    views = {"X": np.array([[1.0, 2.0], [np.inf, np.inf]]), "view_id": np.int8([0, 1]), "Y": np.int8([[1], [0]])}
    with pytest.raises(BadDataset, match=message):
        read_npz(io.BytesIO(npz_bytes(**views, missing=missing)))


def test_messages_do_not_grow_with_what_they_quote() -> None:
    for data, format in ((b"1 " + b"x" * 10**6, "libsvm"), (b'{"x":["' + b"x" * 10**6 + b'"]}', "ndjson")):
        with pytest.raises(BadDataset) as caught:
            read_dataset(io.BytesIO(data), format)
        assert len(str(caught.value)) < 300


# -- NPZ --------------------------------------------------------------------------------------------------------------


def arrays(**change: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "X_data": np.float32([1, 2, 3]),
        "X_indices": np.int32([0, 2, 1]),
        "X_indptr": np.int64([0, 2, 3]),
        "X_shape": np.int64([2, 3]),
        "Y": np.int8([[0, 1], [1, 0]]),
    }
    return {name: array for name, array in {**plain, **change}.items() if array is not None}


@for_each(
    ("change", "message"),
    [
        ({"Y": None}, "the file has neither 'Y' nor 'Y_indices', 'Y_indptr', 'Y_shape'"),
        ({"X_data": None}, "the file has neither 'X' nor 'X_data'"),
        ({"Y": np.int8([[0, 1]])}, "X has 2 rows, Y has 1"),
        ({"Y": np.int8([0, 1])}, "'Y' must have 2 dimension"),
        ({"Y": np.int8([[0, 1], [2, 0]])}, "row 1: Y must contain only 0 and 1"),
        ({"Y": np.float64([[0, 1], [np.nan, 0]])}, "row 1: Y must contain only 0 and 1"),
        ({"Y": np.zeros((2, 0), np.int8)}, "the data have no labels"),
        ({"Y": np.array([[0, None]], dtype=object)}, "'Y' must contain numbers or strings, not object"),
        ({"Y": np.array([["a"], ["b"]])}, "row 0: Y must contain only 0 and 1"),
        ({"X_data": np.float32([1, 2, np.nan])}, "row 1: X must be finite"),
        ({"X_data": np.float64([1, 2, 1e300])}, "row 1: X must be finite and at most 1e"),
        ({"X_data": np.complex64([1, 2, 3])}, "'X_data' must contain numbers or strings, not '<c8'"),
        ({"X_data": np.array(["1", "2", "3"])}, "'X' must contain numbers, not <U1"),
        ({"X_data": np.float32([1, 2])}, "the arrays of X are inconsistent"),
        ({"X_indices": np.int32([0, 3, 1])}, "row 0: X_indices must be from 0 to 2"),
        ({"X_indices": np.int64([0, -1, 1])}, "row 0: X_indices must be from 0 to 2"),
        ({"X_indices": np.uint64([0, 2**63, 1])}, "row 0: X_indices must be from 0 to 2"),
        ({"X_indices": np.int32([2, 2, 1])}, "row 0: X_indices contains a column twice"),
        ({"X_indices": np.float32([0, 2, 1])}, "'X_indices' must contain integers, not float32"),
        ({"X_indptr": np.int64([0, 2, 4])}, "row 1: X_indptr must ascend to at most 3, but goes from 2 to 4"),
        ({"X_indptr": np.int64([0, 2, 1])}, "row 1: X_indptr must ascend to at most 3, but goes from 2 to 1"),
        ({"X_indptr": np.uint64([0, 2, 2**63])}, "row 1: X_indptr must ascend to at most 3, but goes from 2"),
        ({"X_indptr": np.int64([1, 2, 3])}, "X_indptr must start with 0, not 1"),
        ({"X_indptr": np.int64([0, 1, 2])}, "X_indptr ends with 2, but there are 3 indices"),
        ({"X_shape": np.int64([2, 3, 1])}, "X_shape must be two sizes"),
        ({"X_shape": np.int64([2, -3])}, "X_shape must be two sizes"),
        ({"X_shape": np.float64([2, 3])}, "X_shape must be two sizes"),
        ({"X_shape": np.int64([2, 2**40])}, "X: 1,099,511,627,776 features; at most 50 are allowed"),
        ({"X_shape": np.int64([2**40, 3])}, "X: 1,099,511,627,776 rows; at most 100 are allowed"),
        ({"feature_names": np.array(["a", "b"])}, "'feature_names' must be 3 strings"),
        ({"label_names": np.array(["a", "a"])}, "two labels are called 'a'"),
        ({"label_names": np.array(["a", ""])}, "names of labels have 1 to 256 bytes"),
        ({"label_names": np.array([1, 2])}, "'label_names' must be 2 strings"),
        ({"label_names": np.frombuffer(b"\xff\xff\xff\xff\x61\0\0\0", "<U1")}, "one is not valid Unicode"),
        ({"train_idx": np.int64([0, 2])}, "'train_idx' must contain numbers of rows, 0 to 1"),
        ({"train_idx": np.int64([0, 0])}, "'train_idx' contains a row twice"),
        ({"test_idx": np.float64([0])}, "'test_idx' must contain integers"),
        ({"view_id": np.int64([0, 1])}, "'view_id' must be the number of a view"),
        ({"view_id": np.int64([0, 1, 100])}, "'view_id' must be the number of a view"),
        ({"view_id": np.int64([0, 2, 2])}, "the data have no features in view '1'"),
        ({"view_id": np.int64([0, 1, 1]), "view_names": np.array(["a"])}, "'view_names' must be 2 strings"),
        ({"labelled": np.array([True])}, "'labelled' must be 2 booleans"),
        ({"labelled": np.array([True, False])}, "row 1: has labels, but 'labelled' is false"),
    ],
)
def test_npz_errors_say_where(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadDataset, match=message):
        read_npz(io.BytesIO(npz_bytes(**arrays(**change))), limits=SMALL)


class Evil:
    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.witness), "w")


@pytest.mark.parametrize("name", ["X", "Y", "label_names", "feature_names", "train_idx", "view_id", "labelled"])
def test_npz_is_never_unpickled(tmp_path: Path, name: str) -> None:
    witness = tmp_path / "witness"
    evil = np.empty(2, dtype=object)
    evil[:] = Evil(witness)
    with pytest.raises(BadDataset, match="not object"):
        read_npz(io.BytesIO(npz_bytes(**arrays(**{name: evil.reshape(2, 1) if name in ("X", "Y") else evil}))))
    # An array of numbers whose bytes are a pickle, and a member that is one.
    for member in (b"\x93NUMPY\x01\x00", b""):
        file = io.BytesIO(npz_bytes(**arrays(**{name: None})))
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(f"{name}.npy", member + pickle.dumps(Evil(witness)))
        with pytest.raises(BadDataset, match=r"is not a NumPy array|is there"):
            read_npz(file)
    assert not witness.exists()


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def with_member(member: bytes, name: str = "Y", compress: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    file = io.BytesIO(npz_bytes(**arrays(**{name: None})))
    with zipfile.ZipFile(file, "a", compress) as archive:
        archive.writestr(f"{name}.npy", member)
    file.seek(0)
    return file


@for_each(
    "header",
    [
        "{'descr': '<i1', 'fortran_order': False, 'shape': (2, 2**60)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (-2, -2)}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (True, 2)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': [('a', '<i4', (10000000,))], 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '<U536870911', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': '|i1', 'fortran_order': False}",
        "__import__('os').system('true')",
        "(" * 5_000,
        "[" * 5_000 + "]" * 5_000,
        "{" + "'a':" * 2_000,
        "-" * 9_000 + "1",
        "'\\N{nothing}'",
        "9" * 9_000,
    ],
)
def test_npz_headers_that_are_wrong(header: str) -> None:
    with pytest.raises(BadDataset):
        read_npz(with_member(npy(header, b"\0\1\1\0")))


def test_npz_with_a_header_that_would_fill_the_memory() -> None:
    with pytest.raises(BadDataset, match="its header has 4,294,967,295 bytes; at most 10,000 are allowed"):
        read_npz(with_member(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 10_000))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_npz_compressed_in_another_way(method: int) -> None:
    with pytest.raises(BadDataset, match="Y: it is encrypted, or compressed by a method that NumPy does not use"):
        read_npz(with_member(b"anything", compress=method))


def test_npz_with_an_array_twice() -> None:
    file = io.BytesIO(npz_bytes(**arrays()))
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("Y.npy", npy("{'descr': '|i1', 'fortran_order': False, 'shape': (2, 1)}", b"\1\1"))
    with pytest.raises(BadDataset, match="an array is in the file twice"):
        read_npz(file)


def test_npz_with_more_items_than_it_says() -> None:
    data = npy("{'descr': '|i1', 'fortran_order': False, 'shape': (2, 2)}", b"\0\1\1\0\1")
    with pytest.raises(BadDataset, match="'Y' has more items than its header states"):
        read_npz(with_member(data))


def test_npz_with_a_million_members() -> None:
    tail = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 2**30, 0, 0)
    with pytest.raises(BadDataset, match="its list of arrays is larger than 1,048,576 bytes"):
        read_npz(io.BytesIO(b"\0" * 100 + tail))
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 1)
    with pytest.raises(BadDataset, match="its list of arrays is larger"):
        read_npz(io.BytesIO(b"\0" * 100 + locator + tail[:12] + bytes(10)))


def test_rows_take_memory_even_where_they_are_empty() -> None:
    limits = ReaderLimits(bytes=1_000)
    with pytest.raises(BadDataset, match=r"line \d+: 1,\d+ bytes; at most 1,000 are allowed"):
        read_ndjson(io.BytesIO(b'{"x": {}, "y": []}\n' * 100), limits=limits)


# -- memory -----------------------------------------------------------------------------------------------------------

PEAK = """
import io, resource, sys
from manylabel_core.datasets import BadDataset, ReaderLimits, read_dataset
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    limits = ReaderLimits(bytes=2**25, nonzeros=2**23, labels=10_000)
    read_dataset(sys.argv[1], sys.argv[2], limits=limits, **eval(sys.argv[3]))
except BadDataset as error:
    print(error)
else:
    print("read")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def refusal_and_megabytes(path: Path, format: str, options: str = "{}") -> tuple[str, int]:
    """Return the answer of a separate process about a file, and the growth of its resident memory at the peak."""
    command = [sys.executable, "-c", PEAK, str(path), format, options]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    message, megabytes = run.stdout.splitlines()
    return message, int(megabytes)


BOMB_BYTES = 2**28


def write_bomb(path: Path, name: str, header: str, others: dict[str, bytes]) -> None:
    """An archive of small arrays and one of zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for other, data in others.items():
            archive.writestr(f"{other}.npy", data)
        with archive.open(f"{name}.npy", "w") as member:
            member.write(npy(header))
            for _ in range(BOMB_BYTES // 2**20):
                member.write(bytes(2**20))
    assert path.stat().st_size < BOMB_BYTES // 200


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("n_rows", "message"),
    [
        (BOMB_BYTES // 400, "'X' has 67,108,800 values; at most 8,388,608 more are allowed"),
        (2, "'X' has more items than its header"),
    ],
)
def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, n_rows: int, message: str) -> None:
    """256 MB of zeros in 1 MB: with their true size in the array's header, and with a modest one."""
    Y = npy(f"{{'descr': '|i1', 'fortran_order': False, 'shape': ({n_rows}, 1)}}", b"\1" * min(n_rows, 2))
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({n_rows}, 100)}}"
    write_bomb(tmp_path / "a.npz", "X", header, {"Y": Y})
    refusal, megabytes = refusal_and_megabytes(tmp_path / "a.npz", "npz")
    assert message in refusal
    assert megabytes < 50, refusal


@pytest.mark.usefixtures("programs")
def test_names_as_a_bomb(tmp_path: Path) -> None:
    X = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", bytes(8))
    Y = npy("{'descr': '|i1', 'fortran_order': False, 'shape': (1, 1)}", b"\1")
    header = f"{{'descr': '<U{BOMB_BYTES // 8}', 'fortran_order': False, 'shape': (2,)}}"
    write_bomb(tmp_path / "a.npz", "feature_names", header, {"X": X, "Y": Y})
    refusal, megabytes = refusal_and_megabytes(tmp_path / "a.npz", "npz")
    assert "'feature_names' has 268,435,456 bytes; at most" in refusal
    assert megabytes < 50


@pytest.mark.usefixtures("programs")
def test_arff_with_a_million_attributes(tmp_path: Path) -> None:
    path = tmp_path / "million.arff"
    with path.open("w") as file:
        file.writelines(f"@attribute a{i} numeric\n" for i in range(1_000_000))
        file.write("@data\n{0 1}\n")
    refusal, megabytes = refusal_and_megabytes(path, "arff", "{'labels': 1}")
    assert refusal == "line 510001: the file has too many attributes; at most 510,000 are allowed"
    assert megabytes < 250


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("format", "options", "head", "portion", "refusal"),
    [
        ("libsvm", "{}", "", "1 ", "the line has more than 16777216 bytes"),
        ("ndjson", "{}", "", "[", "the line has more than 16777216 bytes"),
        ("csv", "{'label_columns': 1}", "", "a,", "the line has more than 16777216 bytes"),
        ("csv", "{'label_columns': 1}", 'a,b\n"', "1\n", "field larger than field limit"),
        (
            "arff",
            "{'labels': 1}",
            "@attribute a {0,1}\n@attribute b {0,1}\n@data\n'",
            "a",
            "the line has more than 16777216",
        ),
        ("arff", "{'labels': 1}", "", "@attribute 'a", "the line has more than 16777216 bytes"),
    ],
)
def test_text_without_ends_of_lines(
    tmp_path: Path, format: str, options: str, head: str, portion: str, refusal: str
) -> None:
    path = tmp_path / f"endless.{format}"
    with path.open("w") as file:
        file.write(head)
        for _ in range(20):
            file.write(portion * (2**20 // len(portion)))
    message, megabytes = refusal_and_megabytes(path, format, options)
    assert refusal in message
    assert megabytes < 150


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("format", "options", "head", "portion"),
    [
        ("libsvm", "{}", "a ", "1:1 "),
        ("arff", "{'labels': 1}", "@attribute a {0,1}\n@attribute b {0,1}\n@data\n", "1,"),
        ("arff", "{'labels': 1}", "@attribute a {0,1}\n@attribute b {0,1}\n@data\n", "'1',"),
        ("arff", "{'labels': 1}", "@attribute a {0,1}\n@attribute b {0,1}\n@data\n{", "1 1,"),
        ("arff", "{'labels': 1}", "@attribute a {", "ab,"),
        ("csv", "{'label_columns': 1}", "a,b\n", "1,"),
        ("ndjson", "{}", '{"x": {"indices": [', "1,"),
    ],
)
def test_one_long_line_of_many_words(tmp_path: Path, format: str, options: str, head: str, portion: str) -> None:
    """15 MB, which is allowed: the words of a line are in memory at once, and that is bounded."""
    path = tmp_path / f"long.{format}"
    path.write_text(head + portion * (15 * 2**20 // len(portion)) + "\n")
    message, megabytes = refusal_and_megabytes(path, format, options)
    assert message != "read"
    assert megabytes < 700, message


@pytest.mark.usefixtures("programs")
def test_rows_beyond_the_memory_allowed(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w") as file:
        file.write(",".join(f"c{i}" for i in range(200)) + "\n")
        row = ",".join(["1"] * 200) + "\n"
        file.writelines(row for _ in range(55_000))
    refusal, megabytes = refusal_and_megabytes(path, "csv", "{'label_columns': 10}")
    assert "are allowed" in refusal
    assert megabytes < 200
