"""Labelled files on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from manylabel_clients.command.failures import Failure

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream
    from manylabel_core.datasets import Dataset

FORMATS = "libsvm (.libsvm, .svm, .svmlight), ARFF (.arff), NPZ (.npz), NDJSON (.ndjson, .jsonl) or CSV (.csv)"

_File = typer.Argument(
    metavar="FILE", exists=True, dir_okay=False, help=f"Labelled examples in {FORMATS}.", show_default=False
)
File = Annotated[Path, _File]
OptionalFile = Annotated[Path | None, _File]
LabelColumns = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="XML|N|A,B,...",
        help="ARFF: which attributes are labels, by a Mulan XML file, as the first N (the last, if negative) or by "
        "name; without it, the XML beside the file or MEKA's header says. libsvm: names of the labels in order. CSV: "
        "the last N, or their names.",
    ),
]
Tags = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="CSV: the column whose cells list the labels, in place of --labels."),
]
Separator = Annotated[str, typer.Option(help="CSV: what stands between two labels in a cell of --tags.")]
Ignore = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="CSV: columns that are neither features nor labels.")
]
ZeroBased = Annotated[
    bool, typer.Option("--zero-based", help="libsvm: features and labels are numbered from 0, not from 1.")
]


class TableOptions(NamedTuple):
    """Options that say what the columns of a CSV file are, beside --labels."""

    tags: str | None = None
    separator: str = " "
    ignore: str | None = None

    def given(self) -> dict[str, Any]:
        """Return the options of the reader."""
        tags = {} if self.tags is None else {"tags": self.tags, "separator": self.separator}
        ignore = {} if self.ignore is None else {"ignore": [name.strip() for name in self.ignore.split(",")]}
        return {**tags, **ignore}


PLAIN = TableOptions()


def open_file(path: Path, labels: str | None, zero_based: bool, table: TableOptions = PLAIN) -> "FileStream":
    """Return a labelled file as a stream of (x, y).

    Raises
    ------
    Failure
        If it cannot be understood, or the options are not for its format.
    """
    from manylabel_clients.river.files import open_stream

    options = _options("csv" if path.suffix.lower() == ".csv" else "", labels, zero_based, table)
    check_labelled(path, labels, table)
    with readable():
        try:
            return open_stream(path, **options)
        except TypeError as error:
            raise Failure(f"{path}: an option given is not for files of this kind ({error})") from error


def read_file(path: Path, labels: str | None, zero_based: bool, table: TableOptions = PLAIN) -> "Dataset":
    """Return a labelled file as a whole.

    Raises
    ------
    Failure
        If it cannot be understood, or the options are not for its format.
    """
    from manylabel_core.datasets import read_dataset
    from manylabel_core.datasets.formats.mulan import xml_beside
    from manylabel_core.datasets.reading import EXTENSIONS

    if (format := EXTENSIONS.get(path.suffix.lower())) is None:
        raise Failure(f"{path}: the name must end in one of {', '.join(EXTENSIONS)}")
    options = _options(format, labels, zero_based, table)
    check_labelled(path, labels, table)
    if format == "arff" and labels is None and (xml := xml_beside(path)) is not None:
        options["labels"] = xml
    with readable(path):
        try:
            return read_dataset(path, format, **options)
        except TypeError as error:
            raise Failure(f"{path}: an option given is not for files of this kind ({error})") from error


def read_table(path: Path, labels: str | None, table: TableOptions) -> Iterator[tuple[int, dict[str, float], Any]]:
    """Yield the rows of a CSV file as (line, x, y); y is None where the labels are not known, or no column has any.

    What is missing is left out of x.

    Raises
    ------
    Failure
        If it cannot be understood.
    OSError
        If it cannot be read.
    """
    from manylabel_core.datasets.formats.table import CsvTable

    with readable(path), path.open("rb") as file:
        rows = CsvTable(file, **_options("csv", labels, False, table))
        for line, values, relevant in rows:
            x = {name: value for name, value in zip(rows.feature_names, values, strict=True) if value == value}
            yield line, x, _truth(rows.label_names, relevant, table)


def _truth(names: list[str], relevant: list[int] | None, table: TableOptions) -> Any:
    if relevant is None:
        return None
    if table.tags is not None:  # all that are relevant; which others there are shows only in later rows
        return [names[column] for column in relevant]
    return {name: column in relevant for column, name in enumerate(names)}


def check_labelled(path: Path, labels: str | None, table: TableOptions) -> None:
    """Raise a Failure if nothing says where a CSV file has its labels."""
    if path.suffix.lower() == ".csv" and labels is None and table.tags is None:
        ways = "--labels must say which columns of a CSV file are labels, or --tags which column lists them"
        raise Failure(f"{path}: {ways}")


def _options(format: str, labels: str | None, zero_based: bool, table: TableOptions) -> dict[str, Any]:
    options: dict[str, Any] = {**table.given(), **({"zero_based": True} if zero_based else {})}
    if labels is not None:
        options["label_columns" if format == "csv" else "labels"] = label_columns(labels)
    return options


@contextmanager
def readable(path: Path | None = None) -> Iterator[None]:
    """Turn what a reader raises over a bad file into a failure."""
    try:
        yield
    except ValueError as error:
        raise Failure(f"{path}, {error}" if path else str(error)) from error


def label_columns(text: str) -> Any:
    """Return what --labels means: a Mulan XML file, a number of columns, or their names."""
    if text.lower().endswith(".xml"):
        return Path(text)
    return int(text) if text.lstrip("-").isdecimal() else [name.strip() for name in text.split(",")]
