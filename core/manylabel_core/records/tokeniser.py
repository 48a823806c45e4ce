"""The tokeniser, version 1: the words of a text.

A text is normalised to Unicode's form NFKC, in which every word has one spelling (composed accents, full-width letters,
ligatures), and to lower case. `str.lower` keeps the spelling of a language ("straße"), unlike `str.casefold`
("strasse"), so that explanations are readable. A word begins with a letter, a digit or "_" and continues with these and
with combining marks. Without the marks, words of Hindi or Thai would be split at every vowel sign. Two kinds of words
are different:

- A single letter of ASCII with "++", or with "+" or "#" at its end: "c++", "c#", "a+". Longer words do not take these
  signs: "gtk+" and "gtk" are the same word.
- An emoji, with its skin tone, the emoji joined to it, and its tags; the two letters of a flag; a keycap. The style
  selector (U+FE0F) is ignored.

Everything else separates words: spaces, punctuation, apostrophes, other symbols, NUL, zero-width joiners.

The behaviour of a version never changes; different behaviour requires a new version. The Unicode tables are those of
Python, which adds characters, but does not change existing ones. The ranges of emoji are fixed, and include characters
that Unicode has not assigned yet.
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

_EMOJI = (
    "\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe"
    "\u2600-\u2775\u2794-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d"
)
"""Emoji of the first plane, with all symbols and dingbats (stars, ticks) but without the digits among these.

Those that NFKC turns into letters or signs are not here.
"""

_EMOJI_BEYOND = "\U0001f000-\U0001f0ff\U0001f10d-\U0001faff"

_STYLE = "\ufe0f"

_SIGNED = r"[a-z](?:\+\+|[+#](?!\w))"
"""A letter with its signs, as in c++ and c#."""

_ASCII = {code: code if chr(code).isalnum() or chr(code) == "_" else 32 for code in range(128)}
_signed_words = re.compile(rf"\w\w+|{_SIGNED}|\w", re.ASCII).findall
_may_have_emoji = re.compile("[\u20e3-\U0010ffff]").search
_beyond_two_bytes = re.compile("[\U00010000-\U0010ffff]").search


class _Patterns(NamedTuple):
    words: re.Pattern[str]
    plain: re.Pattern[str]  # pattern of words without signs, for texts without emoji
    long_run: re.Pattern[str]


def words(text: str) -> list[str]:
    """Return the words of a text (valid Unicode) in order, with repetitions, including words of one character.

    An emoji is the only word whose first character is no letter, digit or "_".

    Examples
    --------
    >>> words("Don't PANIC: caf\u0065\u0301 no. 42")
    ['don', 't', 'panic', 'caf\u00e9', 'no', '42']
    >>> words("C++, C#: \u2764\ufe0f!")
    ['c++', 'c#', '\u2764']
    """
    if text.isascii():  # equivalent to the general code below, and three times as fast
        lowered = text.lower()
        return _signed_words(lowered) if "+" in lowered or "#" in lowered else lowered.translate(_ASCII).split()
    emoji = _may_have_emoji(text) is not None  # the first one is the mark of a keycap
    patterns = _patterns(emoji and _beyond_two_bytes(text) is not None)
    folded = unicodedata.normalize("NFKC", patterns.long_run.sub(r"\1", text)).lower()
    if not emoji and "+" not in folded and "#" not in folded:
        return patterns.plain.findall(folded)  # equivalent to the next line, and faster
    return patterns.words.findall(folded.replace(_STYLE, ""))


def is_emoji(word: str) -> bool:
    """Return whether one of the words of a text is an emoji."""
    return not (word[0].isalnum() or word[0] == "_")


@cache
def _patterns(all_planes: bool) -> _Patterns:
    """Return patterns for a text; those for the first plane of Unicode are faster."""
    marks = _marks(0x110000 if all_planes else 0x10000)
    run = f"[{marks}{_HALF_WIDTH_SOUND_MARKS}]"
    rest = rf"(?:[{marks}]+\w*)*"
    words = rf"\w\w+{rest}|{_SIGNED}|\w{rest}|{emoji_pattern(all_planes)}"  # the most frequent first
    return _Patterns(re.compile(words), re.compile(rf"\w+{rest}"), re.compile(rf"({run}{{{MAX_MARKS}}}){run}+"))


def emoji_pattern(all_planes: bool = True) -> str:
    """Return a regular expression of an emoji, for Python and for RE2."""
    if not all_planes:
        return f"[#*]\u20e3|[{_EMOJI}](?:\u200d[{_EMOJI}])*"
    one = f"[{_EMOJI}{_EMOJI_BEYOND}][\U0001f3fb-\U0001f3ff]?"
    return f"[#*]\u20e3|[\U0001f1e6-\U0001f1ff]{{2}}|{one}(?:\u200d{one})*[\U000e0020-\U000e007f]*"


def _marks(end: int) -> str:
    """Return the combining marks below a code, as the content of a character class."""
    codes = [
        code
        for first, last in _MARK_BLOCKS
        for code in range(first, min(last, end))
        if unicodedata.category(chr(code)).startswith("M")
    ]
    begins = [code for code, before in zip(codes, [-1, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -1], strict=True) if code + 1 != after]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(begins, ends, strict=True))
