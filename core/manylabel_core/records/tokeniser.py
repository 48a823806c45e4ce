"""The tokeniser, version 1: the words of a text.

A text is normalised to Unicode's form NFKC, in which every word has one spelling (composed accents, full-width letters,
ligatures), and to lower case. `str.lower` keeps the spelling of a language ("straße"), unlike `str.casefold`
("strasse"), so that explanations are readable. A word begins with a letter, a digit or "_" and continues with these and
with combining marks; otherwise words of Hindi or Thai would be split at every vowel sign. Everything else separates
words: spaces, punctuation, apostrophes, symbols, emoji, NUL, zero-width joiners.

The behaviour of a version never changes; different behaviour requires a new version. The Unicode tables are those of
Python, which adds characters, but does not change existing ones.
"""

import re
import unicodedata
from functools import cache
from typing import NamedTuple

VERSION = 1

MAX_MARKS = 30
"""Maximum number of consecutive combining marks, as in the Stream-Safe Text Format (UAX #15, section 13). Sorting a
longer run would take quadratic time."""

_MARK_BLOCKS = (
    (0x300, 0x3100),
    (0xA600, 0xAC00),
    (0xFB00, 0xFE30),
    (0x10000, 0x12000),
    (0x13400, 0x13500),
    (0x16A00, 0x17000),
    (0x1B000, 0x1F000),
    (0xE0100, 0xE01F0),
)
"""Blocks that contain combining marks; the large scripts outside these blocks have none."""

_HALF_WIDTH_SOUND_MARKS = "\uff9e\uff9f"
"""Marks that NFKC turns into combining marks."""

_ASCII = {code: code if chr(code).isalnum() or chr(code) == "_" else 32 for code in range(128)}
_beyond_two_bytes = re.compile("[\U00010000-\U0010ffff]").search


class _Patterns(NamedTuple):
    words: re.Pattern[str]
    long_run: re.Pattern[str]


def words(text: str) -> list[str]:
    """Return the words of a text (valid Unicode) in order, with repetitions, including words of one character.

    Examples
    --------
    >>> words("Don't PANIC: caf\u0065\u0301 no. 42")
    ['don', 't', 'panic', 'caf\u00e9', 'no', '42']
    """
    if text.isascii():  # equivalent to the general code below, and three times as fast
        return text.lower().translate(_ASCII).split()
    patterns = _patterns(_beyond_two_bytes(text) is not None)
    folded = unicodedata.normalize("NFKC", patterns.long_run.sub(r"\1", text)).lower()
    return patterns.words.findall(folded)


@cache
def _patterns(all_planes: bool) -> _Patterns:
    """Return patterns for a text; those for the first plane of Unicode are faster."""
    marks = _marks(0x110000 if all_planes else 0x10000)
    run = f"[{marks}{_HALF_WIDTH_SOUND_MARKS}]"
    return _Patterns(re.compile(rf"\w+(?:[{marks}]+\w*)*"), re.compile(rf"({run}{{{MAX_MARKS}}}){run}+"))


def _marks(end: int) -> str:
    """Return the combining marks below a code, as the inside of a character class."""
    codes = [
        code
        for first, last in _MARK_BLOCKS
        for code in range(first, min(last, end))
        if unicodedata.category(chr(code)).startswith("M")
    ]
    begins = [code for code, before in zip(codes, [-1, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -1], strict=True) if code + 1 != after]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(begins, ends, strict=True))
