"""Tables and facts for people, JSON for scripts."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import typer

T = TypeVar("T")

MAX_WIDTH = 10_000
"""No table is wider."""

MAX_LABELS = 20
"""Most labels shown to a person; JSON has all."""


def as_json(value: Any) -> str:
    """Return a value, or a dataclass, as JSON on one line."""
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value, dict_factory=_as_document)
    return json.dumps(value, ensure_ascii=False)


def _as_document(facts: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return fields by the names that they have in JSON; `for_` is named so because `for` is a word of Python's."""
    return {name.rstrip("_"): value for name, value in facts}


def print_json(value: Any) -> None:
    """Print one line of JSON, at once: something may wait for it at the other end of a pipe."""
    typer.echo(as_json(value))
    sys.stdout.flush()


def print_as(as_json: bool, found: T, show: Callable[[T], object]) -> None:
    """Print what was found as JSON, of a list one line for each, or show it to a person."""
    if not as_json:
        show(found)
        return
    for one in found if isinstance(found, list) else [found]:
        print_json(one)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, words: int = 1
) -> None:
    """Print a table whose first columns are words, so many, and whose others are numbers.

    Where a terminal is too narrow for it to keep words in one piece, each row is printed as facts.
    """
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console, listed = Console(), [tuple(row) for row in rows]
    table = Table(title=title and escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        # The first column names what the row is about, and is copied from here: it stays in one piece.
        table.add_column(column, justify="left" if number < words else "right", no_wrap=number == 0)
    for row in listed:
        table.add_row(*map(escape, row))
    least, most = table.__rich_measure__(console, console.options.update(max_width=MAX_WIDTH))
    if not console.is_terminal:  # a file, or another program
        console = Console(width=most)
    elif least > console.width:
        return _print_rows(columns, listed, title)
    return console.print(table)


def _print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None) -> None:
    """Print the rows of a table one below the other, a line for each cell."""
    if title is not None:
        typer.echo(title)
    width = 2 + max(map(len, columns))
    for row in rows:
        typer.echo()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                typer.echo(f"{column:<{width}}{cell}")


def print_facts(facts: Mapping[str, str]) -> None:
    """Print a line for each fact that there is."""
    for name, fact in facts.items():
        if fact:
            typer.echo(f"{name:<12}{fact}")


def human_size(size_bytes: int) -> str:
    """Return a number of bytes in the unit that leaves few digits."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
