"""Kind of each column of a table, decided from all its cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from manylabel_core.alike import spelling
from manylabel_core.datasets.formats import cells
from manylabel_core.datasets.formats.tables import dates
from manylabel_core.datasets.formats.tables.column_scan import (
    DATE,
    FLAG,
    INFINITE,
    NUMBER,
    OTHER,
    STRINGS,
    STYLED,
    VECTOR,
    ColumnScan,
    Seen,
)
from manylabel_core.datasets.limits import BadDataset, check_number, shown
from manylabel_core.datasets.report import EXAMPLES, ColumnReport, OddCell

Value = float | str | list[float] | list[str]
"""Value of a cell: a number, a category or text, a vector, or several categories."""

PARTLY = 0.1
"""A column of categories is reported if at least this share of its values are numbers, truth values or dates."""

DIFFERENT = 0.9
"""A column of categories is reported if at least this share of its values differ."""

MAX_UNITS = 5
"""Units behind numbers are reported if there are at most this many."""

_CODE = re.compile(r"[A-Z]{2,3}")


@dataclass(slots=True)
class Column:
    """A column with its kind, and how its cells are read."""

    name: str
    kind: str
    scan: ColumnScan
    read: Callable[[str], Value | None] = str
    missing: frozenset[str] = frozenset()
    """Words that are missing values, like empty cells; spaces around them do not count."""
    note: str = ""
    odd: tuple[int, ...] = ()
    """Kinds of cells that do not fit the column."""

    @property
    def n_missing(self) -> int:
        """Number of missing values."""
        scan, words = self.scan, self.scan.words or {}
        n_odd = sum(scan.counts[kind] for kind in self.odd) if self.kind == "number" else 0
        return scan.counts[0] + sum(count for word, count in words.items() if word in self.missing) + n_odd

    @property
    def is_number(self) -> bool:
        """Return whether its values are numbers."""
        return self.kind in ("number", "flag", "date")

    def report(self) -> ColumnReport:
        """Return the column for the report."""
        odd = [OddCell(line, cell) for line, cell in self.scan.examples_of(*self.odd)][:EXAMPLES]
        n_odd = sum(self.scan.counts[kind] for kind in self.odd)
        n_missing = self.n_missing
        values = self.scan.n - n_missing
        return ColumnReport(self.name, self.kind, values, n_missing, self.scan.first[:80], self.note, n_odd, tuple(odd))


class KindChooser:
    """Choice of the kinds of the columns of features, given the counts of all columns of the file.

    Raises BadDataset, with the line, for a column that contradicts itself or can be read in two ways.
    """

    def __init__(
        self,
        scans: Mapping[str, ColumnScan],
        forced: Mapping[str, str],
        decimal: str | None,
        missing: Sequence[str] | None,
    ) -> None:
        self._scans, self._forced = scans, forced
        self._decimal = decimal or self._decimal_of(scans)
        self._missing = None if missing is None else frozenset(missing)
        self._uses_words, self._quotes_words = self._words_of(scans)
        self._has_empty = any(scan.counts[0] for scan in scans.values())
        self.warnings: list[str] = []

    @property
    def decimal(self) -> str:
        """The decimal mark of the file."""
        return self._decimal or "."

    def _decimal_of(self, scans: Mapping[str, ColumnScan]) -> str | None:
        """Return the decimal mark that the columns of numbers use; None if they use none."""
        found = set()
        for name, scan in scans.items():
            forced = self._forced.get(name)
            if forced not in (None, "number") or not (forced or scan.is_numeric):
                continue
            for one in _styles(scan):
                if one.point is None:
                    found.add(",")
                elif one.comma is None:
                    found.add(".")
        if not found and any(scan.point and scan.is_numeric for scan in scans.values()):
            found.add(".")
        return found.pop() if len(found) == 1 else None

    def _words_of(self, scans: Mapping[str, ColumnScan]) -> tuple[bool, bool]:
        """Return whether words such as NA are missing values in columns of numbers, and whether they are in quotes
        there."""
        uses = quotes = False
        for scan in scans.values():
            typed = scan.solid and scan.solid in (scan.n_numbers, scan.counts[FLAG], scan.counts[DATE])
            if scan.words and typed and not cells.MISSING_NAMES.isdisjoint(scan.words):
                uses, quotes = True, quotes or scan.quoted_words > 0
        return uses, quotes

    def column(self, name: str) -> Column:
        """Return the column of features with this name."""
        scan, forced = self._scans[name], self._forced.get(name)
        column = Column(name, forced or self._kind(name, scan), scan)
        if column.kind in ("number", "flag"):
            column.missing = frozenset(scan.words or ())
            self._as_number(column, is_forced=forced is not None)
        elif column.kind == "date":
            column.missing = frozenset(scan.words or ())
            self._as_date(column)
        elif column.kind == "vector":
            column.missing = frozenset(scan.words or ())
            column.read = partial(_vector, name)
        elif column.kind in ("category", "text", "labels"):
            column.missing = self.missing_names(scan, column.name)
            if column.kind == "category" and 0 < scan.solid == scan.counts[STRINGS]:
                column.read, column.note = _strings, "several categories in a cell"
        if self._missing is not None:
            column.missing = self._missing
        self._warn(column, is_forced=forced is not None)
        return column

    def _kind(self, name: str, scan: ColumnScan) -> str:
        counts, solid = scan.counts, scan.solid
        if not solid:
            return "number" if cells.MISSING_NAMES.issuperset(scan.words or ()) else "category"
        for kind, what in ((FLAG, "flag"), (STRINGS, "category")):
            if counts[kind] == solid:
                return what
        if counts[DATE] == solid:
            if _is_dated(scan):
                return "date"
            line, cell = scan.examples_of(DATE)[0]
            why = (
                "in several orders of year, month and day"
                if not scan.orders
                else (
                    "with and without an offset from UTC"
                    if len(scan.orders) == 1
                    else "in which day and month cannot be told apart"
                )
            )
            self.warnings.append(
                f"column {shown(name)} has dates {why}, such as {shown(cell)} (line {line}): they are read as "
                "categories; dates such as 2024-11-29 are read as days"
            )
            return "category"
        if counts[VECTOR] and counts[VECTOR] + counts[STRINGS] == solid and not _has_strings(scan):
            return "vector"
        if scan.n_numbers == solid:
            codes = scan.padded if scan.padded and not counts[STYLED] else None
            ids = scan.too_large if scan.too_large and scan.too_large[1].strip().lstrip("+-").isdigit() else None
            if codes or ids:
                line, cell = codes or ids or (0, "")
                why = "codes with leading zeros" if codes else "numbers with too many digits"
                self.warnings.append(
                    f"column {shown(name)} has {why}, such as {shown(cell)} (line {line}): it is read as categories"
                )
                return "category"
            return "number"
        if counts[INFINITE] and counts[NUMBER] and scan.n_numbers + counts[INFINITE] == solid:
            line, cell = scan.examples_of(INFINITE)[0]
            raise BadDataset(
                f"column {shown(name)} is {shown(cell)}: expected a finite number; list {shown(cell)} among the "
                "missing values, or make the column a category",
                line=line,
            )
        return "category"

    def _as_date(self, column: Column) -> None:
        """Read a column of dates as days."""
        (order,) = column.scan.orders
        column.read = partial(dates.days, order)
        line, cell = column.scan.examples_of(DATE)[0]
        column.note = f"{order}, days since 1970-01-01"
        self.warnings.append(
            f"column {shown(column.name)} has dates, which are learnt as days since 1970-01-01: {shown(cell)} (line "
            f"{line}) is {dates.days(order, cell):g}"
        )

    def _as_number(self, column: Column, is_forced: bool) -> None:
        scan, name = column.scan, column.name
        if column.kind == "flag":
            column.read, column.note = _flag, "TRUE is 1, FALSE is 0"
            return
        if scan.too_large and not is_forced:
            line, cell = scan.too_large
            raise BadDataset(
                f"column {shown(name)} is {shown(cell)}: expected a finite number of at most 1e+15 in absolute value; "
                "make the column a category if these are names",
                line=line,
            )
        column.read = float
        if self._decimal == "," and (scan.counts[STYLED] or scan.first):
            if scan.point and not is_forced:
                line, cell = scan.point
                raise BadDataset(
                    f"column {shown(name)} is {shown(cell)}, with a decimal point, but the decimal mark of the file is "
                    "a comma: state the decimal mark, or make the column a category",
                    line=line,
                )
            column.read = _comma_number
        elif self._decimal is None and scan.dotted and not scan.point and not scan.counts[STYLED]:
            line, cell = scan.dotted
            self.warnings.append(
                f"column {shown(name)} has only points that may be marks of thousands, such as {shown(cell)} (line "
                f"{line}): it is read as {float(cell):g}; state whether the decimal mark is '.' or ','"
            )
        if scan.counts[STYLED]:
            self._check_styles(column, is_forced)
        if is_forced:
            column.read = partial(_forced, self.decimal)
            column.odd = (OTHER, STRINGS, VECTOR, INFINITE, DATE)
            if scan.counts[DATE] and not scan.n_numbers and _is_dated(scan):
                self._as_date(column)
                column.read = partial(_date, *scan.orders)
                column.odd = (OTHER, STRINGS, VECTOR, INFINITE, FLAG)

    def _check_styles(self, column: Column, is_forced: bool) -> None:
        """Raise BadDataset if numbers with marks and units contradict each other, or can be read in two ways."""
        scan, name, decimal = column.scan, column.name, self._decimal
        styles = [(line, cell, cells.styled(cell.strip())) for line, cell in scan.examples_of(STYLED)]
        all_styles = _styles(scan)
        marks = {"," if one.point is None else "." for one in all_styles if None in (one.point, one.comma)}
        if scan.point and any(one.point is None for one in all_styles) and not self._forced.get(name):
            marks.add(".")
        line, cell, _ = styles[0]
        if len(marks) > 1 and not is_forced:
            raise BadDataset(
                f"column {shown(name)} has decimal commas and decimal points, such as {shown(cell)}: state the decimal "
                "mark, or make the column a category",
                line=line,
            )
        if decimal is None and any(one.point != one.comma for one in all_styles):
            raise BadDataset(
                f"column {shown(name)} is {shown(cell)}, which has two readings: state whether the decimal mark is "
                "'.' or ','",
                line=line,
            )
        units = {one.unit for one in all_styles}
        if scan.counts[NUMBER]:
            units.add("")
        if len(units) > 1 and not is_forced:
            listed = ", ".join(shown(unit) if unit else "none" for unit in sorted(units))
            raise BadDataset(
                f"column {shown(name)} has numbers with several units ({listed}), such as {shown(cell)}: make it a "
                "number, which ignores units, or a category",
                line=line,
            )
        unit = max(units)
        how = [f"unit {unit}"] if unit else []
        how += ["decimal commas"] if decimal == "," else []
        how += ["marks of thousands"] if any(map(partial(_grouped, decimal), scan.values or ())) else []
        if any(cell.strip()[0] == "(" for cell in scan.values or ()):
            how.append("negative in parentheses")
        column.note = ", ".join(how)
        column.read = partial(_styled_number, decimal or ".")

    def missing_names(self, scan: ColumnScan, name: str) -> frozenset[str]:
        """Return the words that mean a missing value in a column of categories."""
        names = cells.MISSING_NAMES.intersection(scan.words or ())
        if not names:
            return frozenset()
        n_words = sum((scan.words or {})[word] for word in names)
        is_missing = self._is_missing(scan)
        listed = ", ".join(map(shown, sorted(names)))
        what = "is read as a missing value" if is_missing else "is read as an ordinary value"
        self.warnings.append(
            f"{listed} {what} in column {shown(name)} ({n_words:,} cells); set the missing values to change this"
        )
        return names if is_missing else frozenset()

    def _is_missing(self, scan: ColumnScan) -> bool:
        if scan.is_quoted and not self._quotes_words and not scan.quoted_words:
            return True  # R writes all other strings in quotes
        if scan.is_quoted and not self._quotes_words:
            return False
        if self._uses_words:
            return True
        return not (self._has_empty or scan.counts[0] or all(map(_CODE.fullmatch, scan.values or ())))

    def _warn(self, column: Column, is_forced: bool) -> None:
        scan, name = column.scan, shown(column.name)
        if not scan.solid and column.kind != "ignored":
            self.warnings.append(f"column {name} has no values")
        if is_forced and column.kind == "number" and (n_odd := sum(scan.counts[kind] for kind in column.odd)):
            line, cell = scan.examples_of(*column.odd)[0]
            self.warnings.append(
                f"{n_odd:,} of {scan.solid:,} values of column {name} are not numbers, such as {shown(cell)} (line "
                f"{line}): they are read as missing"
            )
        if is_forced or column.kind != "category" or not scan.solid:
            return
        typed = {"number": (NUMBER, STYLED), "truth value": (FLAG,), "date": (DATE,)}
        for what, kinds in typed.items():
            n_typed = sum(scan.counts[kind] for kind in kinds)
            if PARTLY * scan.solid <= n_typed < scan.solid:
                column.odd = tuple({OTHER, FLAG, STRINGS, VECTOR, INFINITE, DATE, NUMBER, STYLED}.difference(kinds))
                line, cell = (scan.examples_of(*column.odd) or [(0, "")])[0]
                self.warnings.append(
                    f"column {name} has {n_typed:,} {what}{'s' * (n_typed > 1)} of {scan.solid:,} values, but also "
                    f"{shown(cell)} (line {line}): it is read as categories; if you make it a number, other cells "
                    "become missing values"
                )
        line, cell = (scan.examples_of(OTHER) or [(0, "")])[0]
        example = f"such as {shown(cell)} (line {line}): it is read as categories"
        if units := _words_behind_numbers(scan):
            listed = f"the unit {shown(units[0])}" if len(units) == 1 else f"the units {', '.join(map(shown, units))}"
            remedy = (
                "remove the unit to have it read as numbers"
                if len(units) == 1
                else "convert all to one unit, and remove the unit, to have it read as numbers"
            )
            self.warnings.append(f"column {name} has numbers with {listed}, {example}; {remedy}")
        if _are_times(scan):
            self.warnings.append(
                f"column {name} has times of day, {example}; write them as minutes to have it read as numbers"
            )
        values = scan.values
        if alike := _alike(values or ()):
            listed = " and ".join(map(shown, alike[:2]))
            self.warnings.append(
                f"column {name} has categories that differ only in case, spaces or Unicode form, such as {listed}: "
                "each is another category"
            )
        if values is None or scan.solid < 20 or scan.n_numbers:
            return
        if _all_differ(scan):
            self.warnings.append(f"column {name} has a different value in each row: ignore it, or make it a text")
        elif sum(count == 1 for count in values.values()) >= DIFFERENT * len(values) and (
            len(values) >= DIFFERENT * scan.solid or values.more
        ):
            number = f"{'more than ' if values.more else ''}{len(values):,}"
            self.warnings.append(
                f"column {name} has {number} different values in {scan.solid:,} rows: ignore it, or make it a text"
            )


def _all_differ(scan: ColumnScan) -> bool:
    values = Seen() if scan.values is None else scan.values
    return (len(values) == scan.solid or values.more) and max(values.values(), default=0) <= 1


def _solid_values(scan: ColumnScan) -> list[str]:
    """Return the different cells that are not words for a missing value."""
    return [cell for cell in scan.values or () if cell.strip() not in (scan.words or ())]


def _words_behind_numbers(scan: ColumnScan) -> list[str]:
    """Return the few words, such as kg, that follow the numbers of a column; none unless a word follows each number."""
    values = _solid_values(scan)
    if len(values) < 2 or scan.counts[OTHER] != scan.solid:
        return []
    words = [word for cell in values if (word := cells.word_behind(cell.strip())) is not None]
    found = sorted({word for word, _ in words})
    is_code = len(found) > 1 and not any(is_measure for _, is_measure in words)
    is_few = len(found) <= min(MAX_UNITS, len(values) // 2 + 1)
    return found if len(words) == len(values) and is_few and not is_code else []


def _alike(values: Iterable[str]) -> list[str]:
    """Return the first group of alike values."""
    groups: dict[str, set[str]] = {}
    for value in values:
        group = groups.setdefault(spelling(value), set())
        group.add(value)
        if len(group) > 1:
            return sorted(group)
    return []


def _are_times(scan: ColumnScan) -> bool:
    """Return whether all values of a column are times of day."""
    return 0 < scan.counts[OTHER] == scan.solid and all(dates.is_time(cell.strip()) for cell in _solid_values(scan))


def _styles(scan: ColumnScan) -> list[cells.Styled]:
    found = (cells.styled(cell.strip()) for cell in scan.values or ())
    return [one for one in found if one is not None]


def _grouped(decimal: str | None, cell: str) -> bool:
    one = cells.styled(cell.strip())
    return one is not None and cells.is_grouped(
        re.sub(r"[^0-9.,'\u2019 \u00a0\u202f+-]", "", cell).strip(), decimal or "."
    )


def _has_strings(scan: ColumnScan) -> bool:
    return any(cells.strings(cell) for _, cell in scan.examples_of(STRINGS))


def _flag(cell: str) -> float | None:
    return cells.FLAGS[cell.strip()]


def _comma_number(cell: str) -> float:
    if "." in cell:
        return _styled_number(",", cell)
    return cells.number(cell.replace(",", "."))


def _styled_number(decimal: str, cell: str) -> float:
    one = cells.styled(cell.strip())
    value = None if one is None else one.comma if decimal == "," else one.point
    if value is None:
        raise ValueError(f"{cell!r} is not a number")
    return value


def _is_dated(scan: ColumnScan) -> bool:
    """Return whether all dates of a column have the same order, and either all or none have an offset from UTC."""
    return len(scan.orders) == 1 and len(scan.offsets or ()) == 1


def _date(order: str, cell: str) -> float | None:
    try:
        return dates.days(order, cell)
    except ValueError:
        return None


def _forced(decimal: str, cell: str) -> float | None:
    """Return the number of a cell in a column that was declared a number; None if the cell is not a number."""
    if (flag := cells.FLAGS.get(cell.strip())) is not None:
        return flag
    try:
        is_plain = cells.NUMBER.fullmatch(cell.strip()) and (decimal == "." or "." not in cell)
        return check_number(float(cell) if is_plain else _styled_number(decimal, cell))
    except ValueError:
        return None


def _vector(name: str, cell: str) -> list[float] | None:
    if (found := cells.vector(cell)) is None and cells.listed(cell) != []:
        raise ValueError(f"column {name!r} is {cell[:40]!r}: expected a list of numbers")
    return found


def _strings(cell: str) -> list[str] | None:
    return cells.strings(cell) or None
