"""Examples from the command line, a file or standard input."""

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from manylabel_clients.command.data.files import (
    PLAIN,
    RECORDS,
    TABLES,
    TableOptions,
    check_labelled,
    read_rows,
    readable,
    record_format,
)
from manylabel_clients.command.failures import Failure
from manylabel_clients.http.errors import ApiError
from manylabel_clients.http.responses import Prediction

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream

T = TypeVar("T")
_PLACE = re.compile(r"(?<!\S)/examples/(\d+)(\S*)")
EXAMPLE = '{"x": {"word=cat": 1}}'
LABELLED_EXAMPLE = '{"x": {"word=cat": 1}, "y": ["pets"]}'
TRUTH = '{"id": "01KAHZY4T00000000000000000", "y": ["pets"]}'


class Item(NamedTuple):
    """Example with its location in the input."""

    place: str
    x: Any
    y: Any
    weight: Any = None
    ref: Any = None

    @property
    def labelled(self) -> tuple[Any, ...]:
        """The example as a tuple, with its weight and reference if present."""
        if self.ref is not None:
            return (self.x, self.y, self.weight, None, self.ref)
        return (self.x, self.y) if self.weight is None else (self.x, self.y, self.weight)


def read_items(source: str, labelled: bool, labels: str | None = None, table: TableOptions = PLAIN) -> Iterator[Item]:
    """Yield the examples of `source` in order, as each line is read; raise Failure with the location, or OSError.

    `source` is JSON, ``-`` for standard input, or the name of a file: CSV, TSV or JSON, optionally with the ending .gz.
    If `labelled`, each example must have a `y`. `labels` and `table` name the columns of a table, or the fields of JSON
    lines.
    """
    if _has_rows(source, labels is not None or table != PLAIN):
        yield from _rows(Path(source), labelled, labels, table)
        return
    needed = {"x", "y"} if labelled else {"x"}
    for place, value in _read_values(source, LABELLED_EXAMPLE):
        if not isinstance(value, dict) or not needed <= value.keys() <= {"x", "y", "weight", "ref"}:
            raise Failure(f"{place}: an example looks like {LABELLED_EXAMPLE if labelled else EXAMPLE}")
        yield Item(place, value["x"], value.get("y"), _weight(place, value), value.get("ref"))


def read_truths(source: str) -> Iterator[Item]:
    """Yield the labels of stored predictions in `source`, with the id in `x`. Reads like `read_items`, but no
    tables."""
    for place, value in _read_values(source, TRUTH):
        if not isinstance(value, dict) or not {"id", "y"} <= value.keys() <= {"id", "y", "weight", "ref"}:
            raise Failure(f"{place}: labels of a stored prediction look like {TRUTH}")
        yield Item(place, value["id"], value["y"], _weight(place, value), value.get("ref"))


def _weight(place: str, value: dict[str, Any]) -> Any:
    """Return the weight of an item, or None; the server validates it."""
    if "weight" in value and value["weight"] is None:
        raise Failure(f"{place}: weight must be a number, not null: omit it if it is unknown")
    return value.get("weight")


def _read_values(source: str, example: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of an input with their locations."""
    with ExitStack() as stack:
        if _is_json(source):
            lines: Iterable[str] = io.StringIO(source)
        elif source == "-":
            if sys.stdin.isatty():
                sys.stderr.write(f"one example per line, such as {example}; end with Ctrl-D\n")
            lines = sys.stdin
        else:
            try:
                lines = stack.enter_context(open(source, encoding="utf-8-sig"))
            except FileNotFoundError:
                raise Failure(f"{source!r} is neither a file nor valid JSON; an example looks like {example}") from None
        for place, value in _values(_decodable(iter(lines))):
            yield from _each(place, value)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` items; the last may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def predicted(
    stream: "FileStream", batch_size: int, *models: Callable[[list[Any]], list[Prediction]]
) -> Iterator[tuple[list[Any], list[float], list[list[Prediction]]]]:
    """Yield the true labels, the weights and the predictions of each model for the rows of a file, in batches."""
    with readable():
        for rows in chunks(stream.examples(), batch_size):
            xs = [x for x, *_ in rows]
            weights = [1.0 if not weight or weight[0] is None else float(weight[0]) for _, _, *weight in rows]
            yield [y for _, y, *_ in rows], weights, [model(xs) for model in models]


@contextmanager
def placed(chunk: list[Item]) -> Iterator[None]:
    """Convert ``/examples/3/x`` in the errors of a chunk to the location in the input."""

    def place(found: re.Match[str]) -> str:
        return f"{chunk[int(found[1])].place}: {found[2]}"

    try:
        yield
    except ApiError as error:
        error.detail = _PLACE.sub(place, error.detail)
        raise
    except (TypeError, ValueError) as error:
        raise Failure(_PLACE.sub(place, str(error))) from error


def _has_rows(source: str, are_parts_named: bool) -> bool:
    """Return whether a source is a file read row by row: a table, or JSON lines with gzip or column options."""
    format, is_packed = None, source.lower().endswith(".gz")
    if not (source == "-" or _is_json(source)):
        format = record_format(source)
    if are_parts_named and format not in RECORDS:
        options = "--labels, --tags and the other options of columns"
        raise Failure(f"{options} are for files that end with .csv, .tsv, .jsonl or .ndjson, or these and .gz")
    return format in TABLES or (format == "ndjson" and (are_parts_named or is_packed))


def _is_json(source: str) -> bool:
    return source.lstrip()[:1] in ("{", "[")


def _rows(path: Path, labelled: bool, labels: str | None, table: TableOptions) -> Iterator[Item]:
    if labelled:
        check_labelled(path, labels, table)
    for line, x, y, weight, ref in read_rows(path, labels, table):
        if y is None and labelled:
            raise Failure(
                f"{path}, line {line}: its labels are unknown; add --empty none if an empty cell means no label, "
                "or use feed, which omits such rows"
            )
        yield Item(f"line {line}", x, y, weight, ref)


def _decodable(lines: Iterator[str]) -> Iterator[str]:
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise Failure(f"the input is not UTF-8: {error}") from error


def _values(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """Yield one JSON value per line; if the first line is incomplete JSON, yield one value for the whole input."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            value = json.loads(line, parse_constant=_no_number)
        except ValueError as error:
            rest = list(lines)
            if number > 1 or not rest:
                raise Failure(f"{place}: not JSON: {error}") from error
            place, value = "the input", _document(line + "".join(rest))
        yield place, value


def _document(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise Failure(f"neither the whole input nor its first line is JSON: {error}") from error


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a finite number")


def _each(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value.keys() == {"examples"} and isinstance(value["examples"], list):
        value = value["examples"]
    if not isinstance(value, list):
        yield place, value
        return
    for number, one in enumerate(value):
        yield f"{place}, example {number}", one
