"""Settings of texts: resolved, written as JSON, and refused with the name of the setting."""

import json

import pytest
from tests.support.cases import for_each

from manylabel_core.records import TextSettings
from manylabel_core.records.text import TextReader


def tokens(text: str, **settings: object) -> list[str]:
    return TextReader(TextSettings(**settings)).tokens(text, lambda count: None)  # type: ignore[arg-type]


def test_defaults_are_written_out() -> None:
    assert TextSettings().to_json() == {
        "fields": None,
        "longer_than": 200,
        "ngrams": [1, 1],
        "chars": None,
        "stop_words": [],
        "min_length": 2,
        "tokeniser": 1,
    }
    assert TextSettings(fields=("a",)).longer_than is None  # only these are text


def test_settings_survive_json() -> None:
    given = {"fields": ["b", "a", "b"], "ngrams": 2, "chars": 3, "stop_words": ["The", "don't", "Ⅷ"], "min_length": 1}
    settings = TextSettings.from_json(given)
    written = json.loads(json.dumps(settings.to_json()))
    assert written["fields"] == ["b", "a"]
    assert (written["ngrams"], written["chars"]) == ([1, 2], [3, 3])
    assert written["stop_words"] == ["don", "t", "the", "viii"]
    assert TextSettings.from_json(written) == settings
    assert TextSettings.from_json(written).to_json() == written


@for_each(
    ("setting", "value"),
    [
        ("fields", "title"),
        ("fields", [""]),
        ("fields", ["\ud800"]),
        ("fields", ["é" * 129]),
        ("fields", [1]),
        ("fields", ["a"] * 1_001),
        ("longer_than", -1),
        ("longer_than", True),
        ("ngrams", 0),
        ("ngrams", 6),
        ("ngrams", [2, 1]),
        ("ngrams", [1, 2, 3]),
        ("ngrams", None),
        ("ngrams", [1, 1.5]),
        ("chars", 1),
        ("chars", [3, 11]),
        ("chars", "3"),
        ("stop_words", "english"),
        ("stop_words", ["a"] * 1_001),
        ("min_length", 0),
        ("min_length", 65),
        ("min_length", 2.0),
        ("tokeniser", 2),
        ("tokeniser", True),
        ("analyzer", "word"),
    ],
)
def test_errors_name_the_setting(setting: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{setting} "):
        TextSettings.from_json({setting: value})


def test_settings_are_an_object() -> None:
    with pytest.raises(ValueError, match=r"^text must be an object$"):
        TextSettings.from_json(["title"])  # type: ignore[arg-type]


def test_words_that_are_short_or_stop_words_are_left_out_first() -> None:
    assert tokens("A B or not to be") == ["or", "not", "to", "be"]
    assert tokens("To be OR not to be, Café", stop_words=("to", "CAFE\u0301"), ngrams=2) == (
        ["be", "or", "not", "be", "be or", "or not", "not be"]
    )
    assert tokens("a bc def", min_length=1) == ["a", "bc", "def"]
    assert tokens("a bc def", min_length=3) == ["def"]


def test_runs_of_words() -> None:
    assert tokens("one two three", ngrams=(2, 3)) == ["one two", "two three", "one two three"]
    assert tokens("one", ngrams=(2, 3)) == []


def test_parts_of_words_stand_beside_the_words() -> None:
    assert tokens("words", chars=3) == ["words", "wor*", "*ord*", "*rds"]
    assert tokens("the word", chars=(3, 4)) == ["the", "word", "wor*", "*ord"]
    assert tokens("ab", chars=2) == ["ab"]


def test_tokens_are_counted_before_they_are_built() -> None:
    spent: list[int] = []
    made = TextReader(TextSettings(ngrams=(1, 3), chars=(2, 4))).tokens("some plain words here", spent.append)
    # The bound also counts a part that is the whole word, which is no token. So it is never below the number of tokens.
    assert len(made) <= sum(spent) <= len(made) + 4 * 3
