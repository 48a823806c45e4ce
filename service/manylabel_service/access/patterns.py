"""Patterns of model names that a key includes: exact names, or prefixes."""

import re
from collections.abc import Iterable

ANY = "*"
PATTERN = r"^([a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?|([a-z0-9][a-z0-9._-]{0,62})?\*)$"
"""Syntax of a pattern: a name, or a prefix of names followed by an asterisk."""
_PATTERN = re.compile(PATTERN)
ALLOWED = "must be a name, or a prefix of names followed by an asterisk, such as tags-*"


def valid(pattern: str) -> bool:
    """Return whether a text is a pattern."""
    return _PATTERN.fullmatch(pattern) is not None


class Patterns:
    """Patterns of names: ``tags`` matches only that name, ``tags-*`` all names that begin with ``tags-``."""

    __slots__ = ("_any", "_beginnings", "_names")

    def __init__(self, patterns: Iterable[str]) -> None:
        given = list(patterns)
        self._names = frozenset(each for each in given if not each.endswith(ANY))
        self._beginnings = tuple(each[:-1] for each in given if each.endswith(ANY))
        self._any = ANY in given

    def match(self, name: str) -> bool:
        """Return whether a name matches one of the patterns."""
        return self._any or name in self._names or name.startswith(self._beginnings)

    def include(self, pattern: str) -> bool:
        """Return whether all names that another pattern matches are among these."""
        return pattern.startswith(self._beginnings) or pattern in self._names
