"""Files of examples or records: CSV, TSV and JSON lines, read row by row."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from typing import Any

from manylabel_clients.river.files.stream import NO_LIMITS, Example, FileFormatError, FileStream, naming
from manylabel_core.datasets.formats.example_rows import ExampleRow, RowParts
from manylabel_core.datasets.formats.examples import known_numbers
from manylabel_core.datasets.formats.ndjson import JsonLines
from manylabel_core.datasets.formats.tables.table import Table
from manylabel_core.datasets.formats.text import opened_text
from manylabel_core.datasets.report import TableReport
from manylabel_core.records.forms import input_kind


class RecordFile(FileStream):
    """File of examples as a river stream; rows without known labels are omitted.

    Features are numbers by name, or a record if a row has other values: strings, lists of strings, bools and dicts.
    River estimators and models of a server read records by their `text` settings.

    Parameters
    ----------
    path : str or path
        The file may be gzip.
    labels, label_columns : str, int or sequence of str, optional
        Label columns, by either parameter; with a separator, the column that lists labels; in JSON lines, the field
        that has them.
    **options
        Other parameters of `manylabel_core.datasets.read_csv` and `read_ndjson`. In `text`, only the names of the
        fields matter here: the values of these fields are not read as numbers.

    Attributes
    ----------
    labels : tuple of str
        All labels.
    n_unlabelled : int
        Rows with unknown labels that the latest iteration has omitted so far.

    Raises
    ------
    FileFormatError
        A line does not have the format of the file; the message has the line.
    """

    def __init__(
        self, path: str | PathLike[str], label_columns: Any = (), *, labels: Any = (), ignore: Any = (), **options: Any
    ) -> None:
        super().__init__(path)
        self.n_unlabelled = 0
        if labels not in ((), None) and label_columns not in ((), None):
            raise ValueError("labels and label_columns are the same parameter: pass only one")
        columns = labels if label_columns in ((), None) else label_columns
        with naming(self.path):
            self._parts = RowParts(() if columns is None else columns, ignore=ignore or (), **options)
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Inspect the beginning of the file."""

    @contextmanager
    @abstractmethod
    def _opened(self) -> Iterator[Any]:
        """Open the file, to iterate over its rows."""

    def _rows(self) -> Iterator[ExampleRow]:
        self.n_unlabelled = 0
        with naming(self.path), self._opened() as rows:
            for row in rows:
                if row.y is None:
                    self.n_unlabelled += 1
                else:
                    yield row

    def examples(self) -> Iterator[Example]:
        """Iterate over (x, y) as stored in the file: y is a list if a row lists its labels.

        A row with a weight is (x, y, weight), with a reference (x, y, weight, None, ref); iteration over the stream
        omits both.
        """
        for row in self._rows():
            assert row.y is not None
            if row.ref is not None:
                yield self._x(row), row.y, row.weight, None, row.ref
            else:
                yield (self._x(row), row.y) if row.weight is None else (self._x(row), row.y, row.weight)

    @cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]  # computed on first use
        """All labels of the file, in the order in which they appear."""
        found: dict[str, None] = {}
        n_samples = 0
        for row in self._rows():
            found.update(dict.fromkeys(row.y or ()))
            n_samples += 1
        self.n_samples = n_samples
        return tuple(found)

    def _x(self, row: ExampleRow) -> Any:
        form = input_kind(row.x)
        if isinstance(row.x, dict) and row.x.keys() == {"views"} and isinstance(row.x["views"], dict):
            raise ValueError(f"{self.path}: its examples have views, which streams do not support")
        try:
            if form == "dense":
                return known_numbers(dict(zip(map(str, range(len(row.x))), row.x, strict=True)))
            if form == "sparse":
                if row.x.keys() != {"indices", "values"} or len(row.x["indices"]) != len(row.x["values"]):
                    raise ValueError("must have the fields indices and values, of the same length, and no other fields")
                return known_numbers(dict(zip(map(str, row.x["indices"]), row.x["values"], strict=True)))
        except (ValueError, TypeError) as error:
            raise FileFormatError(self.path, f"x {error}", line=row.line) from None
        if form is None:
            raise FileFormatError(self.path, "x must be an object, a list of numbers or a text", line=row.line)
        return row.x if form == "text" else {name: value for name, value in row.x.items() if value is not None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"


class CsvFile(RecordFile):
    """CSV file as a river stream.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "songs.csv")
    ...     _ = path.write_text("id,title,tempo,tags\\n7,Go on,120,rock;loud\\n8,1999,80,jazz\\n")
    ...     for x, y in CsvFile(path, labels="tags", separator=";", text=["title"], ignore=["id"]):
    ...         print(x, y)
    {'title': 'Go on', 'tempo': 120.0} {'rock': True, 'loud': True, 'jazz': False}
    {'title': '1999', 'tempo': 80.0} {'rock': False, 'loud': False, 'jazz': True}
    """

    sparse = False
    columns: tuple[str, ...]
    """The columns that are neither labels nor ignored."""
    _preferred: str | None = None

    def _begin(self) -> None:
        with naming(self.path):
            self._table = Table(self.path, self._parts, None, self._preferred, NO_LIMITS)
        self.columns = tuple(self._table.feature_names)
        self.n_features = None if self._parts.text is not None else len(self.columns)
        counts, n_unlabelled = self._table.label_counts()
        self.n_samples = None
        if not self._table.counts_are_partial:
            self.labels, self.n_samples = tuple(counts), self._table.n_rows - n_unlabelled

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the file."""
        return self._table.warnings()

    @cached_property
    def report(self) -> TableReport:
        """Report of how the file is read."""
        with naming(self.path):
            return self._table.report()

    @contextmanager
    def _opened(self) -> Iterator[Table]:
        yield self._table


class TsvFile(CsvFile):
    """Table with tab-separated cells as a river stream; see `CsvFile`."""

    _preferred = "\t"


class NdjsonFile(RecordFile):
    """JSON lines as a river stream: an example ``{"x": ..., "y": [...]}`` per line, or a record with its labels.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "songs.jsonl")
    ...     _ = path.write_text('{"title": "Go on", "live": true, "tags": ["rock"]}\\n')
    ...     for x, y in NdjsonFile(path, labels="tags"):
    ...         print(x, y)
    {'title': 'Go on', 'live': True} {'rock': True}
    """

    def _begin(self) -> None:
        self.n_samples = self.n_features = None
        with naming(self.path), self._opened() as rows:
            first = next(iter(rows), None)
        self.sparse = first is None or input_kind(first.x) != "dense"
        if first is not None:
            self._x(first)

    @contextmanager
    def _opened(self) -> Iterator[JsonLines]:
        with opened_text(self.path, encoding=self._parts.encoding) as file:
            yield JsonLines(file, self._parts)
