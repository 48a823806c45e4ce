"""Names of features or labels, and their columns."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 4096
"""Number of names encoded or decoded at once, while other threads wait."""
_STRING_BYTES = sys.getsizeof("")


class Vocabulary:
    """Map of names to columns, in order of first appearance.

    A column never changes once assigned: names are only appended, or renamed. Two vocabularies that received the same
    names in the same order are therefore equal, which is why replicas of one log agree without communication.

    Parameters
    ----------
    names : iterable of str, default=()
        Initial names, added as by `add`.

    Examples
    --------
    >>> labels = Vocabulary(["pets"])
    >>> labels.add(["rock", "pets", "jazz"])
    [1, 0, 2]
    >>> labels.lookup(["jazz", "folk"])
    [2, -1]
    >>> labels.names
    ('pets', 'rock', 'jazz')
    >>> Vocabulary.from_state(labels.state()) == labels
    True
    """

    __slots__ = ("_columns", "_names", "_names_bytes")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._columns: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self._names_bytes = 0
        self.add(names)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __eq__(self, other: object) -> bool:
        return self.names == other.names if isinstance(other, Vocabulary) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} names>"

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names; the position in the tuple is the column."""
        if len(self._names) != len(self._columns):
            self._names = tuple(self._columns)
        return self._names

    @property
    def nbytes(self) -> int:
        """Return the estimated bytes of memory: the hash table, the strings in full, one integer object per column, and
        the tuple behind `names` once it has been requested.
        """
        table = sys.getsizeof(self._columns) + sys.getsizeof(self._names)
        return table + self._names_bytes + len(self._columns) * sys.getsizeof(1 << 20)

    @property
    def mean_bytes(self) -> float:
        """Return the mean bytes of a name, estimated from memory; 0 without names."""
        return max(0.0, self._names_bytes / len(self) - _STRING_BYTES) if self._columns else 0.0

    def get(self, name: str) -> int | None:
        """Return the column of a name, or None."""
        return self._columns.get(name)

    def lookup(self, names: Iterable[str]) -> list[int]:
        """Return the columns of `names`, -1 for each unknown one. Nothing is added."""
        get = self._columns.get
        return [get(name, -1) for name in names]

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the names without a column, in the order passed."""
        columns = self._columns
        return [name for name in names if name not in columns]

    def newest(self, n: int) -> list[str]:
        """Return the last `n` names, in the order of their columns."""
        return list(itertools.islice(reversed(self._columns), n))[::-1]

    def add(self, names: Iterable[str]) -> list[int]:
        """Return the columns of `names`, which may repeat names, appending new ones in order.

        Raises
        ------
        ValueError
            If a new name cannot be written as UTF-8 (a lone surrogate).
        TypeError
            If a new name is not a string. In both cases nothing has been added.
        """
        names = names if isinstance(names, (list, tuple)) else list(names)
        columns: list[int | None] = list(map(self._columns.get, names))
        if None in columns:
            self._append([name for name, column in zip(names, columns, strict=True) if column is None])
            columns = list(map(self._columns.get, names))
        return cast("list[int]", columns)

    def rename(self, name: str, new: str) -> int:
        """Rename a column to an unused name; return the column.

        Raises ValueError if no column has the name, or another has the new name, or the new name cannot be written as
        UTF-8.
        """
        if name not in self._columns or new in self._columns:
            raise ValueError(f"{name!r} must be an existing name, and {new!r} an unused one")
        _encoded(new)
        self._columns = {new if one == name else one: column for one, column in self._columns.items()}
        self._names = ()
        self._names_bytes += sys.getsizeof(new) - sys.getsizeof(name)
        return self._columns[new]

    def _append(self, new: list[str]) -> None:
        """Append new names, which may contain repetitions."""
        for name in new:
            _encoded(name)
        for name in dict.fromkeys(new):
            self._columns[name] = len(self._columns)
            self._names_bytes += sys.getsizeof(name)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the names as two arrays, for `from_state`: name i is `bytes[offsets[i]:offsets[i + 1]]` in UTF-8."""
        offsets = np.zeros(len(self._columns) + 1, dtype=np.int64)
        parts, names = [], iter(self._columns)
        for begin in range(0, len(self._columns), _AT_ONCE):
            encoded = [name.encode() for name in itertools.islice(names, _AT_ONCE)]
            offsets[1 + begin : 1 + begin + len(encoded)] = list(map(len, encoded))
            parts.append(b"".join(encoded))
        np.cumsum(offsets, out=offsets)
        return {"bytes": np.frombuffer(bytearray(b"".join(parts)), dtype=np.uint8), "offsets": offsets}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]]) -> Vocabulary:
        """Return the vocabulary of a `state`; raise ValueError unless the two arrays describe distinct UTF-8 names."""
        data, offsets = _checked(arrays)
        vocabulary = cls()
        for begin in range(0, len(offsets) - 1, _AT_ONCE):
            ends = offsets[begin : begin + _AT_ONCE + 1].tolist()
            encoded = data[ends[0] : ends[-1]].tobytes()
            try:
                vocabulary.add([encoded[a - ends[0] : b - ends[0]].decode() for a, b in itertools.pairwise(ends)])
            except UnicodeDecodeError as error:
                raise ValueError(f"bytes: a name is not valid UTF-8 ({error.reason})") from error
        if len(vocabulary) != len(offsets) - 1:
            raise ValueError("bytes: names must be distinct, one occurs twice")
        return vocabulary


def _encoded(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a name must be a string, got {type(name).__name__}")
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a name must be valid Unicode, got {name!a} ({error.reason})") from error


def _checked(arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    for name, dtype in (("bytes", np.uint8), ("offsets", np.int64)):
        array = arrays.get(name)
        if array is None or array.ndim != 1 or array.dtype != dtype:
            raise ValueError(f"{name}: expected a one-dimensional array of {dtype.__name__}")
    data, offsets = arrays["bytes"], arrays["offsets"]
    # Offsets are compared, because the difference of two int64 can overflow.
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"offsets: the numbers must ascend from 0 to {len(data)}, the length of bytes")
    return data, offsets
