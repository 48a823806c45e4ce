"""Labelled files on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manylabel_clients.command.failures import Failure

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream
    from manylabel_core.datasets import Dataset

FORMATS = "libsvm (.libsvm, .svm, .svmlight), ARFF (.arff) or NPZ (.npz)"

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
        "name; without it, the XML beside the file or MEKA's header says. libsvm: names of the labels in order.",
    ),
]
ZeroBased = Annotated[
    bool, typer.Option("--zero-based", help="libsvm: features and labels are numbered from 0, not from 1.")
]


def open_file(path: Path, labels: str | None, zero_based: bool) -> "FileStream":
    """Return a labelled file as a stream of (x, y).

    Raises
    ------
    Failure
        If it cannot be understood, or the options are not for its format.
    """
    from manylabel_clients.river.files import open_stream

    options: dict[str, Any] = {}
    if labels is not None:
        options["labels"] = label_columns(labels)
    if zero_based:
        options["zero_based"] = True
    with readable():
        try:
            return open_stream(path, **options)
        except TypeError as error:
            raise Failure(f"{path}: an option given is not for files of this kind ({error})") from error


def read_file(path: Path, labels: str | None, zero_based: bool) -> "Dataset":
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
    options = _options(format, labels, zero_based)
    if format == "csv" and labels is None:
        raise Failure(f"{path}: --labels must say which columns of a CSV file are labels")
    if format == "arff" and labels is None and (xml := xml_beside(path)) is not None:
        options["labels"] = xml
    with readable(path):
        try:
            return read_dataset(path, format, **options)
        except TypeError as error:
            raise Failure(f"{path}: an option given is not for files of this kind ({error})") from error


def _options(format: str, labels: str | None, zero_based: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"zero_based": True} if zero_based else {}
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
