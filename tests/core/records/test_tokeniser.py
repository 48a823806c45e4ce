"""The tokeniser: words of all of Unicode, pinned by a list and held against a plain transcription."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core.records import TextSettings, tokeniser
from manylabel_core.records.text import TextReader
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
    "C++, C# or C? F#; A+ G++ C++11 C#7 a+b x++y": (
        ["c++", "c#", "or", "c", "f#", "a+", "g++", "c++", "11", "c", "7", "a", "b", "x++", "y"]
    ),
    "GTK+ Notepad++ libstdc++ issue#12 50+ 1# #tag .NET ASP.NET R&D": (
        ["gtk", "notepad", "libstdc", "issue", "12", "50", "1", "tag", "net", "asp", "net", "r", "d"]
    ),
    "\uff23\uff0b\uff0b C\u207a é c#": ["c++", "c+", "é", "c#"],
    "I \u2764\ufe0f NY \U0001f44d\U0001f3fd\U0001f468\u200d\U0001f469\u200d\U0001f467": (
        ["i", "\u2764", "ny", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467"]
    ),
    "\u2764\u2764\ufe0f\U0001f602ok\U0001f602\u200d \u2605\u2606": (
        ["\u2764", "\u2764", "\U0001f602", "ok", "\U0001f602", "\u2605", "\u2606"]
    ),
    "1\ufe0f\u20e3 #\ufe0f\u20e3 *\u20e3 # * \u0301a": ["1\u20e3", "#\u20e3", "*\u20e3", "a"],
    "\U0001f1eb\U0001f1f7\U0001f1e9\U0001f1ea\U0001f1eb \U0001f3f4\U000e0067\U000e0062\U000e007f": (
        ["\U0001f1eb\U0001f1f7", "\U0001f1e9\U0001f1ea", "\U0001f1eb", "\U0001f3f4\U000e0067\U000e0062\U000e007f"]
    ),
    "\u00a9 \u00ae \u2192 \u20ac \u25cf \u2776 \U0001f201": ["\u2776", "\u30b3\u30b3"],
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
        "\u2764\u2605\u200d\ufe0f\u20e3#*1",
        "\U0001f1eb\U0001f1f7\U0001f468\U0001f3fb\u200d\U0001f3f4\U000e0067\U000e007f",
        "cC+#g1_ .\u207a\uff0b\u0323",
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
    folded = unicodedata.normalize("NFKC", "".join(kept)).lower().replace("\ufe0f", "")
    found, at = list[str](), 0
    while at < len(folded):
        end = end_of_word(folded, at) or end_of_emoji(folded, at)
        if end > at:
            found.append(folded[at:end])
        at = max(end, at + 1)
    return found


def is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def end_of_word(text: str, at: int) -> int:
    """Return the end of the word that begins here, 0 without one."""
    if not is_letter(text[at]):
        return 0
    end = at + 1
    while end < len(text) and (is_letter(text[end]) or is_mark(text[end])):
        end += 1
    if "a" <= text[at:end] <= "z" and end == at + 1:
        if text[end : end + 2] == "++":
            return end + 2
        if text[end : end + 1] in ("+", "#") and not (end + 1 < len(text) and is_letter(text[end + 1])):
            return end + 1
    return end


def end_of_emoji(text: str, at: int) -> int:
    """Return the end of the emoji that begins here, 0 without one."""
    if text[at] in "#*" and text[at + 1 : at + 2] == "\u20e3":
        return at + 2
    flag = text[at : at + 2]
    if len(flag) == 2 and all("\U0001f1e6" <= letter <= "\U0001f1ff" for letter in flag):
        return at + 2
    end = end_of_one(text, at)
    while end and text[end : end + 1] == "\u200d" and (after := end_of_one(text, end + 1)):
        end = after
    while end and "\U000e0020" <= text[end : end + 1] <= "\U000e007f":
        end += 1
    return end


def end_of_one(text: str, at: int) -> int:
    """Return the end of an emoji that is not joined to others, with its skin tone; 0 without one."""
    if ord(text[at : at + 1] or "\0") not in EMOJI:
        return 0
    return at + 1 + ("\U0001f3fb" <= text[at + 1 : at + 2] <= "\U0001f3ff")


EMOJI = {
    *(0x2194, 0x2195, 0x2196, 0x2197, 0x2198, 0x2199, 0x21A9, 0x21AA, 0x231A, 0x231B, 0x2328, 0x23CF),
    *(*range(0x23E9, 0x23F4), 0x23F8, 0x23F9, 0x23FA, 0x25AA, 0x25AB, 0x25B6, 0x25C0, *range(0x25FB, 0x25FF)),
    *(*range(0x2600, 0x2776), *range(0x2794, 0x27C0), 0x2934, 0x2935, 0x2B05, 0x2B06, 0x2B07, 0x2B1B, 0x2B1C),
    *(0x2B50, 0x2B55, 0x3030, 0x303D, *range(0x1F000, 0x1F100), *range(0x1F10D, 0x1FB00)),
}


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
    # Without the word in between, the lower case of a capital sigma at the end of the text would depend on the
    # characters after an apostrophe or a dot.
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


@given(MIXED | ANY)
def test_the_quick_way_without_emoji_reads_the_same(text: str) -> None:
    assert words(text) == words(text + " \u2713")[:-1]


def test_emoji_are_no_letters_and_nothing_else_becomes_one() -> None:
    """So that `is_emoji` and the quick way are right, whatever version of Unicode this Python has."""
    for code in (code for code in range(0x110000) if not 0xD800 <= code < 0xE000):
        folded = unicodedata.normalize("NFKC", chr(code)).lower()
        if any(ord(character) in EMOJI for character in folded):
            assert code in EMOJI
            assert folded == chr(code)
            assert tokeniser.is_emoji(folded)
    assert not any(map(tokeniser.is_emoji, words("_x 42 caf\u00e9")))
    assert not any(is_letter(chr(code)) or is_mark(chr(code)) for code in EMOJI if not 0x1F100 <= code < 0x1F300)


@pytest.mark.parametrize(
    "text", ["c+" * 300_000, "\U0001f468\u200d" * 300_000, "\u2764\u200d" * 300_000, "+#*" * 300_000]
)
def test_hostile_texts_are_read_in_one_pass(text: str) -> None:
    """Reading them in quadratic time would take minutes."""
    assert sum(map(len, words(text))) <= len(text)
    assert words(text + " \u00e9")[-1] == "\u00e9"


def test_a_short_emoji_is_no_short_word() -> None:
    reader = TextReader(TextSettings(min_length=3, ngrams=2))
    assert reader.tokens("an owl \u2605 \U0001f989 c# c++", lambda n: None)[:4] == [
        "owl",
        "\u2605",
        "\U0001f989",
        "c++",
    ]
