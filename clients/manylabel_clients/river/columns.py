"""Index arrays, which the learners of core take, made of river's dicts."""

from collections.abc import Hashable, Iterable, Mapping
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_clients.river.encoding import is_record, known_values, truths
from manylabel_core.records import RecordEncoder
from manylabel_core.rows import Rows, Targets


class Encoder:
    """An encoder gives features and labels columns, in order of first appearance, by the keys they have."""

    def __init__(self, dtype: str, records: RecordEncoder) -> None:
        self.dtype = dtype
        self._records = records
        self.features: dict[Hashable, int] = {}
        self.labels: dict[Hashable, int] = {}

    def example(self, x: Mapping[Any, Any], y: Mapping[Any, Any]) -> tuple[Rows, Targets]:
        """Return the arrays of an example to learn; new features and labels get their columns.

        Raises
        ------
        TypeError, ValueError
            As `known_values` and `truths`; no column has been given then.
        """
        x, numbers = self._values(x)
        relevant = truths(y)
        row = _row(_added(self.features, x), numbers)
        columns = np.array(_added(self.labels, y), dtype=np.int32)
        signs = _SIGNS[relevant.view(np.int8)]
        # Not complete: labels that are not in y are unknown.
        return row, Targets(_ends(columns), columns, signs, _PARTIAL, np.array([len(self.labels)]))

    def row(self, x: Mapping[Any, Any]) -> Rows:
        """Return the arrays of an example to predict; nothing is added.

        Features never learnt stand in the columns that learning would give them: they have no weight yet, but
        count in the norm of the example, as they will when it is learnt.
        """
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
_PARTIAL = np.zeros(1, dtype=np.bool_)


def _added(columns: dict[Hashable, int], names: Iterable[Hashable]) -> list[int]:
    found = list(map(columns.get, names))
    if None in found:
        found = [columns.setdefault(name, len(columns)) for name in names]
    return found  # type: ignore[return-value]  # no None is left


def _row(columns: list[int], numbers: NDArray[Any]) -> Rows:
    """Return one row as the learners take it: columns ascending."""
    indices = np.array(columns, dtype=np.int32)
    order = indices.argsort()
    indices, numbers = indices[order], numbers[order]
    return Rows(_ends(indices), indices, numbers)


def _ends(indices: NDArray[Any]) -> NDArray[np.int64]:
    return np.array([0, len(indices)])
