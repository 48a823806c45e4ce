"""Encoding of river's dicts as index arrays, the input of the learners of core."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manylabel_clients.river.encoding import is_record, known_values, truths
from manylabel_core.records import RecordEncoder
from manylabel_core.records.bounds import MAX_VECTOR_FIELDS
from manylabel_core.records.number_fields import GivenPairs, NumberFields, numbers_of
from manylabel_core.rows import NO_WEIGHTS, VECTOR_COLUMNS, Rows, Targets

_Row = tuple[NDArray[np.int32], NDArray[Any]]
"""Columns of one example, ascending, and their values."""


class _Given(NamedTuple):
    """Features of an example by name with their values, and its vectors by field."""

    known: Collection[Any]
    numbers: NDArray[Any]
    vectors: Mapping[str, NDArray[np.float32]]

    def learning(self, fields: NumberFields) -> tuple[NumberFields, "_Given"]:
        """Return the number fields after this example is learnt, and the example with the features that mark present
        optional numbers.
        """
        if fields.seen is None:
            return fields, self
        names = [name for name in self.known if isinstance(name, str)]
        numbers = numbers_of(names)
        fields = fields.after(numbers, len(numbers) < len(names))
        new = [name for name in fields.given(numbers) if name not in self.known]
        if not new:
            return fields, self
        ones = np.ones(len(new), dtype=self.numbers.dtype)
        return fields, self._replace(known=[*self.known, *new], numbers=np.concatenate([self.numbers, ones]))


class _Example(NamedTuple):
    """Example to learn: labels, and their truth in the same order."""

    x: _Given
    y: Mapping[Any, Any]
    relevant: NDArray[np.bool_]


class Encoder:
    """Encoder that assigns columns to features and labels, by key, in order of first appearance.

    An example also has features that mark its optional numbers, see `NumberFields`, unless their keys are not strings.
    """

    def __init__(self, dtype: str, records: RecordEncoder) -> None:
        self.dtype = dtype
        self._records = records
        self.features: dict[Hashable, int] = {}
        self.labels: dict[Hashable, int] = {}
        self.vectors: dict[str, int] = {}
        self.number_fields = NumberFields()
        self._pairs = GivenPairs()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Columns of each optional number, and of the feature that marks it as present."""
        return self._pairs.read(len(self.features), lambda n: list(islice(reversed(self.features), n))[::-1])

    def read(self, pairs: Sequence[tuple[Mapping[Any, Any], Mapping[Any, Any]]]) -> list[_Example]:
        """Return examples to learn, after the checks of `known_values` and `truths`; raise the same errors before any
        column is added."""
        fields, read = dict(self.vectors), list[_Example]()
        for x, y in pairs:
            example = _Example(self._given(x), y, truths(y))
            self._check_vectors(example.x.vectors, fields)
            fields |= {name: len(vector) for name, vector in example.x.vectors.items()}
            read.append(example)
        return read

    def parts(self, read: Sequence[_Example]) -> Iterator[tuple[int, int]]:
        """Yield the bounds of parts to learn in turn: the first vector of a field is a separate part."""
        first = 0
        for i, example in enumerate(read):
            if not example.x.vectors.keys() <= self.vectors.keys():
                if first < i:
                    yield first, i
                yield i, i + 1
                first = i + 1
        if first < len(read) or not read:
            yield first, len(read)

    def arrays(self, read: Sequence[_Example], weights: NDArray[np.float64] = NO_WEIGHTS) -> tuple[Rows, Targets]:
        """Return the arrays of examples to learn; new features and labels get their columns, in order."""
        rows, listed, n_labels = [], [], []
        for x, y, _ in read:
            self.vectors |= {name: len(v) for name, v in x.vectors.items() if name not in self.vectors}
            self.number_fields, own = x.learning(self.number_fields)
            rows.append(self._with_vectors(x, _row(_added(self.features, own.known), own.numbers)))
            listed.append(np.array(_added(self.labels, y), dtype=np.int32))
            n_labels.append(len(self.labels))
        signs = [_SIGNS[relevant.view(np.int8)] for *_, relevant in read]
        # The flag is not set, because labels that are missing in y are unknown.
        partial = np.zeros(len(read), dtype=np.bool_)
        return _joined(rows), Targets(
            _ends(listed), _concatenated(listed, np.int32), _concatenated(signs, np.int8), partial,
            np.array(n_labels, dtype=np.int64), weights
        )  # fmt: skip

    def rows(self, xs: Iterable[Mapping[Any, Any]]) -> Rows:
        """Return the arrays of examples to predict; nothing is added.

        Features that were never learnt get the columns that learning would assign: they have no weight, but count in
        the norm of the example.
        """
        return _joined([self._row_of(x) for x in xs])

    def _row_of(self, x: Mapping[Any, Any]) -> _Row:
        given, new = self._given(x), count(len(self.features))
        self._check_vectors(given.vectors, self.vectors)
        _, given = given.learning(self.number_fields)
        columns = [self.features[name] if name in self.features else next(new) for name in given.known]
        return self._with_vectors(given, _row(columns, given.numbers))

    def _check_vectors(self, vectors: Mapping[str, NDArray[np.float32]], known: Mapping[str, int]) -> None:
        for name, vector in vectors.items():
            if len(vector) != known.get(name, len(vector)):
                raise ValueError(f"{name} must have {known[name]:,} numbers, as before, not {len(vector):,}")
        if len(known.keys() | vectors.keys()) > MAX_VECTOR_FIELDS:
            raise ValueError(f"at most {MAX_VECTOR_FIELDS} fields may have vectors")

    def _with_vectors(self, x: _Given, row: _Row) -> _Row:
        """Return a row with the vectors of fields that are known."""
        if not x.vectors:
            return row
        columns, values, first = [row[0]], [row[1]], VECTOR_COLUMNS
        for name, length in self.vectors.items():
            if name in x.vectors:
                columns.append(np.arange(first, first + length, dtype=np.int32))
                values.append(x.vectors[name].astype(self.dtype))
            first += length
        return np.concatenate(columns), np.concatenate(values)

    def name_of(self, column: int) -> Hashable:
        """Return the feature in a column, or the field of the vector that begins in this column."""
        if column < VECTOR_COLUMNS:
            return list(self.features)[column]
        starts = accumulate(self.vectors.values(), initial=VECTOR_COLUMNS)
        return dict(zip(starts, self.vectors, strict=False))[column]

    def values(self, x: Mapping[Any, Any] | str) -> dict[Hashable, float | None]:
        """Return the features of an example or record by name; None for a vector."""
        given = self._given(x, np.float64)
        _, given = given.learning(self.number_fields)
        numbers: dict[Hashable, float | None] = dict(zip(given.known, given.numbers.tolist(), strict=True))
        return numbers | dict.fromkeys(given.vectors)

    def _given(self, x: Mapping[Any, Any] | str, dtype: DTypeLike | None = None) -> _Given:
        """Return the features of an example or record by name, with the values that the learner uses."""
        vectors: dict[str, NDArray[np.float32]] = {}
        try:
            if isinstance(x, str):
                raise TypeError
            known, numbers = known_values(x)
        except TypeError:
            if not (isinstance(x, str) or is_record(x)):
                raise
            features, found = self._records.read(x)
            known, numbers = known_values(features)
            vectors = {name: vector for name, vector in found.items() if len(vector)}
        return _Given(known, numbers.astype(dtype or self.dtype), vectors)


_SIGNS = np.array([-1, 1], dtype=np.int8)


def _added(columns: dict[Hashable, int], names: Iterable[Hashable]) -> list[int]:
    found = list(map(columns.get, names))
    if None in found:
        found = [columns.setdefault(name, len(columns)) for name in names]
    return found  # type: ignore[return-value]  # no None is left


def _row(columns: list[int], numbers: NDArray[Any]) -> _Row:
    """Return one row with ascending columns."""
    indices = np.array(columns, dtype=np.int32)
    order = indices.argsort()
    return indices[order], numbers[order]


def _joined(rows: Sequence[_Row]) -> Rows:
    if len(rows) == 1:  # the common case needs no copies
        return Rows(_ends([rows[0][0]]), *rows[0])
    indices, values = [row[0] for row in rows], [row[1] for row in rows]
    return Rows(_ends(indices), _concatenated(indices, np.int32), _concatenated(values, np.float32))


def _concatenated(parts: Sequence[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    """Concatenate arrays; return an empty array of this type without any."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _ends(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    if len(parts) == 1:
        return np.array([0, len(parts[0])])
    ends = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    return ends
