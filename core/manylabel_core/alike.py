"""Labels with alike names, which differ only in case, spaces, invisible characters or Unicode form."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from threading import Lock

from manylabel_core.vocabulary import Vocabulary

_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0xFEFF))
"""Soft hyphen, zero-width space and byte order mark, which copied text may contain."""


def spelling(name: str) -> str:
    """Return the common form of alike names.

    Case is folded, spaces at the ends are removed, other spaces become single ones, and characters are composed (NFC).
    The compatibility forms of Unicode (NFKC) are not applied, because they change meanings: 10² would be 102.

    Examples
    --------
    >>> spelling("Heavy  Metal") == spelling(" heavy\\u00a0metal ")
    True
    >>> spelling("cafe\\u0301") == spelling("CAF\\u00c9"), spelling("10\\u00b2") == spelling("102")
    (True, False)
    """
    folded = unicodedata.normalize("NFC", name).casefold()
    return unicodedata.normalize("NFC", " ".join(folded.translate(_INVISIBLE).split()))


class MergedLabels:
    """Labels of the rows of a file; alike names become the first of them."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def name(self, label: str) -> str:
        """Return the first name that is alike this name."""
        return self._first.setdefault(spelling(label), label)

    def merged(self, y: list[str] | dict[str, bool] | None) -> list[str] | dict[str, bool] | None:
        """Return the labels of a row under the first names; a label is true if one of its names is true."""
        if y is None:
            return None
        if isinstance(y, list):
            return list(dict.fromkeys(map(self.name, y)))
        truth: dict[str, bool] = {}
        for label, relevant in y.items():
            name = self.name(label)
            truth[name] = relevant or truth.get(name, False)
        return truth


class AlikeNames:
    """Names by their common form, in the order in which they were added. The class is thread-safe."""

    def __init__(self) -> None:
        self._n = 0
        self._first: dict[str, str] = {}
        self._groups: dict[str, list[str]] = {}
        self._lock = Lock()

    def add(self, names: Iterable[str]) -> None:
        """Add new names."""
        with self._lock:
            self._add(names)

    def read(self, names: Vocabulary) -> None:
        """Add the names that were added to a vocabulary since the last call."""
        with self._lock:
            self._add(names.newest(max(0, len(names) - self._n)))

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            self._n += 1
            common = spelling(name)
            if (first := self._first.setdefault(common, name)) is not name:
                self._groups.setdefault(common, [first]).append(name)

    def earlier(self, name: str, hidden: Collection[str] = ()) -> str | None:
        """Return the first alike name that was added before a name, without hidden names."""
        with self._lock:
            group = self._groups.get(spelling(name), ())
            first = next((one for one in group if one == name or one not in hidden), name)
        return None if first == name else first

    def groups(self, hidden: Collection[str] = ()) -> list[list[str]]:
        """Return the groups of at least two alike names, without hidden names."""
        with self._lock:
            shown = [[name for name in group if name not in hidden] for group in self._groups.values()]
        return [group for group in shown if len(group) > 1]
