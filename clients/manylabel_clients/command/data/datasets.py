"""`manylabel datasets`: list, add, show, delete."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import click

from manylabel_clients.command.data.files import (
    PLAIN,
    RowOptions,
    TrainingLabels,
    check_labelled,
    label_columns,
    readable,
)
from manylabel_clients.command.data.label_details import FILE_HELP, read_label_details
from manylabel_clients.command.declaring import Argument, Option, group
from manylabel_clients.command.options import AsJson, Yes, confirm, remote
from manylabel_clients.command.output.models import text_facts
from manylabel_clients.command.output.reports import print_report
from manylabel_clients.command.output.tables import listing, print_facts
from manylabel_clients.command.output.text import alternatives, human_size, print_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import FORMATS, DatasetInfo
from manylabel_clients.http.transport.upload import ReportBytes, format_of
from manylabel_clients.progress import ProgressBar

DatasetName = Annotated[str, Argument(metavar="NAME", help="Name of the dataset.")]


_print_all = listing(
    {
        "dataset": "name",
        "rows": "rows",
        "features": "features",
        "labels": "labels",
        "labels a row": lambda one: f"{one.cardinality:.2f}",
        "size": lambda one: human_size(one.bytes),
    },
    empty="no datasets; manylabel datasets add NAME FILE adds one",
)


def _print(found: DatasetInfo) -> None:
    facts = {
        "dataset": found.name,
        "format": found.format,
        "rows": found.rows,
        "splits": _counted(found.splits) or "none",
        "features": found.features,
        "views": _counted(found.views),
        "labels": f"{found.labels:,} ({found.cardinality:.2f} a row, density {found.density:.4f})",
        "text": text_facts(found.text) if found.text is not None else "none: numbers only",
        "weights": "of rows, in measures too" if found.weighted else "none: each row counts once",
        "size": human_size(found.bytes),
        "checksum": found.checksum,
        "created": found.created,
    }
    print_facts(facts)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in counts.items())


@remote(_print_all)
def list_datasets(client: Client) -> list[DatasetInfo]:
    """List the datasets of a server; add, show or delete one."""
    return client.datasets()


@remote()
def add(
    client: Client,
    name: DatasetName,
    file: Annotated[Path, Argument(metavar="FILE", exists=True, dir_okay=False, help="Labelled examples.")],
    format: Annotated[
        str | None, Option(help=f"{alternatives(FORMATS)}. Default: by the ending of the file's name.")
    ] = None,
    labels: TrainingLabels = None,
    table: RowOptions = PLAIN,
    train_rows: Annotated[
        int | None, Option(min=1, help="Number of first rows in the split train; the other rows are the split test.")
    ] = None,
    label_details: Annotated[
        Path | None, Option(exists=True, dir_okay=False, help=f"Titles, descriptions and URIs of labels. {FILE_HELP}")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Upload a labelled file for training.

    Example: `manylabel datasets add songs songs.arff --labels songs.xml`, and of records
    `manylabel datasets add packages packages.jsonl.gz --labels tags --text title --text body`
    """
    if format is None:
        with readable(file):
            format = format_of(file)
    check_labelled(file, labels, table, format)
    columns = None if labels is None else label_columns(labels)
    described = None if label_details is None else read_label_details(label_details)
    with _bar(file.stat().st_size, visible=not as_json) as report:
        options: dict[str, Any] = {**table.given(), "label_details": described}
        added = client.upload_dataset(
            name, file, format=format, labels=columns, train_rows=train_rows, report=report, **options
        )
    told = f"added {name}: {added.rows:,} rows, {added.features:,} features, {added.labels:,} labels"
    told += ", with weights" if added.weighted else ""
    if as_json:
        return print_json(added)
    click.echo(told)
    details = client.dataset(name, details=True).details or {}
    if "report" in details:
        print_report(details["report"])
    return None


@remote(_print)
def show(client: Client, name: DatasetName) -> DatasetInfo:
    """Show the details of a dataset."""
    return client.dataset(name, details=True)


@remote()
def delete(client: Client, name: DatasetName, yes: Yes = False) -> None:
    """Delete a dataset. Models trained on it stay."""
    confirm(f"Delete {name}?", yes)
    client.delete_dataset(name)
    click.echo(f"deleted {name}")


@contextmanager
def _bar(total_bytes: int, visible: bool) -> Iterator[ReportBytes]:
    with ProgressBar(visible) as bar:
        of_all = f"of {human_size(total_bytes)} sent"
        yield lambda done: bar.draw(done / max(1, total_bytes), f"{human_size(done)} {of_all}")


datasets = group("datasets", list_datasets, add, show, delete)
