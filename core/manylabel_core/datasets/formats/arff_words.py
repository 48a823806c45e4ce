"""Lexer of ARFF files: quotes and commas."""

from __future__ import annotations

import re

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
# Possessive quantifiers: a hostile line is scanned once, without backtracking.
QUOTED = r"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\""
_FIELD = re.compile(rf"(?:{QUOTED}|[^,'\"]++)*+")
_ESCAPED = re.compile(r"\\(.)")


def split_words(text: str, most: int) -> list[str]:
    """Split at commas outside quotes."""
    if "'" not in text and '"' not in text:
        fields = text.split(",", most)
        if len(fields) > most:
            raise ValueError(f"{1 + text.count(',')} values, there are {most} attributes")
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
            raise ValueError(f"more than {most} values, there are {most} attributes")
        position += 1
    raise ValueError("a quote is not closed")


def unquote(token: str) -> str:
    """Return the word that a token means."""
    if len(token) < 2 or token[0] not in "'\"" or token[-1] != token[0]:
        return token
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])
