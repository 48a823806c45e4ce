"""Conversion of examples of any kind to a dataset, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manylabel_core.datasets.building import Columns, DatasetBuilder
from manylabel_core.datasets.dataset import SINGLE, Dataset
from manylabel_core.datasets.formats.npz import MAX_VIEWS
from manylabel_core.datasets.formats.text import check_name
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, check_number, shown
from manylabel_core.datasets.optional_numbers import with_optional_numbers
from manylabel_core.datasets.vectors import names_of, view_of
from manylabel_core.records import Encoded, RecordEncoder, RecordError, TextSettings
from manylabel_core.records.bounds import MAX_VECTOR_FIELDS
from manylabel_core.records.forms import input_kind
from manylabel_core.records.vectors import Vector

if TYPE_CHECKING:
    from manylabel_core.datasets.formats.example_rows import ExampleRow

_NUMBERS = {int, float, type(None)}


def read_examples(
    rows: Iterable[ExampleRow],
    limits: ReaderLimits,
    text: TextSettings | None = None,
    columns: Sequence[str] | None = None,
    labels: Sequence[str] = (),
) -> Dataset:
    """Return the rows as a dataset, which stores the text options if a row is a record.

    Parameters
    ----------
    text : TextSettings, optional
        None: the defaults, and objects that contain only numbers are not records.
    columns : sequence of str, optional
        Columns of a table; its view is dense, with all these columns, while all cells are numbers.
    labels : sequence of str, optional
        Labels whose truth is known in each row; other labels get columns in order of appearance.
    """
    reading = _Reading(limits, text, columns, labels)
    for row in rows:
        try:
            reading.add(row)
        except ValueError as error:
            raise BadDataset(error.detail if isinstance(error, BadDataset) else str(error), line=row.line) from None
    return reading.done()


class _Records:
    """Encoder of records that remembers whether it has encoded any."""

    def __init__(self, limits: ReaderLimits, text: TextSettings | None) -> None:
        self.settings = text or TextSettings()
        self.seen = text is not None
        self._encoder = RecordEncoder(self.settings, limits.record)

    def read(self, x: Any) -> Encoded:
        self.seen = True
        return self._encoder.read(x)


class _Reading:
    """Parser of rows of examples into columns."""

    def __init__(
        self, limits: ReaderLimits, text: TextSettings | None, columns: Sequence[str] | None, labels: Sequence[str]
    ) -> None:
        self._limits = limits
        self._builder = DatasetBuilder(limits)
        self._single = True
        self._views: dict[str, _View] = {}
        self._labels = {label: column for column, label in enumerate(labels)}
        self._has_columns = bool(labels)
        self._complete: tuple[int, frozenset[str]] | None = (
            None  # first row with the truth of each label, and its labels
        )
        self._vectors: dict[str, _Vectors] = {}
        self._records = _Records(limits, text)
        if columns is not None:
            self._add_view(SINGLE, _Table(columns, self._records))

    def add(self, row: ExampleRow) -> None:
        self._add_features(row.x)
        self._builder.end_row(self._relevant(row.y, row.line), row.line, row.weight)
        self._limits.check("features", sum(view.width for view in self._views.values()))
        self._limits.check("labels", len(self._labels))

    def _add_view(self, name: str, view: _View) -> None:
        self._views[name] = view
        view.columns.skip_to(self._builder.n_rows)
        self._builder.views[name] = view.columns

    def _add_features(self, x: Any) -> None:
        views = x["views"] if isinstance(x, dict) and set(x) == {"views"} and isinstance(x["views"], dict) else None
        given = {SINGLE: x} if views is None else views
        if not self._builder.n_rows:
            self._single = views is None
        if self._single != (views is None):
            raise ValueError(f"x has {'no views' if views is None else 'views'}, unlike earlier rows")
        if not given or len(self._views.keys() | given.keys()) > MAX_VIEWS:
            raise ValueError(f"all rows together must have 1 to {MAX_VIEWS} different views")
        for name, features in given.items():
            if name not in self._views:
                check_name(name, "views")
                self._add_view(name, _View(_form(features), self._records if views is None else None))
        for name, features in given.items():
            view = self._views[name]
            try:
                view.add(features)
            except ValueError as error:
                place = "x" if views is None else f"x.views.{name}"
                raise ValueError(f"{place}: {_detail(error)}") from None
            self._builder.views[name] = view.columns
            self._add_vectors(view.take_vectors())

    def _add_vectors(self, vectors: dict[str, Vector]) -> None:
        """Add the vectors of a record, each to a separate view, which rows may lack."""
        for field, vector in vectors.items():
            view = self._vectors.get(field)
            length = len(vector) if view is None else view.width
            if len(vector) != length:
                raise ValueError(f"x: {field} must have {length:,} numbers, as in earlier rows; has {len(vector):,}")
            if view is None and len(vector):
                if len(self._vectors) == MAX_VECTOR_FIELDS:
                    raise ValueError(f"x: {field} exceeds the limit of {MAX_VECTOR_FIELDS} vectors in a row")
                view = self._vectors[field] = _Vectors(field, length)
                self._add_view(view_of(field, self._views), view)
            if view is not None:
                view.columns.add_vector(vector)

    def _relevant(self, y: list[str] | dict[str, bool] | None, line: int) -> list[int] | None:
        if y is None:
            return None
        if isinstance(y, dict):
            if self._has_columns:
                if len(y) < len(self._labels):
                    name = next(label for label in self._labels if label not in y)
                    raise ValueError(
                        f"label {shown(name)} is unknown, but other labels of the row are known: a dataset needs all "
                        "labels of a row, or none; to read empty cells as false, set empty to 'none'"
                    )
            else:
                self._check_complete(y, line)
            for label in y:
                self._labels.setdefault(label, len(self._labels))
            y = [label for label, relevant in y.items() if relevant]
        return [self._labels.setdefault(label, len(self._labels)) for label in y]

    def _check_complete(self, y: dict[str, bool], line: int) -> None:
        """Raise ValueError unless all objects have the same labels."""
        if self._complete is None:
            self._complete = line, frozenset(y)
        first, labels = self._complete
        if different := labels.symmetric_difference(y):
            raise ValueError(
                f"the labels of y differ from those of line {first}, for example {shown(min(different))}: a dataset "
                "needs all labels in each row; if labels without a value are false, send y as a list of the true "
                "labels; only online models learn partial labels"
            )

    def done(self) -> Dataset:
        if self._complete is not None and (others := self._labels.keys() - self._complete[1]):
            first = self._complete[0]
            raise BadDataset(
                f"y lacks {shown(min(others))}, which other rows have: each row needs all labels", line=first
            )
        if self._vectors and not self._views[SINGLE].width and self._vectors_are_enough():
            del self._views[SINGLE], self._builder.views[SINGLE]
        widths = {name: view.width for name, view in self._views.items()}
        names = {name: view.names() for name, view in self._views.items()}
        text = self._records.settings if self._records.seen else None
        dataset = self._builder.done((*self._labels,), widths, names, text)
        if not self._single:
            return dataset
        whole = with_optional_numbers(dataset)
        self._limits.check("features", whole.n_features)
        self._builder.check_size(_size(whole) - _size(dataset))
        return whole

    def _vectors_are_enough(self) -> bool:
        """Return whether each row has a vector."""
        missing = [view.columns.missing() for view in self._vectors.values()]
        return not np.all(missing, axis=0).any()


class _View:
    """Parser of the features of one view; `records` encodes non-numeric features, if they are allowed."""

    def __init__(self, form: str, records: _Records | None) -> None:
        self.form = form
        self.width, self._begun = 0, False
        self.columns = Columns(dense=form == "list")
        self._records = records
        self._names: dict[str, int] = {}
        self._vectors: dict[str, Vector] = {}
        adds: dict[str, Callable[[Any], None]] = {"list": self._list, "sparse": self._sparse, "named": self._named}
        self._add = adds[form]

    def names(self) -> tuple[str, ...] | None:
        return tuple(self._names) if self.form == "named" else None

    def add(self, x: Any) -> None:
        if self.form == "named" and type(x) is dict and _NUMBERS.issuperset(map(type, x.values())):
            _numbers([*x.values()])
            return self._add_by_name(_known(x))
        if (form := _form(x)) != self.form:
            raise ValueError(f"features are {_FORMS[form]}, but in earlier rows {_FORMS[self.form]}")
        return self._add(x)

    def _list(self, x: list[Any]) -> None:
        values = _numbers(x)
        if self._begun and len(values) != self.width:
            raise ValueError(f"must have {self.width} numbers, as in earlier rows, not {len(values)}")
        self.width, self._begun = len(values), True
        self.columns.add_dense([math.nan if value is None else value for value in values])

    def _sparse(self, x: dict[str, Any]) -> None:
        if x.keys() != {"indices", "values"}:
            raise ValueError("must have the fields indices and values, and no other fields")
        indices, values = x["indices"], _numbers(x["values"])
        if not isinstance(indices, list) or not all(type(i) is int and 0 <= i < 2**31 - 1 for i in indices):
            raise ValueError("indices must be integers, at least 0 and below 2^31 - 1")
        row = dict(zip(indices, values, strict=False))
        if not len(row) == len(indices) == len(values):
            raise ValueError("must have one value for each index, and no index twice")
        self.width = max(self.width, max(indices, default=-1) + 1)
        self.columns.add_sparse(_known(row))

    def take_vectors(self) -> dict[str, Vector]:
        """Return the vectors of the last added record, once."""
        vectors, self._vectors = self._vectors, {}
        return vectors

    def _named(self, x: dict[str, Any] | str) -> None:
        if self._records is None:
            return self._add_by_name(known_numbers(x))
        features, self._vectors = self._records.read(x)
        return self._add_by_name(features)

    def _add_by_name(self, features: dict[str, float]) -> None:
        names = self._names
        for name in features:
            if name not in names:
                check_name(name, "features")
                names[name] = len(names)
        self.columns.add_sparse({names[name]: value for name, value in features.items()})
        self.width = len(names)


class _Table(_View):
    """The view of a table: all its columns while all cells are numbers, and named features from the first record on."""

    def __init__(self, columns: Sequence[str], records: _Records) -> None:
        super().__init__("named", records)
        self._columns = columns
        if not records.seen:
            self.columns = Columns(dense=True)
            self._names = {name: column for column, name in enumerate(columns)}
            self.width = len(columns)

    def add(self, x: dict[str, Any]) -> None:
        if not self.columns.dense:
            return self._named(x)
        if not _NUMBERS.issuperset(map(type, x.values())):
            self._turn_to_names()
            return self._named(x)
        whole = len(x) == len(self._columns)
        return self.columns.add_dense(x.values() if whole else [x.get(name, math.nan) for name in self._columns])

    def _turn_to_names(self) -> None:
        """Convert the rows so far to records."""
        before, self.columns, self._names = self.columns, Columns(dense=False), {}
        table = np.frombuffer(before.values, dtype=np.float32) if before.values else np.zeros(0, np.float32)
        for values in table.reshape(before.n_rows, len(self._columns)):
            row = zip(self._columns, values.tolist(), strict=True)
            self._named({name: value for name, value in row if value == value})


class _Vectors(_View):
    """The view of a field of vectors. Its numbers have names, for trainers without views."""

    def __init__(self, field: str, length: int) -> None:
        super().__init__("list", None)
        self.width, self._field = length, field

    def names(self) -> tuple[str, ...]:
        return names_of(self._field, self.width)


_FORMS = {"list": "a list", "sparse": "indices and values", "named": "named"}
_OF_FORM = {"dense": "list", "sparse": "sparse", "named": "named", "record": "named", "text": "named"}


def _size(dataset: Dataset) -> int:
    """Return the number of values of all views."""
    return sum(int(view.size) for view in dataset.views.values())


def _form(x: Any) -> str:
    if (form := input_kind(x)) is None:
        allowed = "a list of numbers, indices and values, an object of names and numbers, a record or a text"
        raise ValueError(f"must be {allowed}")
    return _OF_FORM[form]


def known_numbers(x: Any) -> dict[str, float]:
    """Return numbers by name, without nulls; raise ValueError if a value is not a number."""
    if not isinstance(x, dict):
        raise ValueError("must be an object that maps names to numbers; only x itself may be a text")
    _numbers([*x.values()])
    known = _known(x)
    for name in known:
        check_name(name, "features")
    return known


def _known(x: dict[Any, float | None]) -> dict[Any, float]:
    return {key: value for key, value in x.items() if value is not None}


def _numbers(values: Any) -> list[float | None]:
    if not isinstance(values, list):
        raise ValueError("values must be a list of numbers")
    for value in values:
        if value is None:
            continue
        if type(value) is not float and type(value) is not int:
            raise ValueError(f"{shown(value)} is not a number")
        check_number(value)
    return values


def _detail(error: ValueError) -> str:
    if isinstance(error, RecordError):
        place = "".join(f".{shown(part)[1:-1] if isinstance(part, str) else part}" for part in error.path)
        return f"{place[1:]} {error.detail}" if place else error.detail
    return error.detail if isinstance(error, BadDataset) else str(error)
