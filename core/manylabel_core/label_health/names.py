"""Labels with nearly the same name: other spelling, plural, or a typing error in one letter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

Likeness = Literal["spelling", "plural", "slip"]
"""Difference of two names: only spelling, singular and plural, or one letter."""

LEAST_LETTERS = 5
"""Minimum length of a plain form that is searched for typing errors."""
MAX_NEAR = 100
"""Maximum number of names that may become equal by omitting one letter; if there are more, the letter distinguishes
names."""

_KEPT = "+#"


class NamePair(NamedTuple):
    """Columns of two labels with nearly the same name; `first` is smaller."""

    first: int
    second: int
    likeness: Likeness


def plain(name: str) -> str:
    """Return a name without case, accents, width, spaces and punctuation.

    Symbols such as ``+`` and emoji, ``#``, and characters between two digits are not removed. Accents are the combining
    marks of Latin, Greek and Cyrillic; marks of other scripts are vowels. Only compatibility forms of width are folded,
    because the others change the meaning: 10² would be 102.

    Examples
    --------
    >>> plain("Café au-lait"), plain("c++") == plain("C"), plain("v1.5") == plain("v15"), plain("???")
    ('cafeaulait', False, False, '')
    """
    folded = "".join(unicodedata.normalize("NFKD", x) if _is_width_form(x) else x for x in name)
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", folded).casefold())
    characters = [x for x in folded if not _is_mark(x)]
    found = list[str]()
    for at, x in enumerate(characters):
        between = 0 < at < len(characters) - 1 and characters[at - 1].isdecimal() and characters[at + 1].isdecimal()
        if between or x in _KEPT or unicodedata.category(x)[0] not in "PZC":
            found.append(x)
    return unicodedata.normalize("NFC", "".join(found)) if any(map(str.isalnum, found)) else ""


def singular(text: str) -> str:
    """Return the singular of a plain form that may be an English plural."""
    if len(text) < 4 or not text[-3:].isalpha():
        return text
    if text.endswith("ies"):
        return text[:-3] + "y"
    return text[:-1] if re.search(r"[^su]s$", text) else text


def one_slip(one: str, other: str) -> bool:
    """Return whether two names differ by one letter: added, omitted, changed, or exchanged with the next letter.

    Different digits and signs are not typing errors.
    """
    s, t = sorted((one, other), key=len)
    at = next((k for k in range(len(s)) if s[k] != t[k]), len(s))
    if not all(x.isalpha() for x in s[at : at + 2] + t[at : at + 2]):
        return False
    if len(t) == len(s) + 1:
        return s[at:] == t[at + 1 :]
    exchanged = s[at : at + 2] == t[at : at + 2][::-1] and s[at + 2 :] == t[at + 2 :]
    return len(s) == len(t) and (s[at + 1 :] == t[at + 1 :] or exchanged)


def similar_names(names: Mapping[int, str], order: Sequence[int], spelling_only: bool = False) -> list[NamePair]:
    """Return pairs of labels with nearly the same name, or only those that differ in spelling.

    Labels with the same plain form are paired with the first of them in `order`; only this one is compared with other
    names.

    Parameters
    ----------
    names : names by column.
    order : the columns, the most used one first.

    Returns
    -------
    list of NamePair
        Each pair once, in ascending order.
    """
    heads, found = dict[str, int](), dict[tuple[int, int], Likeness]()
    for column in order:
        if text := plain(names[column]):
            head = heads.setdefault(text, column)
            if head != column:
                found[_ascending(head, column)] = "spelling"
    plurals, near = dict[str, list[str]](), dict[str, list[str]]()
    for text in () if spelling_only else sorted(heads):
        plurals.setdefault(singular(text), []).append(text)
        for key in _without_a_letter(text):
            near.setdefault(key, []).append(text)
    groups: tuple[tuple[Likeness, dict[str, list[str]]], ...] = (("plural", plurals), ("slip", near))
    for likeness, by_key in groups:
        for same in by_key.values():
            for one, other in combinations(same, 2) if len(same) <= MAX_NEAR else ():
                if one != other and (likeness == "plural" or one_slip(one, other)):
                    found.setdefault(_ascending(heads[one], heads[other]), likeness)
    return [NamePair(first, second, found[first, second]) for first, second in sorted(found)]


def _is_width_form(x: str) -> bool:
    return unicodedata.decomposition(x).startswith(("<wide>", "<narrow>"))


def _is_mark(x: str) -> bool:
    """Return whether a character is an accent or a variation selector."""
    return "\u0300" <= x <= "\u036f" or "\ufe00" <= x <= "\ufe0f"


def _ascending(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def _without_a_letter(text: str) -> Iterator[str]:
    """Yield a plain form, and all different forms with one letter omitted."""
    if len(text) >= LEAST_LETTERS:
        yield text
        yield from {text[:k] + text[k + 1 :]: None for k, x in enumerate(text) if x.isalpha()}
