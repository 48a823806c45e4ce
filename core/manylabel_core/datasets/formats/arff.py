"""Multi-label ARFF files, as Mulan and MEKA write them: dense and sparse rows, nominal and numeric."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from manylabel_core.datasets.building import Columns, DatasetBuilder
from manylabel_core.datasets.dataset import SINGLE, Dataset
from manylabel_core.datasets.formats.arff_columns import Column, feature, label
from manylabel_core.datasets.formats.arff_header import (
    Header,
    choose_labels,
    read_header,
    spaced_words,
    split_words,
    unquote,
    without_comment,
)
from manylabel_core.datasets.formats.mulan import read_label_names
from manylabel_core.datasets.formats.text import Source, check_names, numbered_lines, opened_text
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, shown
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT

Labels = Source | int | Sequence[str] | None
"""Label attributes: a Mulan XML file, the first n (n), the last n (-n), names, or MEKA's option in the relation."""


def read_arff(source: Source, labels: Labels = None, *, limits: ReaderLimits = ReaderLimits()) -> Dataset:  # noqa: B008
    """Return a dataset from a multi-label ARFF file, dense or sparse.

    A numeric attribute is a feature, and so is a nominal one with the values 0 and 1. Any other nominal attribute gives
    a feature ``attribute=value`` with the value 1. A missing value (``?``) is NaN in a dense row, and not stored in a
    sparse one. A row whose labels are all missing is unlabelled. A sparse row omits values of 0 and, as in Weka, the
    first value of a nominal attribute. Labels are attributes of 0 and 1 (or false and true). The weight of a row may
    follow it in braces, as Weka writes it: ``120, wild, 1, {2.5}``.

    Parameters
    ----------
    source : path or binary stream
    labels : path or binary stream, int, or sequence of str, optional
        Which attributes are labels: a Mulan XML file, the first n attributes (n), the last n (-n), or their names.
        None: MEKA's ``-C n`` in the relation's name.
    limits : ReaderLimits

    Raises
    ------
    BadDataset
        With the line: an attribute that is unknown, repeated, or a string, a date or relational; a value that the
        attribute does not list; a weight that is not above 0 and at most 1,000; a row with some labels missing; a label
        without an attribute.
    """
    with opened_text(source, limits.bytes) as file:
        lines = numbered_lines(file)
        header = read_header(lines, limits)
        columns = ArffColumns(header, _chosen(header, labels))
        limits.check("features", columns.n_features)
        limits.check("labels", len(columns.label_names))
        builder = DatasetBuilder(limits)
        rows = columns.rows(lines)
        first = next(rows, None)
        if first is None:
            raise BadDataset("there are no rows after @data")
        # The first row decides for all rows whether the matrix is dense or sparse.
        dense = not (first.sparse or columns.one_hot)
        builder.views[SINGLE] = Columns(dense)
        for row in chain([first], rows):
            _add(builder, row, columns)
    return builder.done_single(columns.label_names, columns.n_features, columns.feature_names())


class ArffRow(NamedTuple):
    """ARFF row by column numbers: features with values, relevant labels, unknown labels, and the weight or None."""

    line: int
    sparse: bool
    x: dict[int, float]
    relevant: list[int]
    unknown: list[int]
    weight: float | None = None


def _chosen(header: Header, labels: Labels) -> set[str]:
    if labels is None or isinstance(labels, int) or (isinstance(labels, Sequence) and not isinstance(labels, str)):
        return choose_labels(header, labels)
    try:
        names = read_label_names(labels)
    except BadDataset as error:
        raise BadDataset(error.detail, line=error.line, member="labels") from None
    return choose_labels(header, names)


