"""Index arrays, which the learners of core take, made of river's dicts."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manylabel_clients.river.encoding import is_record, known_values, truths
from manylabel_core.records import RecordEncoder
from manylabel_core.rows import NO_WEIGHTS, Rows, Targets

_Row = tuple[NDArray[np.int32], NDArray[Any]]
"""Columns of one example, ascending, and their values."""


class Encoder:
    """An encoder gives features and labels columns, in order of first appearance, by the keys they have."""

    def __init__(self, dtype: str, records: RecordEncoder) -> None:
        self.dtype = dtype
        self._records = records
        self.features: dict[Hashable, int] = {}
        self.labels: dict[Hashable, int] = {}

    def examples(
        self, pairs: Sequence[tuple[Mapping[Any, Any], Mapping[Any, Any]]], weights: NDArray[np.float64] = NO_WEIGHTS
    ) -> tuple[Rows, Targets]:
        """Return the arrays of examples to learn; new features and labels get their columns, in order.

        Raises
        ------
        TypeError, ValueError
            As `known_values` and `truths`; no column has been given then.
        """
        read = [(*self._values(x), y, truths(y)) for x, y in pairs]
        rows, listed, n_labels = [], [], []
        for x, numbers, y, _ in read:
            rows.append(_row(_added(self.features, x), numbers))
            listed.append(np.array(_added(self.labels, y), dtype=np.int32))
            n_labels.append(len(self.labels))
        signs = [_SIGNS[relevant.view(np.int8)] for *_, relevant in read]
        # Not complete: labels that are not in y are unknown.
        partial = np.zeros(len(read), dtype=np.bool_)
        return _joined(rows), Targets(
            _ends(listed), _concatenated(listed, np.int32), _concatenated(signs, np.int8), partial,
            np.array(n_labels, dtype=np.int64), weights
        )  # fmt: skip

    def rows(self, xs: Iterable[Mapping[Any, Any]]) -> Rows:
        """Return the arrays of examples to predict; nothing is added.

        Features never learnt stand in the columns that learning would give them: they have no weight yet, but
        count in the norm of the example, as they will when it is learnt.
        """
        return _joined([self._row_of(x) for x in xs])

    def _row_of(self, x: Mapping[Any, Any]) -> _Row:
        x, numbers = self._values(x)
        new = count(len(self.features))
        columns = [self.features[name] if name in self.features else next(new) for name in x]
        return _row(columns, numbers)

    def values(self, x: Mapping[Any, Any] | str) -> dict[Hashable, float]:
        """Return the features of an example by name, of a record those that it stands for."""
        known, numbers = self._known(x)
        return dict(zip(known, numbers.tolist(), strict=True))

    def _values(self, x: Mapping[Any, Any] | str) -> tuple[Mapping[Any, Any], NDArray[Any]]:
        """Return the features by name, and their values as the learner takes them."""
        known, numbers = self._known(x)
        return known, numbers.astype(self.dtype)

    def _known(self, x: Mapping[Any, Any] | str) -> tuple[Mapping[Any, Any], NDArray[np.float64]]:
        """Return the features by name, of a record those that it stands for, and their values."""
        given = self._records.encode(x) if isinstance(x, str) else x
        try:
            known, numbers = known_values(given)
        except TypeError:
            if not is_record(given):
                raise
            known, numbers = known_values(self._records.encode(given))
        return known, numbers


_SIGNS = np.array([-1, 1], dtype=np.int8)


def _added(columns: dict[Hashable, int], names: Iterable[Hashable]) -> list[int]:
    found = list(map(columns.get, names))
    if None in found:
        found = [columns.setdefault(name, len(columns)) for name in names]
    return found  # type: ignore[return-value]  # no None is left


def _row(columns: list[int], numbers: NDArray[Any]) -> _Row:
    """Return one row as the learners take it: columns ascending."""
    indices = np.array(columns, dtype=np.int32)
    order = indices.argsort()
    return indices[order], numbers[order]


def _joined(rows: Sequence[_Row]) -> Rows:
    if len(rows) == 1:  # the usual call; saves two copies
        return Rows(_ends([rows[0][0]]), *rows[0])
    indices, values = [row[0] for row in rows], [row[1] for row in rows]
    return Rows(_ends(indices), _concatenated(indices, np.int32), _concatenated(values, np.float32))


def _concatenated(parts: Sequence[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """Return arrays as one; of none, an empty one of this type."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _ends(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    if len(parts) == 1:
        return np.array([0, len(parts[0])])
    ends = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    return ends
