"""Examples for trained models, and their matrices for estimators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manylabel_core import Vocabulary
from manylabel_core.records import Encoded, RecordEncoder
from manylabel_core.records.number_fields import given_names
from manylabel_service.hosting.examples import Features


class Views(NamedTuple):
    """Features of one example by view; views may be missing. `path` is their field path."""

    features: Mapping[str, Features]
    path: tuple[str, ...] = ("views",)


class Record(NamedTuple):
    """A record or a text, and its features according to the encoder of the version served at that time."""

    raw: Any
    features: Features
    records: RecordEncoder

    def read_by(self, records: RecordEncoder) -> Features:
        """Return the features according to the encoder of a version; raise RecordError if the version reads texts
        differently."""
        return self.features if records.text == self.records.text else as_features(records.read(self.raw))


def as_features(record: Encoded) -> Features:
    """Return features by name, and vectors, from the result of the encoder of records."""
    values = np.array(list(record.features.values()), dtype=np.float32)
    return Features(tuple(record.features), None, values, record.vectors or None)


Inputs = Features | Views | Record
"""Input of one example."""


_NOTHING = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of one view: their number, their names, if any, and for each optional number the name of the column that
    marks it as present."""

    size: int
    names: Vocabulary | None
    given: Mapping[str, str]

    @classmethod
    def of(cls, features: tuple[str, ...] | int) -> "Columns":
        """Return columns with names, or numbered ones."""
        if isinstance(features, int):
            return cls(features, None, {})
        return cls(len(features), Vocabulary(features), given_names(dict.fromkeys(features)))

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return 0 if self.names is None else self.names.nbytes

    def problem(self, x: Features) -> str | None:
        """Return why an example of this input kind cannot be used; None if it can. Unknown names are ignored."""
        if x.names is not None:
            numbered = self.names is None
            return "this model has numbered features: send a list, or indices and values" if numbered else None
        if x.indices is not None:
            highest = int(x.indices[-1]) if len(x.indices) else -1
            return f"indices must be below {self.size}" if highest >= self.size else None
        return None if len(x.values) == self.size else f"must have {self.size} numbers, has {len(x.values)}"

    def with_given(self, x: Features) -> Features:
        """Return an example with the features that mark its optional numbers as present, as in the training records."""
        if x.names is None or not self.given:
            return x
        given = [self.given[name] for name in x.names if name in self.given]
        new = [name for name in given if name not in x.names]
        if not new:
            return x
        values = np.concatenate([x.values, np.ones(len(new), dtype=np.float32)])
        return x._replace(names=(*x.names, *new), values=values)

    def matrix(self, xs: Sequence[Features | None]) -> Any:
        """Return rows of shape (n_samples, n_features), float32 as in training; zeros for None.

        It is an ndarray with NaN for missing values if all examples are dense, else a CSR array.
        """
        if all(x is None or (x.names is None and x.indices is None) for x in xs):
            empty = np.zeros(self.size, dtype=np.float32)
            return np.stack([empty if x is None else x.values for x in xs])
        rows = [_NOTHING if x is None else self._sparse(x) for x in xs]
        indptr = np.zeros(len(rows) + 1, dtype=np.int32)
        np.cumsum([len(indices) for indices, _ in rows], out=indptr[1:])
        indices, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        return sp.csr_array((values, indices, indptr), shape=(len(rows), self.size))

    def _sparse(self, x: Features) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return ascending columns and their values."""
        if x.names is not None:
            assert self.names is not None
            columns = np.array(self.names.lookup(x.names), dtype=np.int32)
            order = np.argsort(columns, kind="stable")
            order = order[columns[order] >= 0]
            return columns[order], x.values[order]
        if x.indices is None:
            present = np.flatnonzero(~np.isnan(x.values)).astype(np.int32)
            return present, x.values[present]
        return x.indices, x.values
