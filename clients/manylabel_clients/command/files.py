"""Labelled files on the command line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manylabel_clients.command.failures import Failure

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream

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
    """A labelled file as a stream of (x, y).

    Raises
    ------
    Failure
        If it cannot be understood, or the options are not for its format.
    """
    from manylabel_clients.river.files import open_stream

    options: dict[str, Any] = {}
    if labels is not None:
        options["labels"] = _label_columns(labels)
    if zero_based:
        options["zero_based"] = True
    with readable():
        try:
            return open_stream(path, **options)
        except TypeError as error:
            raise Failure(f"{path}: an option given is not for files of this kind ({error})") from error


@contextmanager
def readable() -> Iterator[None]:
    """Turn what a stream raises over a bad file into a failure."""
    try:
        yield
    except ValueError as error:
        raise Failure(str(error)) from error


def _label_columns(text: str) -> Any:
    if text.lower().endswith(".xml"):
        return Path(text)
    return int(text) if text.lstrip("-").isdecimal() else [name.strip() for name in text.split(",")]
