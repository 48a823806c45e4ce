"""Report of what a reader understood of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from manylabel_core.alike import AlikeNames
from manylabel_core.datasets.limits import shown

EXAMPLES = 10
"""Number of rows, and of odd cells of a column, that a report shows."""


@dataclass(frozen=True, slots=True)
class OddCell:
    """A cell that does not fit its column, with its line."""

    line: int
    cell: str


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """A column as it was read."""

    name: str
    kind: str
    """number, category, text, flag, date, vector, labels, label, weight, ref or ignored."""
    values: int
    """Number of rows with a value."""
    missing: int
    """Number of rows without a value."""
    example: str = ""
    note: str = ""
    """Notation of the cells if they are not plain, or the reason why the column is ignored."""
    odd: int = 0
    odd_cells: tuple[OddCell, ...] = ()


@dataclass(frozen=True, slots=True)
class TableReport:
    """Report of what a reader understood of a file."""

    rows: int
    """Number of rows, without omitted rows."""
    columns: tuple[ColumnReport, ...]
    labels: dict[str, int]
    """Number of rows for which each label is relevant."""
    unlabelled: int
    """Number of rows with unknown labels, which a stream omits."""
    omitted: dict[str, int] = field(default_factory=dict)
    """Number of rows that were omitted, by reason."""
    settings: dict[str, str] = field(default_factory=dict)
    """Style of the file: separator of cells, decimal mark, separator of labels."""
    first: tuple[dict[str, Any], ...] = ()
    """The first rows as they are learnt: objects with x and y."""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        return asdict(self)


MAX_FIELDS = 1_000
"""Number of fields in the report of records."""


_LIST_PART = re.compile(r"""^[\[{]|[\]}]$|^["'].*["']$|^<.*>|\|""")


def label_warnings(counts: Mapping[str, int], n_rows: int, *, mergeable: bool = False) -> Iterator[str]:
    """Yield warnings about the labels; `mergeable` is whether the reader has the option `merge_alike` for them."""
    for label, count in islice(((label, n) for label, n in counts.items() if n >= n_rows > 1), EXAMPLES):
        yield f"label {shown(label)} is on every row ({count:,})"
    for label in islice((label for label, n in counts.items() if not n), EXAMPLES):
        yield f"label {shown(label)} is on no row"
    alike = AlikeNames()
    alike.add(counts)
    for group in alike.groups()[:EXAMPLES]:
        listed = ", ".join(f"{label!r} ({counts[label]:,})" for label in group[:EXAMPLES])
        remedy = "; merge_alike makes them one label" if mergeable else ""
        yield f"labels {listed} differ only in case, spaces or Unicode form{remedy}"
    strange = [label for label in counts if _LIST_PART.search(label)]
    if strange:
        yield f"labels look like parts of a list, such as {shown(strange[0])}: state the separator"
    if n_rows > EXAMPLES and len(counts) == n_rows and all(n == 1 for n in counts.values()):
        yield "each row has a different label"


class _Field:
    """Counts of the values of a field by their kind."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.example = ""

    def add(self, value: Any) -> None:
        kind = _kind_of(value)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.example = self.example or str(shortened(value))[:80]


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "category"
    if isinstance(value, Mapping):
        return "object"
    return "vector" if value and all(isinstance(one, (int, float)) for one in value) else "categories"


class ExamplesReport:
    """Report of examples that are added one by one, from a file of any format."""

    def __init__(self) -> None:
        self._fields: dict[str, _Field] = {}
        self._labels: dict[str, int] = {}
        self._first: list[dict[str, Any]] = []
        self._n_rows = self._n_unlabelled = 0

    def add(self, x: Any, y: Iterable[str] | Mapping[str, bool] | None) -> None:
        """Add an example; `y` is a list of the relevant labels, an object of labels and truths, or None if the labels
        are unknown."""
        self._n_rows += 1
        self._n_unlabelled += y is None
        if self._n_rows <= EXAMPLES:
            self._first.append({"x": shortened(x), "y": y})
        labels, fields = self._labels, self._fields
        for label, is_true in y.items() if isinstance(y, Mapping) else dict.fromkeys(y or (), True).items():
            labels[label] = labels.get(label, 0) + bool(is_true)
        for name, value in (x if isinstance(x, Mapping) else {"x": x}).items():
            if value is not None and (name in fields or len(fields) < MAX_FIELDS):
                fields.setdefault(name, _Field()).add(value)

    def done(self) -> TableReport:
        """Return the report."""
        columns, warnings = [], list[str]()
        for name, found in self._fields.items():
            kinds = sorted(found.kinds, key=lambda kind: -found.kinds[kind])
            n_values = sum(found.kinds.values())
            columns.append(ColumnReport(name, kinds[0], n_values, self._n_rows - n_values, found.example))
            if len(kinds) > 1:
                counts = ", ".join(f"{found.kinds[kind]:,} {kind}" for kind in kinds)
                warnings.append(f"field {shown(name)} has values of several kinds: {counts}")
        warnings += label_warnings(self._labels, self._n_rows - self._n_unlabelled, mergeable=True)
        rows, unlabelled = self._n_rows, self._n_unlabelled
        first = tuple(self._first)
        return TableReport(rows, tuple(columns), self._labels, unlabelled, first=first, warnings=tuple(warnings))


def shortened(value: Any, most: int = 100) -> Any:
    """Return a value for a report; long strings, lists and objects are cut."""
    if isinstance(value, str):
        return value if len(value) <= 500 else f"{value[:500]}..."
    if isinstance(value, Mapping):
        return {name: shortened(one, 20) for name, one in islice(value.items(), most)}
    return [shortened(one, 20) for one in value[:20]] if isinstance(value, list) else value


def report_of_counts(labels: Mapping[str, int], n_rows: int, unlabelled: int) -> TableReport:
    """Return a report of a dataset whose features have no names."""
    warnings = tuple(label_warnings(labels, n_rows - unlabelled))
    return TableReport(n_rows, (), dict(labels), unlabelled, warnings=warnings)
