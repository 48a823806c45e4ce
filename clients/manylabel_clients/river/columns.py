"""Index arrays, which the learners of core take, made of river's dicts."""

from collections.abc import Hashable, Iterable, Mapping
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_clients.river.encoding import known_values, truths
from manylabel_core.rows import Rows, Targets


class Encoder:
    """An encoder gives features and labels columns, in order of first appearance, by the keys they have."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.features: dict[Hashable, int] = {}
        self.labels: dict[Hashable, int] = {}

    def example(self, x: Mapping[Any, Any], y: Mapping[Any, Any]) -> tuple[Rows, Targets]:
        """Return the arrays of an example to learn; new features and labels get their columns.

        Raises
        ------
        TypeError, ValueError
            As `known_values` and `truths`; no column has been given then.
        """
        (known, numbers), relevant = known_values(x), truths(y)
        row = _row(_added(self.features, known), numbers.astype(self.dtype))
        columns = np.array(_added(self.labels, y), dtype=np.int32)
        signs = _SIGNS[relevant.view(np.int8)]
        # Not complete: labels that are not in y are unknown.
        return row, Targets(_ends(columns), columns, signs, _PARTIAL, np.array([len(self.labels)]))

    def row(self, x: Mapping[Any, Any]) -> Rows:
        """Return the arrays of an example to predict; nothing is added.

        Features never learnt stand in the columns that learning would give them: they have no weight yet, but
        count in the norm of the example, as they will when it is learnt.
        """
        new = count(len(self.features))
        known, numbers = known_values(x)
        columns = [self.features[name] if name in self.features else next(new) for name in known]
        return _row(columns, numbers.astype(self.dtype))


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
