"""Header of an ARFF file: its relation, its attributes, and the choice of labels among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from manylabel_core.datasets.formats.text import check_names
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, shown

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
# Possessive quantifiers do not backtrack, so a hostile line is scanned only once.
QUOTED = r"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\""
_FIELD = re.compile(rf"(?:{QUOTED}|[^,'\"]++)*+")
_ESCAPED = re.compile(r"\\(.)")
_WORD = re.compile(rf"\s*+({QUOTED}|[^\s,'\"]++)\s*+,?+")
_BEFORE_COMMENT = re.compile(rf"(?:{QUOTED}|[^'\"%]++)*+")
_ATTRIBUTE = re.compile(rf"@attribute\s++({QUOTED}|\S++)\s++(.+)", re.IGNORECASE)


def split_words(text: str, most: int) -> list[str]:
    """Split at commas outside quotes."""
    if "'" not in text and '"' not in text:
        fields = text.split(",", most)
        if len(fields) > most:
            raise ValueError(f"the row has {1 + text.count(',')} values for {most} attributes")
        return [field.strip() for field in fields]
    fields, position = [], 0
    while match := _FIELD.match(text, position):
        fields.append(match[0].strip())
        position = match.end()
        if position == len(text):
            return fields
        if text[position] != ",":
            break
        if len(fields) == most:
            raise ValueError(f"the row has more values than there are attributes ({most})")
        position += 1
    raise ValueError("a quote is not closed")


def unquote(token: str) -> str:
    """Return a token without quotes and escapes."""
    if len(token) < 2 or token[0] not in "'\"" or token[-1] != token[0]:
        return token
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])


def spaced_words(text: str, most: int) -> list[str]:
    """Split at commas, spaces and tabs outside quotes, as Weka does."""
    words: list[str] = []
    position = 0
    while position < len(text) and (match := _WORD.match(text, position)) is not None and len(words) <= most:
        words.append(match[1])
        position = match.end()
    return words


def without_comment(text: str) -> str:
    """Return a line without the comment at its end, which begins with a per cent sign outside quotes."""
    match = _BEFORE_COMMENT.match(text)
    end = match.end() if match else 0
    return text[:end].rstrip() if text[end : end + 1] == "%" else text


class Attribute(NamedTuple):
    """An ``@attribute``; `values` are those of a nominal attribute, None for a numeric one."""

    name: str
    values: tuple[str, ...] | None
    line: int


class Header(NamedTuple):
    """Content of a header; `last_line` is the number of the line ``@data``."""

    relation: str
    attributes: list[Attribute]
    last_line: int


def read_header(lines: Iterator[tuple[int, str]], limits: ReaderLimits) -> Header:
    """Return the lines up to ``@data``."""
    relation = ""
    attributes: list[Attribute] = []
    most = limits.features + limits.labels
    n_columns = 0
    for line, text in lines:
        text = text.strip()
        keyword = text.split(None, 1)[0].lower() if text else "%"
        if keyword == "@data":
            check_names([attribute.name for attribute in attributes], "attributes")
            return Header(relation, attributes, line)
        if keyword == "@relation":
            relation = unquote(text[len(keyword) :].strip())
        elif keyword == "@attribute":
            attributes.append(_attribute(line, text, most))
            n_columns += len(attributes[-1].values or " ")
            if n_columns > 2 * most:  # an attribute with the values 0 and 1 becomes one column
                raise BadDataset(
                    f"the file has too many attributes and values of attributes; at most {most:,} are allowed",
                    line=line,
                )
            if len(attributes) > most:
                raise BadDataset(f"the file has too many attributes; at most {most:,} are allowed", line=line)
        elif keyword[0] != "%":
            detail = f"{shown(keyword)} in the header: expected @relation, @attribute or @data"
            raise BadDataset(detail, line=line)
    raise BadDataset("there is no @data line")


def _attribute(line: int, text: str, most_values: int) -> Attribute:
    text = text if _is_plain(_ATTRIBUTE.fullmatch(text)) else without_comment(text)
    match = _ATTRIBUTE.fullmatch(text)
    if not _is_plain(match):
        match = _BRACED.fullmatch(text) or match
    if match is None:
        raise BadDataset("an attribute is: @attribute name type", line=line)
    name, kind = unquote(match[1]), match[2].strip()
    if kind.split(None, 1)[0].lower() in _NUMERIC:  # Weka ignores what follows, such as a range
        return Attribute(name, None, line)
    if kind[0] != "{" or kind[-1] != "}":
        allowed = "numeric, real, integer and {a, b, ...}"
        raise BadDataset(f"attribute {shown(name)} is {shown(kind.split()[0])}: allowed are {allowed}", line=line)
    try:
        values = tuple(map(unquote, split_words(kind[1:-1], 2 * most_values)))
    except ValueError as error:
        raise BadDataset(str(error), line=line) from None
    check_names(values, f"values of attribute {shown(name)}", line)
    return Attribute(name, values, line)


_NUMERIC = ("numeric", "real", "integer")
_BRACED = re.compile(rf"@attribute\s++({QUOTED}|[^\s{{'\"]++)\s*+({{.+)", re.IGNORECASE)


def _is_plain(match: re.Match[str] | None) -> bool:
    """Return whether the type of an attribute is the end of its line."""
    if match is None:
        return False
    kind = match[2].strip()
    return kind.lower() in _NUMERIC or (kind[0] == "{" and kind[-1] == "}")


def meka_option(relation: str) -> int | None:
    """Return the number of labels in a relation such as ``Music: -C 6``; negative counts from the end.

    Weka's filters keep the option in the name but may move the attributes, so it is ignored after a filter.
    """
    match = re.search(r"(?:^|\s)-C\s+(-?[0-9]{1,9})\b", relation)
    return int(match[1]) if match and "weka.filters" not in relation else None


def choose_labels(header: Header, labels: int | Sequence[str] | None) -> set[str]:
    """Return the names of the attributes that are labels."""
    names = [attribute.name for attribute in header.attributes]
    if labels is None:
        labels = meka_option(header.relation)
    if labels is None:
        cure = "pass the Mulan XML of the file, their names, or their number (n: the first n, -n: the last n)"
        raise BadDataset(f"the label attributes are unknown: {cure}")
    if isinstance(labels, int):
        if not 0 < abs(labels) <= len(names):
            raise BadDataset(f"{labels} labels were requested, but the file has {len(names)} attributes")
        return set(names[:labels] if labels > 0 else names[labels:])
    chosen = set(check_names(tuple(labels), "labels"))
    if absent := chosen - set(names):
        raise BadDataset(f"label {shown(min(absent))} is not among the attributes")
    return chosen
