"""Rows of files of examples, and the roles of columns or fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from manylabel_core.datasets.formats.cells import number
from manylabel_core.datasets.formats.text import ENCODINGS, check_name, check_names
from manylabel_core.datasets.limits import BadDataset, shown
from manylabel_core.records import TextSettings
from manylabel_core.rows import MAX_EXAMPLE_WEIGHT

Text = TextSettings | Mapping[str, Any] | Sequence[str] | str
"""Names of the text fields, or all text options."""


class ExampleRow(NamedTuple):
    """One example in the format of the HTTP API."""

    line: int  # last line in the file, from 1
    x: Any  # a record, a text, or another kind of features
    y: list[str] | dict[str, bool] | None  # list of the relevant labels, or dict from labels to truth; None if unknown
    weight: float | None = None  # sample weight; None without one
    ref: str | None = None  # name of the example, which datasets do not store


@dataclass(frozen=True)
class RowParts:
    """Roles of the columns of a table, or of the fields of objects.

    Attributes
    ----------
    label_columns : int, str or sequence of str, default=()
        Number of label columns of 0 and 1 at the end of a row, or names of the label columns. With a separator, the
        column whose cells list the relevant labels. For objects, the field with the labels.
    tags : str, optional
        The column or field that lists the relevant labels, instead of `label_columns`.
    separator : str, optional
        Separator of labels in a cell or string; surrounding spaces are ignored. If it is empty, a cell is one label.
        None: for a table, the separator is found from the column of `tags` (see `label_cells.cells_of`); for objects, a
        string is one label.
    ignore : sequence of str, default=()
        Columns or fields that are neither features nor labels.
    text : TextSettings, mapping or sequence of str, optional
        The text fields, or all text options. A cell of a text column is not parsed as a number.
    number, category : sequence of str, default=()
        Columns or fields that are always numbers, or always categories, whatever they contain.
    names : sequence of str, default=()
        Names of all columns of a table without a line of names.
    decimal : str, optional
        Decimal mark of a table, "." or ",". None: it is found from the columns of numbers.
    missing : sequence of str, optional
        Cells of a table that mean a missing value, in any column; an empty cell always does. None: the usual words,
        such as NA and null, in columns of numbers or truth values, and in other columns if the file uses these words
        for missing values.
    empty : str, default="unknown"
        Meaning of an empty cell of labels: "unknown", or "none" for no labels.
    merge_alike : bool, default=False
        Whether labels in lists and objects are merged if their names differ only in case, spaces or Unicode form. The
        first name remains.
    encoding : str, optional
        Encoding of the file, one of `ENCODINGS`. None: UTF-8, or UTF-16 with its mark.
    weight, ref : str, optional
        The columns or fields of sample weights and of references, names for the rows. For objects of x and y, they are
        always `weight` and `ref`.

    Raises
    ------
    BadDataset
        If the options conflict.
    ValueError
        If a setting of `text` is not allowed.
    """

    label_columns: int | str | Sequence[str] = ()
    tags: str | None = None
    separator: str | None = None
    ignore: Sequence[str] = ()
    text: Text | None = None
    weight: str | None = None
    ref: str | None = None
    number: Sequence[str] = ()
    category: Sequence[str] = ()
    names: Sequence[str] = ()
    decimal: str | None = None
    missing: Sequence[str] | None = None
    empty: str = "unknown"
    encoding: str | None = None
    merge_alike: bool = False

    def __post_init__(self) -> None:
        for name in ("label_columns", "number", "category", "names", "ignore"):
            if isinstance(given := getattr(self, name), str) or given is None:
                object.__setattr__(self, name, () if given is None else (given,))
        if isinstance(self.missing, str):
            object.__setattr__(self, "missing", (self.missing,))
        if self.missing is not None:
            object.__setattr__(self, "missing", tuple(map(str.strip, self.missing)))
        if self.encoding is not None and self.encoding not in ENCODINGS:
            raise BadDataset(f"the encoding must be one of {', '.join(ENCODINGS)}, not {shown(self.encoding)}")
        if self.tags is not None and self.label_columns:
            raise BadDataset("a column of tags cannot be combined with label columns")
        if self.decimal not in (None, ".", ","):
            raise BadDataset(f"the decimal mark must be '.' or ',', not {shown(self.decimal)}")
        if self.empty not in ("unknown", "none"):
            raise BadDataset(f"empty must be 'unknown' or 'none', not {shown(self.empty)}")
        kinds = [*self.number, *self.category, *self.ignore]
        if twice := next((name for name in kinds if kinds.count(name) > 1), None):
            raise BadDataset(f"column {shown(twice)} has more than one kind")

    @property
    def settings(self) -> TextSettings | None:
        """Return the text options, or None."""
        return TextSettings.of(self.text)

    def listed_in(self, columns: Sequence[str]) -> str | None:
        """Return the column whose cells list labels, if any."""
        if self.tags is not None or self.separator is None:
            return self.tags
        chosen = self.label_columns
        if isinstance(chosen, int):
            chosen = columns[-chosen:] if chosen else ()
        if len(chosen) != 1:
            raise BadDataset(f"a separator needs one column whose cells list labels, not {len(chosen)} columns")
        return str(chosen[0])

    @property
    def field(self) -> str | None:
        """The field with the labels of an object; None if examples are objects with x and y."""
        if self.tags is not None or not self.label_columns:
            if self.separator is not None and self.tags is None:
                raise BadDataset("a separator needs the name of the field that lists labels")
            return self.tags
        if isinstance(self.label_columns, int) or len(self.label_columns) != 1:
            raise BadDataset("JSON lines have their labels in one field: specify its name")
        return check_names(tuple(self.label_columns), "fields")[0]

    def as_declared(self, x: Any) -> Any:
        """Return an object without the ignored fields, and with the declared kinds of its fields."""
        if not (self.ignore or self.number or self.category) or not isinstance(x, dict):
            return x
        x = {name: value for name, value in x.items() if name not in self.ignore}
        for name in self.number:
            if isinstance(value := x.get(name), str):
                x[name] = _number_of(value)
        for name in self.category:
            if type(value := x.get(name)) in (int, float):
                x[name] = str(value)
        return x

    def split(self, text: str, line: int | None = None) -> list[str]:
        """Return the labels that a string of an object lists, each once."""
        split = text.split(self.separator) if self.separator else [text]
        labels = dict.fromkeys(filter(None, map(str.strip, split)))
        for label in labels:
            check_name(label, "labels", line)
        return list(labels)


def checked_weight(value: Any, name: str = "weight") -> float:
    """Return the weight of a row; raises ValueError if invalid, with the name of its field."""
    if type(value) in (int, float) and 0.0 < value <= MAX_EXAMPLE_WEIGHT:
        return float(value)
    raise ValueError(f"{name} must be a number above 0 and at most {MAX_EXAMPLE_WEIGHT:g}, not {shown(str(value))}")


def _number_of(text: str) -> float | None:
    try:
        return number(text)
    except ValueError:
        return None
