"""The tokeniser: words of all of Unicode, pinned by a list and held against a plain transcription."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core.records import tokeniser
from manylabel_core.records.tokeniser import MAX_MARKS, words

GOLDEN = {
    "": [],
    " \t\n\u00a0\u2003": [],
    "The quick-brown_fox": ["the", "quick", "brown_fox"],
    "Don't e-mail me@example.org!": ["don", "t", "e", "mail", "me", "example", "org"],
    "3.14 and 2e5, v1.2": ["3", "14", "and", "2e5", "v1", "2"],
    "__init__ _ a_b": ["__init__", "_", "a_b"],
    "end\0begin": ["end", "begin"],
    "soft\u00adhyphen zero\u200bwidth": ["soft", "hyphen", "zero", "width"],
    "Straße STRASSE ẞ": ["straße", "strasse", "ß"],
    "café cafe\u0301 CAFÉ": ["café"] * 3,
    "ﬁne \uff26\uff35\uff2c\uff2c x² ½ ™": ["fine", "full", "x2", "1", "2", "tm"],
    "İstanbul ISPARTA ısı": ["i\u0307stanbul", "isparta", "ısı"],
    "ΟΔΟΣ οδός Σ": ["οδος", "οδός", "σ"],
    "Съешь ещё": ["съешь", "ещё"],
    "מַה שְּׁלוֹמְךָ": ["מַה", "שְּׁלוֹמְךָ"],
    "\u202eמילה abc\u202c": ["מילה", "abc"],
    "العَرَبِيَّة كتاب": ["العَرَبِيَّة", "كتاب"],
    "می\u200cخواهم": ["می", "خواهم"],
    "हिन्दी में शब्द": ["हिन्दी", "में", "शब्द"],
    "ภาษาไทย น้ำ": ["ภาษาไทย", "น\u0e49\u0e4dา"],
    "日本語のテキスト、ﾊﾟﾋﾟ": ["日本語のテキスト", "パピ"],
    "한국어 ᄒ\u1161\u11ab글": ["한국어", "한글"],
    "I \u2764\ufe0f NY \U0001f44d\U0001f3fd\U0001f468\u200d\U0001f469\u200d\U0001f467": ["i", "ny"],
    "1\ufe0f\u20e3 \u0301a": ["1\ufe0f\u20e3", "a"],
    "\U0001d54f\U0001d7d9 𑄌\U00011127 𐐀": ["x1", "𑄌\U00011127", "𐐨"],
    "٣٤ ४२ Ⅷ": ["٣٤", "४२", "viii"],
}
"""Tokens of version 1 of the tokeniser. A change here needs a new version; this one stays."""

ALPHABETS = st.sampled_from(
    [
        "aZ09_ -'.\0\n",
        "eE\u0301\u0323\u0344\u00e9\u1e9e\u0130Σσ",
        "שלום\u05b0\u05c1\u202e العر\u064b\u0651\u200f",
        "न्दि\u0947 น้ำ\uff8a\uff9e\uff9f\u3099か",
        "\U0001f44d\U0001f3fd\u200d\ufe0f\u2764\u20e31",
        "\U0001d54f\U00011100\U00011127\U00010400\U000e0100a",
        "가ᄒ\u1161\u11ab\ufdfa½ﬁ",
    ]
)
MIXED = st.lists(ALPHABETS.flatmap(lambda letters: st.text(letters, max_size=8)), max_size=5).map("".join)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def plain_words(text: str) -> list[str]:
    """Say what a word is, one character at a time."""
    kept, n_marks = [], 0
    for character in text:
        n_marks = n_marks + 1 if is_mark(character) or character in "\uff9e\uff9f" else 0
        if n_marks <= MAX_MARKS:
            kept.append(character)
    found = [""]
    for character in unicodedata.normalize("NFKC", "".join(kept)).lower():
        if character.isalnum() or character == "_" or (found[-1] and is_mark(character)):
            found[-1] += character
        else:
            found.append("")
    return [word for word in found if word]


def is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


@for_each("text", GOLDEN)
def test_version_1_reads_these_words(text: str) -> None:
    assert tokeniser.VERSION == 1
    assert words(text) == GOLDEN[text] == plain_words(text)


@given(MIXED | ANY)
@example("a" + "\u0300\u0323" * 40 + "b")
@example("\u2764\ufe0f" + "\uff9e\u0300" * 40)
def test_words_are_those_of_the_plain_transcription(text: str) -> None:
    assert words(text) == plain_words(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_quick_way_through_ascii_reads_the_same(text: str) -> None:
    assert words(text) == words(text + " é")[:-1]


@given(MIXED.map(lambda text: text[:12]))
def test_a_word_written_in_another_form_is_the_same(text: str) -> None:
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text)) == words(text)


@given(MIXED | ANY, MIXED | ANY)
def test_a_text_may_be_cut_at_spaces(text: str, more: str) -> None:
    # Not after a capital sigma: what follows an apostrophe or a dot says whether it ends a word.
    assert words(f"{text}\nand {more}") == [*words(text), "and", *words(more)]


def test_all_marks_of_unicode_are_known() -> None:
    marks = [chr(code) for code in range(0x110000) if is_mark(chr(code))]
    assert words(" ".join(f"q{mark}" for mark in marks)) == plain_words(" ".join(f"q{mark}" for mark in marks))


def test_what_sorts_as_a_mark_counts_as_one_in_a_long_run() -> None:
    assigned = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    sorted_later = [one for one in assigned if unicodedata.combining(unicodedata.normalize("NFKD", one)[0])]
    assert [one for one in sorted_later if not is_mark(one)] == ["\uff9e", "\uff9f"]


@pytest.mark.parametrize("pair", ["\u0300\u0323", "\uff9e\u0300", "\U00011127\u0323"])
def test_a_long_run_of_marks_is_cut(pair: str) -> None:
    (word, after) = words("a" + pair * 200_000 + "b next")  # unless it was cut, this would take minutes
    assert after == "next"
    assert len(word) <= 2 + MAX_MARKS