class ArffColumns:
    """Parser of the rows of a file into columns of features and labels.

    `label_names` are in the order of the attributes; `one_hot` is true if an attribute has a column for each of its
    values.
    """

    def __init__(self, header: Header, labels: set[str]) -> None:
        self._columns: list[Column] = []
        self.n_features = n_labels = 0
        for name, values, line in header.attributes:
            column = label(name, values, n_labels, line) if name in labels else feature(name, values, self.n_features)
            self._columns.append(column)
            n_labels += column.is_label
            self.n_features += column.n_features
        self.label_names = tuple(column.name for column in self._columns if column.is_label)
        self.one_hot = any(column.n_features > 1 for column in self._columns)
        # An attribute that a sparse row omits has its first value if it is nominal, otherwise 0.
        self._unsaid = [(i, *column.unsaid) for i, column in enumerate(self._columns) if column.unsaid is not None]

    def feature_names(self) -> tuple[str, ...]:
        """Return the names of the features, by column; raises BadDataset if two are equal."""
        names = [name for column in self._columns for name in column.feature_names()]
        return check_names(names, "features")

    def rows(self, lines: Iterator[tuple[int, str]]) -> Iterator[ArffRow]:
        """Return the rows in the lines after ``@data``; raises BadDataset with the line of an invalid row."""
        for line, text in lines:
            text = text.strip()
            if text and text[0] != "%":
                try:
                    row = self._row(line, text)
                except ValueError as error:
                    row = self._row_before_comment(line, text, error)
                yield row

    def _row_before_comment(self, line: int, text: str, error: ValueError) -> ArffRow:
        """Return a row without the comment at its end; raise BadDataset if the row is still invalid."""
        if (before := without_comment(text)) != text and before:
            with suppress(ValueError):
                return self._row(line, before)
        raise BadDataset(str(error), line=line) from None

    def _row(self, line: int, text: str) -> ArffRow:
        text, weight = _without_weight(text)
        sparse = text[0] == "{"
        fields = self._sparse(text) if sparse else self._dense(text)
        row = ArffRow(line, sparse, {}, [], [], weight)
        for i, token in fields.items():
            column = self._columns[i]
            if token == "?":
                if column.is_label:
                    row.unknown.append(column.first)
                continue
            self._put(row, column, *column.read(token))
        if sparse:
            for i, number, value in self._unsaid:
                if i not in fields:
                    self._put(row, self._columns[i], number, value)
        return row

    @staticmethod
    def _put(row: ArffRow, column: Column, number: int, value: float) -> None:
        if not column.is_label:
            row.x[number] = value
        elif value:
            row.relevant.append(number)

    def _dense(self, text: str) -> dict[int, str]:
        most = len(self._columns)
        tokens = split_words(text, most)
        if len(tokens) < most:
            spaced = spaced_words(text, most)
            tokens = spaced if len(spaced) == most else tokens
        if len(tokens) != most:
            raise ValueError(f"the row has {len(tokens)} values for {most} attributes")
        return dict(enumerate(map(unquote, tokens)))

    def _sparse(self, text: str) -> dict[int, str]:
        body = text[1:].rstrip("}").strip()
        if text.count("}") != 1 or not text.endswith("}"):
            raise ValueError("a sparse row is {index value, ...} optionally followed by {weight}")
        fields: dict[int, str] = {}
        for field in split_words(body, len(self._columns)) if body else []:
            word, value = [*field.split(None, 1), "", ""][:2]
            index = int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else -1
            value = value.strip()
            if not 0 <= index < len(self._columns) or index in fields or not value:
                top = len(self._columns) - 1
                raise ValueError(f"{shown(field)} must be an index from 0 to {top}, used once, and a value")
            fields[index] = unquote(value)
        return fields


def _add(builder: DatasetBuilder, row: ArffRow, columns: ArffColumns) -> None:
    if row.unknown and len(row.unknown) < len(columns.label_names):
        name = columns.label_names[row.unknown[0]]
        raise BadDataset(
            f"label {shown(name)} is missing, but other labels are not; a row must have all labels or none",
            line=row.line,
        )
    view = builder.views[SINGLE]
    if view.dense:
        view.add_dense([row.x.get(column, math.nan) for column in range(columns.n_features)])
    else:
        view.add_sparse(row.x)
    builder.end_row(None if row.unknown else row.relevant, row.line, row.weight)


def _without_weight(text: str) -> tuple[str, float | None]:
    """Split a row into its values and its weight, or None."""
    start = text.rfind("{") if text[-1] == "}" else 0
    if start == 0:
        return text, None
    row, weight = text[:start].rstrip(), text[start + 1 : -1].strip()
    if not row.endswith(("}", ",")):
        raise ValueError("a weight, in braces, must follow a comma")
    try:
        number = float(weight)
    except ValueError:
        number = 0.0
    if not 0.0 < number <= MAX_EXAMPLE_WEIGHT:
        allowed = f"a number above 0 and at most {MAX_EXAMPLE_WEIGHT:g}"
        raise ValueError(f"the weight after a row must be {allowed}, not {shown(weight)}")
    return row.removesuffix(",").rstrip(), number
