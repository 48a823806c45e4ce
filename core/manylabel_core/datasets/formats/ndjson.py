"""JSON lines (NDJSON): one example per line, as in the HTTP API, or a record with its labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from manylabel_core.alike import MergedLabels
from manylabel_core.datasets.dataset import Dataset
from manylabel_core.datasets.formats.example_rows import ExampleRow, RowParts, checked_weight
from manylabel_core.datasets.formats.examples import read_examples
from manylabel_core.datasets.formats.prodigy import decided
from manylabel_core.datasets.formats.text import Lines, Source, check_name, numbered_lines, opened_text
from manylabel_core.datasets.limits import BadDataset, ReaderLimits, shown
from manylabel_core.datasets.report import ExamplesReport

MERGED_LINES = "; each line has one value: curl -d removes the ends of lines, --data-binary sends them"
"""Hint for a file without line breaks."""


def read_ndjson(
    source: Source,
    label_columns: str | Sequence[str] = (),
    *,
    limits: ReaderLimits = ReaderLimits(),  # noqa: B008
    **options: Any,
) -> Dataset:
    """Return a dataset from examples ``{"x": ..., "y": [...]}``, one per line, possibly gzip; empty lines are skipped.

    ``x`` is a list of numbers, ``{"indices": [...], "values": [...]}``, an object of names and numbers or any other
    record, a text, or ``{"views": {name: one of the kinds of numbers}}``; a view has the same kind in each line. A line
    may lack views, but not all of them. A null number is missing, like a number that is not listed; a 0 is a value.
    ``y`` lists the relevant labels, or is an object with the truth of all labels (true or false, 1 or 0). If ``y`` is
    null or missing, the labels are unknown. Views, features and labels are in the order of their first appearance.
    ``weight`` is the sample weight.

    With `label_columns`, a line is a record, and its field of that name has the labels as a list of strings or as a
    string. An empty string means unknown labels. For rows of Prodigy, see `prodigy.decided`.

    Parameters
    ----------
    source : path or binary stream
    label_columns : str, optional
        The field with the labels.
    limits : ReaderLimits
    **options
        Attributes of `RowParts`: tags (another name of `label_columns`), separator, ignore, text, number, category,
        weight, empty, encoding. Without a separator a string is one label. In a field of `number`, a string that
        contains a number is a number, and any other string is a missing value. In a field of `category`, a number is a
        category. A record without the field `weight` weighs 1.

    Raises
    ------
    BadDataset
        With the line: invalid JSON or an invalid example, a value that is not a finite number, a repeated name or
        index, a weight that is not above 0 and at most 1,000.
    """
    parts = RowParts(label_columns, **options)
    with opened_text(source, limits.bytes, parts.encoding) as file:
        report = ExamplesReport()
        dataset = read_examples(_reported(JsonLines(file, parts), report), limits, parts.settings)
    return replace(dataset, report=report.done())


def _reported(rows: Iterable[ExampleRow], report: ExamplesReport) -> Iterator[ExampleRow]:
    for row in rows:
        yield row
        report.add(row.x, row.y)


class JsonLines:
    """One-pass iterator over JSON lines, each an `ExampleRow`. Raises like `read_ndjson`."""

    def __init__(self, file: Lines, parts: RowParts = RowParts()) -> None:  # noqa: B008
        self.parts = parts
        self._file = file
        self._field = parts.field
        if of_tables := [name for name in ("names", "decimal", "missing") if getattr(parts, name) not in ((), None)]:
            raise BadDataset(f"{of_tables[0]} is for tables: objects have names, numbers and null")

    def __iter__(self) -> Iterator[ExampleRow]:
        merged = MergedLabels() if self.parts.merge_alike else None
        for line, text in numbered_lines(self._file):
            if not text.strip():
                continue
            try:
                row = self.row(json_object(text), line)
            except ValueError as error:
                raise BadDataset(error.detail if isinstance(error, BadDataset) else str(error), line=line) from None
            yield row if merged is None else row._replace(y=merged.merged(row.y))

    def row(self, item: dict[str, Any], line: int) -> ExampleRow:
        """Return the row of an object, from which the fields of labels are removed; raise ValueError if it is not an
        example."""
        if self._field is not None:
            item, y = decided(item, self._field) or (item, item.pop(self._field, None))
            weight, ref = self._weight(item, self.parts.weight), _ref(item, self.parts.ref)
            return ExampleRow(line, self.parts.as_declared(item), self._labels(y), weight, ref)
        if "x" not in item or set(item) - {"x", "y", "weight", "ref"}:
            found = ", ".join(shown(key) for key in [*item][:5]) or "nothing"
            raise ValueError(f"an example has x and y, not {found}; for records, specify the field with the labels")
        x, y = self.parts.as_declared(item["x"]), _checked(item.get("y"), "y")
        return ExampleRow(line, x, y, self._weight(item, "weight"), _ref(item, "ref"))

    def _weight(self, item: dict[str, Any], field: str | None) -> float | None:
        """Remove the weight of a row from an object and return it; None without one."""
        return None if field is None or field not in item else checked_weight(item.pop(field), field)

    def _labels(self, y: Any) -> list[str] | dict[str, bool] | None:
        if isinstance(y, str):
            listed = self.parts.split(y) if self.parts.separator is not None else [y.strip()] if y.strip() else []
            y = listed or ([] if self.parts.empty == "none" else None)  # the same as an empty cell of a table
        return _checked(y, self._field)


def _ref(item: dict[str, Any], field: str | None) -> str | None:
    """Remove the reference of a row from an object and return it; None without one."""
    ref = None if field is None else item.pop(field, None)
    if not (ref is None or isinstance(ref, str)):
        raise ValueError(f"{field} must be a string, not {shown(str(ref))}")
    return ref


def _checked(y: Any, name: str | None) -> list[str] | dict[str, bool] | None:
    """Return the labels if they are valid or None; otherwise raise ValueError."""
    if y is None:
        return None
    if isinstance(y, dict):
        return {label: _truth(truth, label, name) for label, truth in y.items()}
    if not isinstance(y, list):
        raise ValueError(f"{name} must be a list of all relevant labels, an object of labels and booleans, or null")
    if strange := [label for label in y if not isinstance(label, str)]:
        kind = "a number" if type(strange[0]) in (int, float) else "no string"
        raise ValueError(f"{name}: labels must be strings: {shown(strange[0])} is {kind}")
    if len(set(y)) < len(y):
        raise ValueError(f"{name}: a label occurs twice")
    for label in y:
        check_name(label, "labels")
    return y


def _truth(truth: Any, label: str, name: str | None) -> bool:
    """Return whether a label of an object is true: a boolean, 0 or 1."""
    check_name(label, "labels")
    if type(truth) not in (bool, int, float) or truth not in (0, 1):
        raise ValueError(f"{name}.{label} must be true or false (or 1 or 0), not {shown(truth)}")
    return bool(truth)


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text; raise ValueError for another value, a repeated field or an infinite number."""
    try:
        item = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        hint = MERGED_LINES if error.msg == "Extra data" else ""
        raise ValueError(f"the line is not JSON: {error.msg} at character {error.pos + 1}{hint}") from None
    except RecursionError:
        raise ValueError("the example is nested too deeply") from None
    if not isinstance(item, dict):
        raise ValueError('must be an object, {"x": ..., "y": [...]}')
    return item


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for at, key in enumerate(keys) if key in set(keys[:at]))
        raise ValueError(f"{shown(twice)} occurs twice in an object")
    return result


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a finite number")
