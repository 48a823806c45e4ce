"""Output of reports of how a file is read."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click

from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.terminal import printable
from manylabel_clients.command.output.text import MAX_LABELS, count_of

MAX_COLUMNS = 50
"""Maximum number of columns shown to a person; JSON has all."""
MAX_CHARACTERS = 200
"""Maximum number of characters of a row that is shown."""


def note_warnings(warnings: Iterable[str]) -> None:
    """Print the warnings about a file to standard error, before anything is learnt."""
    for warning in warnings:
        click.echo(printable(f"note: {warning}"), err=True)


def print_report(report: Mapping[str, Any]) -> None:
    """Print a report of how a file is read."""
    known = report["rows"] - report["unlabelled"]
    click.echo(f"{count_of(report['rows'], 'row')}, {known:,} with known labels")
    for reason, count in report["omitted"].items():
        click.echo(f"{count_of(count, 'row')} omitted: {reason}")
    if columns := report["columns"]:
        names = ("column", "kind", "values", "missing", "odd", "example")
        print_table(names, [_row(column) for column in columns[:MAX_COLUMNS]])
        if len(columns) > MAX_COLUMNS:
            click.echo(f"and {count_of(len(columns) - MAX_COLUMNS, 'more column', 'more columns')}")
    for column in columns:
        for odd in column["odd_cells"][:3]:
            click.echo(printable(f"odd: line {odd['line']}, {column['name']}: {odd['cell']}"))
    if written := ", ".join(f"{name} {value}" for name, value in report["settings"].items()):
        click.echo(printable(written))
    labels = sorted(report["labels"].items(), key=lambda one: -one[1])
    listed = ", ".join(f"{label} {count:,}" for label, count in labels[:MAX_LABELS])
    more = f" and {len(labels) - MAX_LABELS:,} more" if len(labels) > MAX_LABELS else ""
    click.echo(printable(f"{count_of(len(labels), 'label')}: {listed}{more}"))
    for row in report["first"]:
        text = json.dumps(row, ensure_ascii=False)
        click.echo(printable(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."))
    for warning in report["warnings"]:
        click.echo(printable(f"note: {warning}"))


def _row(column: Mapping[str, Any]) -> tuple[str, ...]:
    kind = f"{column['kind']} ({column['note']})" if column["note"] else column["kind"]
    counts = (f"{column[name]:,}" for name in ("values", "missing", "odd"))
    return (column["name"], kind, *counts, column["example"])
