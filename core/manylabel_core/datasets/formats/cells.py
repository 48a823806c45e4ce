"""Grammar of the cells of a table: numbers, words for missing values, truth values, and lists."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A number in a text: ASCII digits with an optional sign, point and exponent."""

ZERO_PADDED = re.compile(r"[+-]?0[0-9]+")
"""A code such as 007; no software writes a number in this way."""

_SYMBOLS = "%‰€$£¥₹"
_UNIT = re.compile(rf"([+-]?)([{_SYMBOLS}]|EUR|USD|GBP|CHF)?\s*+(.*?)\s*+([{_SYMBOLS}]|EUR|USD|GBP|CHF)?")
_DIGIT = re.compile("[0-9]")
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
_SPACES = "'\u2019 \u00a0\u202f"
_GROUPED = {
    mark: re.compile(
        rf"[+-]?(?:[1-9][0-9]{{0,2}}([{other}{_SPACES}])[0-9]{{3}}(?:\1[0-9]{{3}})*+"
        rf"|[1-9][0-9]?({other})[0-9]{{2}}(?:{re.escape(other)}[0-9]{{2}})*{re.escape(other)}[0-9]{{3}}|[0-9]*+)"
        rf"(?:{re.escape(mark)}[0-9]*+)?{_EXPONENT}"
    )
    for mark, other in ((".", ","), (",", "."))
}
_MARKS = {
    mark: str.maketrans({other: None, mark: ".", **dict.fromkeys(_SPACES)}) for mark, other in ((".", ","), (",", "."))
}

_WITH_WORD = re.compile(r"[+-]?[0-9]+((?:[.,][0-9]+)?\s?)([^\W\d_]{1,12}|\u00b0[CF]|[^\W\d_]{1,6}/[^\W\d_]{1,6})")

MISSING_NAMES = frozenset({"NA", "<NA>", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "NaT", "\\N"})
"""Words that programs write for a missing value in any column. They may also be names: Namibia is NA."""

MISSING_WORDS = MISSING_NAMES | {
    *("n/a", "na", "Na", "#NA", "-NaN", "-nan", "Null", "None", "none", "nil", "-", "--", "\u2013", "\u2014", ".", "?"),
    *("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NAME?", "(null)", "NAN", "Nan", "#N/A N/A", "missing"),
    *("#WERT!", "#BEZUG!", "#ZAHL!", "#NV", "#VALEUR!", "#NOMBRE!", "#NOM?", "#N/D", "#VALORE!", "#RIF!", "#NOME?"),
    *("#¡VALOR!", "#¡REF!", "#¡NUM!", "#¡DIV/0!", "#¿NOMBRE?", "#VALOR!", "#WAARDE!", "#VERW!", "#GETAL!", "#DEEL/0!"),
}
"""Words for a missing value among numbers and truth values, also the errors of Excel in several languages."""

FLAGS = {"TRUE": 1.0, "True": 1.0, "true": 1.0, "FALSE": 0.0, "False": 0.0, "false": 0.0}
"""Truth values of a column of features."""

TRUTHS = {
    "0": False,
    "1": True,
    "0.0": False,
    "1.0": True,
    "false": False,
    "true": True,
    "no": False,
    "yes": True,
    "n": False,
    "y": True,
    "f": False,
    "t": True,
    **dict.fromkeys(("nein", "non", "off", "falsch", "faux"), False),
    **dict.fromkeys(("ja", "j", "oui", "on", "wahr", "vrai", "x", "\u2713", "\u2714"), True),
}
"""Truth values of a column of labels, in lower case."""

INFINITE = frozenset({"inf", "infinity", "+inf", "-inf", "+infinity", "-infinity"})
"""Infinities, in lower case."""

MAX_LIST_CHARACTERS = 2**17


def number(text: str) -> float:
    """Parse a number, which may be surrounded by spaces; raise ValueError if the text is not a number."""
    text = text.strip()
    if not NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


class Styled(NamedTuple):
    """A number as people write it: its unit, its value if the decimal mark is a point, and its value if it is a
    comma."""

    unit: str
    point: float | None
    comma: float | None


def styled(cell: str) -> Styled | None:
    """Parse a number as people write it, or return None. It may have a decimal comma, marks of thousands, a unit, a
    typographic minus, or parentheses around it, which make it negative.
    """
    if len(cell) > 64 or not _DIGIT.search(cell):
        return None
    cell = cell.replace("\u2212", "-")
    if cell[0] == "(" and cell[-1] == ")":
        cell = f"-{cell[1:-1].strip()}"
    if (match := _UNIT.fullmatch(cell)) is None:
        return None
    sign, before, digits, after = match.groups()
    if before and after:
        return None
    point, comma = (_value(f"{sign}{digits}", mark) for mark in ".,")
    return None if point is None and comma is None else Styled(before or after or "", point, comma)


def _value(text: str, mark: str) -> float | None:
    if not _GROUPED[mark].fullmatch(text):
        return None
    plain = text.translate(_MARKS[mark])
    return float(plain) if NUMBER.fullmatch(plain) else None


def word_behind(cell: str) -> tuple[str, bool] | None:
    """Return the word behind a number, such as kg; None for anything else.

    The second value is True if a space or a fraction shows that the cell is no code, such as 5A.
    """
    match = _WITH_WORD.fullmatch(cell)
    return None if match is None else (match[2], bool(match[1]))


def is_grouped(cell: str, mark: str) -> bool:
    """Return whether a number has marks of thousands, given the decimal mark."""
    match = _GROUPED[mark].fullmatch(cell)
    return match is not None and match[1] is not None


def listed(cell: str) -> list[Any] | None:
    """Return the items of a JSON or Python list, or of Label Studio's object of choices; None if the text is
    neither."""
    cell = cell.strip()
    if len(cell) > MAX_LIST_CHARACTERS or cell[:1] not in ("[", "{") or cell[-1:] not in ("]", "}"):
        return None
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        found = _python_list(cell)
    if isinstance(found, dict) and found.keys() == {"choices"}:
        found = found["choices"]
    return found if isinstance(found, list) else None


_PYTHON_ITEM = re.compile(
    r"""\s*+('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*+(,|$)"""
)


def _python_list(cell: str) -> list[Any] | None:
    """Return the strings and numbers of a list in Python's notation."""
    if cell[0] != "[" or cell[-1] != "]":
        return None
    body, place, items = cell[1:-1], 0, []
    while place < len(body):
        if (match := _PYTHON_ITEM.match(body, place)) is None:
            return None
        items.append(_ESCAPED.sub(_unescaped, match[1][1:-1]) if match[1][0] in "'\"" else float(match[1]))
        place = match.end()
    return items


_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def _unescaped(match: re.Match[str]) -> str:
    if match[3] is None:
        return chr(int(match[1] or match[2], 16))
    return {"n": "\n", "r": "\r", "t": "\t"}.get(match[3], match[3])


def vector(cell: str) -> list[float] | None:
    """Return the numbers of a list of numbers; None if the text is not one."""
    found = listed(cell)
    return found if found and all(type(one) in (int, float) for one in found) else None


def strings(cell: str) -> list[str] | None:
    """Return the strings of a list of strings, possibly empty; None if the text is not one."""
    found = listed(cell)
    return found if found is not None and all(isinstance(one, str) for one in found) else None
