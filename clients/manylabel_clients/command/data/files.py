"""Labelled files on the command line."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from manylabel_clients.command.declaring import Argument, Fields, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.output.reports import note_warnings
from manylabel_clients.http.resources.model_status import AnyStatus
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import EXTENSIONS, TrainedStatus
from manylabel_clients.http.transport.upload import extension_of

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream
    from manylabel_core.datasets import Dataset
    from manylabel_core.datasets.formats.example_rows import ExampleRow

FORMATS_HELP = (
    "libsvm (.libsvm, .svm, .svmlight), ARFF (.arff), NPZ (.npz), CSV (.csv), TSV (.tsv) or JSON lines (.jsonl, "
    ".ndjson); all but NPZ may be gzip (.gz)"
)
TABLES = ("csv", "tsv")
RECORDS = (*TABLES, "ndjson")
"""Formats whose rows may be records."""
MAX_FIELDS = 1_000
"""Number of fields above which a server may list only some of the fields of a trained model."""

_File = Argument(metavar="FILE", exists=True, dir_okay=False, help=f"Labelled examples in {FORMATS_HELP}.")
File = Annotated[Path, _File]
OptionalFile = Annotated[Path | None, _File]
LABELS_HELP = (
    "ARFF: a Mulan XML file, names, or a number of attributes (N: the first N, -N: the last N); default: the XML file "
    "next to it, or MEKA's header. CSV, TSV: names of columns of 0 and 1, or the number of such columns at the end; "
    "with --separator, the column whose cells list labels. JSON lines of records: the field with the labels."
)
TrainingLabels = Annotated[str | None, Option("--labels", metavar="XML|N|A,B,...", help=LABELS_HELP)]
LabelColumns = Annotated[
    str | None, Option("--labels", metavar="XML|N|A,B,...", help=f"{LABELS_HELP} libsvm: names of the labels in order.")
]
ZeroBased = Annotated[bool, Option("--zero-based", help="libsvm: features and labels are numbered from 0, not from 1.")]


class TableOptions(NamedTuple):
    """Options for the columns of a table or the fields of records, in addition to --labels."""

    tags: Annotated[
        str | None,
        Option(
            metavar="COLUMN", help="CSV, TSV, JSON lines: column or field that lists the labels, instead of --labels."
        ),
    ] = None
    separator: Annotated[
        str | None,
        Option(
            help="CSV, TSV, JSON lines: separator of labels in a cell, such as ';'; '' if a cell is one label. Default "
            "with --tags: what the column shows."
        ),
    ] = None
    ignore: Annotated[
        str | None, Option(metavar="A,B,...", help="CSV, TSV, JSON lines: columns or fields to ignore.")
    ] = None
    text: Annotated[
        list[str] | None,
        Option(metavar="A,B,...", help="CSV, TSV, JSON lines: columns or fields that are text. Repeatable, one each."),
    ] = None
    number: Annotated[
        list[str] | None,
        Option(
            "--number",
            metavar="A,B,...",
            help="CSV, TSV, JSON lines: columns or fields that are numbers; other cells are missing values. "
            "Repeatable.",
        ),
    ] = None
    category: Annotated[
        list[str] | None,
        Option(
            "--category",
            metavar="A,B,...",
            help="CSV, TSV, JSON lines: columns or fields that are categories, such as codes of digits. Repeatable.",
        ),
    ] = None
    names: Annotated[
        list[str] | None,
        Option(metavar="A,B,...", help="CSV, TSV: names of all columns of a file without a line of names. Repeatable."),
    ] = None
    decimal: Annotated[
        str | None, Option(help="CSV, TSV: decimal mark, '.' or ','. Default: what the columns show.")
    ] = None
    missing: Annotated[
        list[str] | None,
        Option(
            metavar="A,B,...",
            help="CSV, TSV: cells that mean a missing value in any column, instead of NA, null and others. Repeatable; "
            "'' for none but empty cells.",
        ),
    ] = None
    empty: Annotated[
        str | None,
        Option(
            metavar="unknown|none",
            help="CSV, TSV, JSON lines: an empty cell of labels means unknown labels (default), or none.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        Option(
            help="CSV, TSV, JSON lines: encoding of the file, such as cp1252, latin-1 or shift_jis. Default: UTF-8, or "
            "UTF-16 with its mark."
        ),
    ] = None
    merge_alike: Annotated[
        bool,
        Option(
            "--merge-alike",
            help="CSV, TSV, JSON lines: labels in lists that differ only in case, spaces or Unicode form are one.",
        ),
    ] = False
    weight: Annotated[
        str | None,
        Option(
            "--weight",
            metavar="COLUMN",
            help="CSV, TSV, JSON lines of records: column or field with the weight of each row, above 0 and at most "
            '1,000. JSON items have it in "weight", NPZ in an array "weight", ARFF in braces after a row.',
        ),
    ] = None
    ref: Annotated[
        str | None,
        Option(
            "--ref",
            metavar="COLUMN",
            help="CSV, TSV, JSON lines of records: column or field with your reference for each row, such as a "
            'customer number or the id of a ticket. JSON items have it in "ref".',
        ),
    ] = None

    @property
    def texts(self) -> list[str]:
        """The fields that are text."""
        return field_names(self.text) or []

    @property
    def all_names(self) -> list[str]:
        """Names of all columns, if the file has none."""
        return field_names(self.names) or []

    def kinds_of(self, dataset: "Dataset") -> "TableOptions":
        """Return the options to read another file with the same kinds of columns as a dataset."""
        columns = () if dataset.report is None else dataset.report.columns
        names = {
            kind: [one.name for one in columns if one.kind in kinds and one.values]
            for kind, kinds in (("number", ("number", "flag", "date")), ("category", ("category",)))
        }
        return self.with_kinds(names["number"], names["category"])

    def with_kinds(self, number: Iterable[str], category: Iterable[str], text: Iterable[str] = ()) -> "TableOptions":
        """Return the options with the kinds of more columns; columns that already have a role keep it."""
        given = self._replace(number=None, category=None).roles
        numbers, categories = field_names(self.number) or [], field_names(self.category) or []
        given = {*given, *numbers, *categories}
        numbers += [name for name in number if name not in given]
        categories += [name for name in category if name not in given]
        texts = [*self.texts, *(name for name in text if name not in given)]
        return self._replace(number=numbers or None, category=categories or None, text=texts or None)

    @property
    def roles(self) -> set[str | None]:
        """Columns that the options name."""
        named = (*self.texts, *(field_names(self.number) or ()), *(field_names(self.category) or ()))
        return {self.tags, self.weight, self.ref, *(self.given().get("ignore") or ()), *named}

    def given(self) -> dict[str, Any]:
        """Return the options to pass to the reader."""
        options: dict[str, Any] = self._asdict()
        options["ignore"] = None if self.ignore is None else field_names([self.ignore])
        options |= {name: field_names(options[name]) for name in ("number", "category", "names", "missing")}
        options |= {"text": self.texts or None, "merge_alike": self.merge_alike or None}
        return {name: value for name, value in options.items() if value is not None}


PLAIN = TableOptions()
_UNLABELLED = tuple(name for name in TableOptions._fields if name not in ("weight", "ref"))
UnlabelledRowOptions = Annotated[TableOptions, Fields(*_UNLABELLED)]
RowOptions = Annotated[TableOptions, Fields(*_UNLABELLED, "weight")]
NamedRowOptions = Annotated[TableOptions, Fields(*_UNLABELLED, "weight", "ref")]
"""Options for rows to predict, for labelled rows, and for rows with references."""


def open_for(
    model: Model, path: Path, labels: str | None, zero_based: bool, table: TableOptions = PLAIN, learns: bool = False
) -> "FileStream":
    """Return a labelled file as a stream of (x, y); the columns have the same kinds as in a model.

    Raises Failure as `open_file`. With `learns`, the file may have columns that the model does not know yet.
    """
    status = model.status()
    known = [] if status.text is None else status.text.get("fields") or []
    if others := [name for name in table.texts if name not in known]:
        texts = f"only {', '.join(known)}" if known else "no field by its name"
        cure = f"create a model that does with manylabel models create NAME --text {','.join(table.texts)}"
        raise Failure(f"{model.name} does not read {', '.join(others)} as text, {texts}: {cure}")
    return open_file(path, labels, zero_based, _as_learnt(status, path, labels, table, learns))


def as_learnt(model: Model, source: str, labels: str | None, table: TableOptions, learns: bool = False) -> TableOptions:
    """Return the options for an input of examples, as `open_for` determines them for a file."""
    if source == "-" or record_format(source) not in TABLES or not Path(source).is_file():
        return table
    return _as_learnt(model.status(), Path(source), labels, table, learns)


def _as_learnt(status: AnyStatus, path: Path, labels: str | None, table: TableOptions, learns: bool) -> TableOptions:
    """Return the options, with the kinds of the model's columns unless the options set others.

    Prints which columns the file lacks. Raises Failure as `open_file`, and if the model knows no column of the file.
    """
    from manylabel_core.datasets.formats.tables.lines import shape_of
    from manylabel_core.datasets.formats.text import opened_text

    texts = [] if status.text is None else status.text.get("fields") or []
    kinds = {each.name: each.kind for each in status.fields}
    if not (kinds or texts) or record_format(path) not in TABLES:
        return table
    with readable(path), opened_text(path, encoding=table.encoding) as file:
        names = shape_of(file, None, "\t" if record_format(path) == "tsv" else None, (*table.all_names,)).names
    columns = _features(names, labels, table)
    if kinds:
        n_fields = len(kinds) if isinstance(status, TrainedStatus) else status.n_fields
        _note_others(status.name, path, kinds, columns, learns, whole=n_fields == len(kinds) < MAX_FIELDS)
    numbers = [name for name in columns if kinds.get(name) in ("number", "flag")]
    categories = [name for name in columns if kinds.get(name) == "category"]
    declared = [name for name in columns if name in texts and table.text is None]
    return table.with_kinds(numbers, categories, declared)


def _features(names: Sequence[str], labels: str | None, table: TableOptions) -> list[str]:
    """Return the names of the columns that can be features."""
    columns = None if labels is None else label_columns(labels)
    others = names[-columns:] if isinstance(columns, int) and columns else columns
    roles = {table.tags, table.weight, table.ref, *(table.given().get("ignore") or ())}
    listed = others if isinstance(others, (list, tuple)) else ()
    return [name for name in names if name not in roles and name not in listed]


def _note_others(
    model: str, path: Path, kinds: Mapping[str, str], columns: Sequence[str], learns: bool, whole: bool
) -> None:
    """Print the fields of a model that the file lacks, and the columns that the model does not know.

    Raises Failure if the model knows no column and does not learn the file.
    """
    unknown = [name for name in columns if name not in kinds]
    if unknown == list(columns) and whole and not learns:
        raise Failure(f"{path} has no column that {model} knows, such as {next(iter(kinds))}")
    lacking = [name for name in kinds if name not in columns] if whole else []
    notes = []
    if lacking:
        notes.append(f"{path.name} has no column {_some(lacking)}, which {model} knows: missing in every row")
    if unknown and whole and not learns:
        notes.append(f"{model} does not know the column {_some(unknown)}: --ignore it")
    note_warnings(notes)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def open_file(path: Path, labels: str | None, zero_based: bool, table: TableOptions = PLAIN) -> "FileStream":
    """Return a labelled file as a stream of (x, y); raise Failure if it is damaged, or if an option does not apply to
    its format."""
    from manylabel_clients.river.files import open_stream
    from manylabel_core.datasets.reading import format_of

    options = _options(format_of(path), labels, zero_based, table)
    check_labelled(path, labels, table)
    with readable():
        try:
            return open_stream(path, **options)
        except TypeError as error:
            raise Failure(f"{path}: an option does not apply to this file format ({error})") from error


def read_file(path: Path, labels: str | None, zero_based: bool, table: TableOptions = PLAIN) -> "Dataset":
    """Return a whole labelled file; raise Failure if it is damaged, or if an option does not apply to its format."""
    from manylabel_core.datasets import read_dataset
    from manylabel_core.datasets.formats.mulan import xml_beside
    from manylabel_core.datasets.reading import EXTENSIONS, format_of

    if (format := format_of(path)) is None:
        raise Failure(f"{path}: the name must end in one of {', '.join(EXTENSIONS)}")
    options = _options(format, labels, zero_based, table)
    check_labelled(path, labels, table)
    if format == "arff" and labels is None and (xml := xml_beside(path)) is not None:
        options["labels"] = xml
    with readable(path):
        try:
            return read_dataset(path, format, **options)
        except TypeError as error:
            raise Failure(f"{path}: an option does not apply to this file format ({error})") from error


def read_rows(path: Path, labels: str | None, table: TableOptions) -> "Iterator[ExampleRow]":
    """Yield the rows of a table or of JSON lines, including rows with unknown labels; raise Failure or OSError."""
    from manylabel_clients.river.files.stream import NO_LIMITS
    from manylabel_core.datasets.formats.example_rows import RowParts
    from manylabel_core.datasets.formats.ndjson import JsonLines
    from manylabel_core.datasets.formats.tables.table import Table
    from manylabel_core.datasets.formats.text import opened_text
    from manylabel_core.datasets.reading import format_of

    format = format_of(path)
    with readable(path):
        parts = RowParts(**_options(format, labels, False, table))
        if format == "ndjson":
            with opened_text(path, encoding=parts.encoding) as file:
                yield from JsonLines(file, parts)
        else:
            rows = Table(path, parts, None, "\t" if format == "tsv" else None, NO_LIMITS)
            note_warnings(rows.warnings())
            yield from rows


def record_format(path: str | PathLike[str]) -> str | None:
    """Return the format that the name of a file indicates, if it is one of `RECORDS`; else None."""
    format = EXTENSIONS.get(extension_of(path))
    return format if format in RECORDS else None


def check_labelled(path: Path, labels: str | None, table: TableOptions, format: str | None = None) -> None:
    """Raise a Failure if no option names the labels of a table."""
    if (format or record_format(path)) in TABLES and labels is None and table.tags is None:
        ways = "name the label columns of the file with --labels, or the column that lists the labels with --tags"
        raise Failure(f"{path}: {ways}")


def _options(format: str | None, labels: str | None, zero_based: bool, table: TableOptions) -> dict[str, Any]:
    options: dict[str, Any] = {**table.given(), **({"zero_based": True} if zero_based else {})}
    if labels is not None:
        options["label_columns" if format in RECORDS else "labels"] = label_columns(labels)
    return options


@contextmanager
def readable(path: Path | None = None) -> Iterator[None]:
    """Convert errors of a reader into a Failure."""
    try:
        yield
    except ValueError as error:
        raise Failure(f"{path}, {error}" if path else str(error)) from error


def field_names(given: list[str] | None) -> list[str] | None:
    """Return the names in the values of an option, which may be repeated or separated by commas; None without the
    option."""
    return None if given is None else [name.strip() for names in given for name in names.split(",")]


def label_columns(text: str) -> Any:
    """Parse --labels: a Mulan XML file, a number of columns, or their names."""
    if text.lower().endswith(".xml"):
        return Path(text)
    return int(text) if text.lstrip("-").isdecimal() else [name.strip() for name in text.split(",")]
