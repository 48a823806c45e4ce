"""Records as features: each kind of value, what is refused, and the same bits wherever and whenever."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core import Vocabulary
from manylabel_core.records import RecordEncoder, RecordError, RecordLimits, TextSettings
from manylabel_core.records.tokeniser import is_emoji, words
from manylabel_core.rows import MAX_MAGNITUDE

TITLE = RecordEncoder(TextSettings(fields=("title", "meta.note")))
AUTOMATIC = RecordEncoder()


def plain_features(record: Any, fields: set[str], prefix: str = "") -> dict[str, float]:
    """Transcribe the rules, for settings that are left as they are and names that are short."""
    features: dict[str, float] = {}
    for key, value in ({"text": record} if isinstance(record, str) else record).items():
        name = prefix + key
        strings = [value] if isinstance(value, str) else [one for one in value if one] if type(value) is list else []
        if isinstance(value, dict):
            features |= plain_features(value, fields, f"{name}.")
        elif isinstance(value, bool | int | float):
            features[name] = float(value)
        elif name in fields or isinstance(record, str):
            counts = Counter(word for text in strings for word in words(text) if len(word) >= 2 or is_emoji(word))
            features |= {f"{name}={word}": 1 + math.log(count) for word, count in counts.items()}
        else:
            features |= {f"{name}={string}": 1.0 for string in strings if string}
    return features


KEYS = st.sampled_from(["title", "note", "meta", "a", "b c", "café", "ключ"])
STRINGS = st.text(st.sampled_from("ab AB,\0é\u0301שい\u064b\U0001f44dक\u093f\u200d"), max_size=20)
OTHERS = "a list of numbers, or an object of these"
NUMBERS = st.integers(-(10**15), 10**15) | st.floats(-MAX_MAGNITUDE, MAX_MAGNITUDE)
VALUES = NUMBERS | st.booleans() | st.none() | STRINGS | st.lists(STRINGS | st.none(), max_size=4)
RECORDS = STRINGS | st.dictionaries(
    KEYS, st.recursive(VALUES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6), max_size=6
)


@given(RECORDS)
def test_features_are_those_of_the_plain_transcription(record: Any) -> None:
    features = TITLE.encode(record)
    assert list(features.items()) == list(plain_features(record, {"title", "meta.note"}).items())
    assert all(type(value) is float for value in features.values())


@given(st.lists(RECORDS, max_size=6))
def test_features_do_not_depend_on_other_records(records: list[Any]) -> None:
    alone = [RecordEncoder(TITLE.text).encode(record) for record in records]
    assert [TITLE.encode(record) for record in records] == alone
    assert [TITLE.encode(record) for record in reversed(records)] == alone[::-1]
    assert [TITLE.encode(json.loads(json.dumps(record))) for record in records] == alone


@given(st.text(max_size=40), st.text(max_size=300))  # surrogates too
def test_any_string_is_read_or_refused(key: str, string: str) -> None:
    try:
        features = AUTOMATIC.encode({key: string, "list": [string], "in": {"deep": string}})
    except RecordError as error:
        error.args[0].encode()
        valid = all(ord(one) not in range(0xD800, 0xE000) for one in key + string)
        assert not valid or not key or key in ("list", "in.deep")
        return
    Vocabulary().add(features)  # names are valid Unicode
    assert all(1 <= len(name.encode()) <= 256 for name in features)
    assert all(math.isfinite(value) for value in features.values())


def test_a_string_is_a_text() -> None:
    expected = {"text=to": 1 + math.log(2), "text=be": 1 + math.log(2), "text=or": 1.0, "text=not": 1.0}
    assert AUTOMATIC.encode("to be or not to be") == TITLE.encode("to be or not to be") == expected
    assert RecordEncoder(TextSettings(fields=("text",))).encode({"text": "to be or not to be"}) == expected


def test_without_settings_long_strings_are_texts() -> None:
    short, long = "ab " * 66 + "ab", "ab " * 66 + "abc"
    assert (len(short), len(long)) == (200, 201)
    assert AUTOMATIC.encode({"a": short}) == {f"a={short}": 1.0}
    assert AUTOMATIC.encode({"a": long}) == {"a=ab": 1 + math.log(66), "a=abc": 1.0}
    assert AUTOMATIC.encode({"a": ["x y", long]}) == {"a=ab": 1 + math.log(66), "a=abc": 1.0}  # the field is text
    assert len(TITLE.encode({"a": long})) == 1
    assert RecordEncoder(TextSettings(longer_than=1)).encode({"a": "x", "b": "yy zz"}) == dict.fromkeys(
        ["a=x", "b=yy", "b=zz"], 1.0
    )


def test_ngrams_do_not_span_the_texts_of_a_list() -> None:
    encoder = RecordEncoder(TextSettings(fields=("title",), ngrams=(2, 2)))
    assert encoder.encode({"title": ["one two", "three four"]}) == {"title=one two": 1.0, "title=three four": 1.0}


def test_absence_and_zero() -> None:
    nothing = {"a": None, "b": "", "title": "", "c": [], "d": ["", None], "e": {}, "f": {"g": None}}
    assert TITLE.encode(nothing) == TITLE.encode({}) == TITLE.encode("") == {}
    assert TITLE.encode({"a": 0, "b": False, "c": -0.0}) == {"a": 0.0, "b": 0.0, "c": 0.0}
    assert TITLE.encode({"a": " "}) == {"a= ": 1.0}  # a category is taken as it is


def test_numbers_of_numpy_and_of_python_are_the_same() -> None:
    plain = {"a": 2.5, "b": 3.0, "c": 1.0}
    assert TITLE.encode({"a": np.float32(2.5), "b": np.int8(3), "c": np.True_}) == plain
    assert TITLE.encode({"a": Fraction(5, 2), "b": 3, "c": True}) == plain


def test_a_longest_count_has_its_logarithm() -> None:
    for count in (255, 256, 1_000):
        assert TITLE.encode({"title": "word " * count}) == {"title=word": 1 + math.log(count)}


def test_a_word_of_a_megabyte_is_one_feature() -> None:
    encoder = RecordEncoder(TITLE.text, RecordLimits(characters=2**22))
    for letter, size in (("a", 2**20), ("ж", 2**19), ("\u0915\u093f", 2**18), ("\U0001d54f\u0301", 2**18)):
        one, other = (list(encoder.encode({"title": letter * size + end, "b": letter})) for end in "yz")
        assert one != other
        assert [name[:20] for name in one] == [name[:20] for name in other]
        assert all(240 <= len(name.encode()) <= 256 for name in (one[0], other[0]))
    with pytest.raises(RecordError, match=r"^the record must have at most 50,000 tokens"):
        RecordEncoder(TextSettings(chars=3), encoder.limits).encode("a" * 2**20)


def test_a_long_name_keeps_its_identity() -> None:
    names = [
        next(iter(encoder.encode({field: string})))
        for field in ("f", "f" * 254, "f" * 256, "é" * 128)
        for string in ("é" * 190 + "1", "é" * 190 + "2")
        for encoder in (TITLE, RecordEncoder(TextSettings(fields=(field,))))
    ]
    assert all(len(name.encode()) <= 256 for name in names)
    # A category and a word that are written the same are the same name.
    assert len(set(names)) == len(names) // 2
    assert next(iter(TITLE.encode({"f": "x" * 254}))) == "f=" + "x" * 254  # the longest that is written out
    assert next(iter(TITLE.encode({"f": "x" * 255}))) == "f=" + "x" * 237 + "~518529508a6e8cf6"


@for_each(
    ("record", "message"),
    [
        ([1, 2], "the record must be an object or a string"),
        (None, "the record must be an object or a string"),
        ({"a": float("nan")}, "a must be finite and at most 1e+15 in absolute value"),
        ({"a": {"b": -math.inf}}, "a.b must be finite and at most 1e+15 in absolute value"),
        ({"a": 10**400}, "a must be finite and at most 1e+15 in absolute value"),
        ({"a": 1.1e15}, "a must be finite and at most 1e+15 in absolute value"),
        ({"a": b"bytes"}, "a must be a number, true, false, null, a string, a list of strings, " + OTHERS),
        ({"a": {"set"}}, "a must be a number, true, false, null, a string, a list of strings, " + OTHERS),
        ({"a": 1j}, "a must be a number, true, false, null, a string, a list of strings, " + OTHERS),
        ({"a": ["x", 1]}, "a.1 must be a string"),
        ({"a": [["x"]]}, "a.0 must be a string or a number"),
        ({"a": ["x", {"b": 1}]}, "a.1 must be a string"),
        ({1: 2}, "1 must have a string as its name"),
        ({"": 2}, "the record must have a name of 1 to 256 bytes"),
        ({"a": {"": 2}}, "a. must have a name of 1 to 256 bytes"),
        ({"é" * 128: {"b": 1}}, "é" * 128 + ".b must have a name of 1 to 256 bytes"),
        ({"a": "\ud800"}, "a must be valid Unicode"),
        ({"title": "\udc00"}, "title must be valid Unicode"),
        ({"\ud83d": 1}, "\\ud83d must be valid Unicode"),
        ({"a.b": 1, "a": {"b": 2}}, "a.b must not have the same name as another field, 'a.b'"),
        ({"a": {"b": "x"}, "a.b": "y"}, "a.b must not have the same name as another field, 'a.b'"),
        ({"a=x": 1, "a": "x"}, "a must not produce a feature that another field produces"),
        (
            {"title": "some words", "title=words": 1},
            "title=words must not produce a feature that another field produces",
        ),
    ],
)
def test_errors_name_the_field_and_what_is_allowed(record: Any, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        TITLE.encode(record)
    assert str(caught.value) == message


def test_limits_bound_each_record() -> None:
    limits = RecordLimits(characters=20, tokens=4, depth=2)
    encoder = RecordEncoder(TITLE.text, limits)
    for _ in range(3):  # of each record, not of all
        assert len(encoder.encode({"title": "aa bb cc dd", "b": "x" * 9, "c": {"d": 1}})) == 6
    refused = {
        "the record must have at most 20 characters in all its strings together": [
            {"title": "x" * 21},
            {"a": "x" * 10, "b": ["x" * 10, "x"]},
            "x" * 21,
        ],
        "the record must have at most 4 tokens in all its texts together": [
            {"title": "aa bb cc dd ee"},
            {"title": ["aa aa aa", "aa aa"]},
            {"title": "aa bb cc", "meta": {"note": "dd ee"}},
        ],
        "c.d must be at most 2 objects deep, including the record": [{"c": {"d": {}}}],
    }
    for message, records in refused.items():
        for record in records:
            with pytest.raises(RecordError) as caught:
                encoder.encode(record)
            assert str(caught.value) == message


def test_depth_is_bounded_before_python_gives_up() -> None:
    record: dict[str, Any] = {}
    for _ in range(100_000):
        record = {"a": record}
    with pytest.raises(RecordError, match="at most 8 objects deep"):
        TITLE.encode(record)
    while record:  # else Python takes it apart recursively
        record = record["a"]


def test_ngrams_and_parts_are_counted_before_they_are_built() -> None:
    encoder = RecordEncoder(TextSettings(ngrams=(1, 5), chars=(2, 10)), RecordLimits(characters=10**6, tokens=100))
    with pytest.raises(RecordError, match="at most 100 tokens"):
        encoder.encode("word " * 10_000)


SCRIPT = """
import json, sys
from manylabel_core.records import RecordEncoder, TextSettings
encoder = RecordEncoder(TextSettings(fields=("t",), ngrams=2, chars=(3, 5), stop_words=("the", "of", "and")))
record = json.loads(sys.stdin.read())
print(json.dumps([[name, value.hex()] for name, value in encoder.encode(record).items()]))
"""


@pytest.mark.usefixtures("programs")
def test_processes_with_other_hash_seeds_read_the_same() -> None:
    record = {
        "t": "The cat and the hat of the cat; Café 42 \U0001f44d",
        "c": ["b", "a", "b"],
        "n": 1.5,
        "o": {"p": "q"},
    }
    printed = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=json.dumps(record),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert json.loads(printed[0])[0][0] == "t=cat"
