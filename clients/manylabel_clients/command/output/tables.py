"""Tables and facts for people, at most as wide as their terminal."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import click

from manylabel_clients.command.output.terminal import display_width, padded, printable, terminal_width, wrapped

GAPS = ("  ", " ")
"""Separators of columns: the usual one, and a narrower one for wide tables."""
INDENT = 12
"""Column at which the values of facts begin."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> None:
    """Print a table whose first `n_words` columns are words and whose other columns are numbers.

    In a narrow terminal, cells take several lines, except in the first column, which people copy. If words do not fit,
    each row is printed as facts.
    """
    listed = [[printable(cell) for cell in row] for row in rows]
    cells = [list(columns), *listed]
    width = terminal_width()
    most = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    least = [max(map(_longest_word, column)) for column in zip(*cells, strict=True)]
    least[0] = most[0]
    for gap in GAPS:
        room = sum(most) if width is None else width - len(gap) * (len(columns) - 1)
        if sum(least) <= room:
            return _print_cells(cells, _shared(least, most, room), gap, words)
    return _print_rows(columns, listed, width)


def listing(
    columns: Mapping[str, str | Callable[[Any], object]], words: int = 1, empty: str | None = None
) -> Callable[[Sequence[Any]], None]:
    """Return a function that prints objects as a table.

    Parameters
    ----------
    columns : for each title, the name of an attribute, or a function that returns the cell of an object.
    words : number of columns that are words.
    empty : text to print if there are no objects; None for an empty table.
    """

    def show(found: Sequence[Any]) -> None:
        if not found and empty is not None:
            return click.echo(empty)
        read = [attrgetter(of) if isinstance(of, str) else of for of in columns.values()]
        return print_table(tuple(columns), [[cell(of(one), " ") for of in read] for one in found], words=words)

    return show


def cell(value: object, separator: str = ", ") -> str:
    """Return the text of a value: a number with separators of thousands, a list joined by commas, or nothing for
    None."""
    if isinstance(value, list | tuple):
        return separator.join(value)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def print_text(text: str, indent: str = "") -> None:
    """Print a wrapped sentence."""
    width = terminal_width()
    for line in [text] if width is None else wrapped(text, max(1, width - len(indent))):
        click.echo(indent + line)


def print_facts(facts: Mapping[str, object]) -> None:
    """Print each fact that has a value; long values continue on indented lines."""
    shown = {name: text for name, fact in facts.items() if (text := cell(fact))}
    indent = max((INDENT, *(2 + len(name) for name in shown)))
    for name, text in shown.items():
        _print_fact(name, text, indent, terminal_width())


def _longest_word(cell: str) -> int:
    return max(map(display_width, cell.split(" ")))


def _shared(least: list[int], most: list[int], room: int) -> list[int]:
    """Return the widths of the columns; if the table is too wide, the widest columns shrink."""
    widths = list(most)
    while sum(widths) > room:
        spare = [width - lowest for width, lowest in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    return widths


def _print_cells(cells: list[list[str]], widths: list[int], gap: str, words: int) -> None:
    click.echo()
    for number, row in enumerate(cells):
        for line in _lines(row, widths, gap, words):
            click.echo(line)
        if number == 0:
            click.echo("─" * (sum(widths) + len(gap) * (len(widths) - 1)))


def _lines(row: list[str], widths: list[int], gap: str, words: int) -> Iterator[str]:
    """Yield the lines of one row."""
    parts = [list(wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, parts))):
        line = (part[number] if number < len(part) else "" for part in parts)
        placed = (padded(cell, widths[column], column >= words) for column, cell in enumerate(line))
        yield gap.join(placed).rstrip()


def _print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> None:
    """Print each row of a table as facts, one for each cell."""
    indent = 2 + max(map(len, columns))
    for row in rows:
        click.echo()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                _print_fact(column, cell, indent, width)


def _print_fact(name: str, fact: str, indent: int, width: int | None) -> None:
    fact = printable(fact)
    lines = [fact] if width is None else list(wrapped(fact, max(1, width - indent)))
    for number, line in enumerate(lines):
        room = indent if width is None else min(indent, max(2, width - display_width(line)))
        if number == 0 and room < indent:  # too wide to fit beside the name: the name gets its own line
            click.echo(name)
            name = ""
        click.echo(f"{'' if number else name:<{room}}{line}")
