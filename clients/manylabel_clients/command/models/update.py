"""`manylabel update`: examples with their true labels."""

import uuid
from collections.abc import Iterable
from typing import Annotated

import typer

from manylabel_clients.command.data.files import Ignore, LabelColumns, Separator, TableOptions, Tags
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.inputs import Item, chunks, placed, read_items
from manylabel_clients.command.options import (
    DEFAULT_URL,
    PATIENT,
    AsJson,
    BatchSize,
    Input,
    ModelName,
    Url,
    connect,
)
from manylabel_clients.command.output.text import print_as
from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.resources.predictions import Updated


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(update)


def update(
    model: ModelName,
    source: Input = "-",
    labels: LabelColumns = None,
    tags: Tags = None,
    separator: Separator = " ",
    ignore: Ignore = None,
    batch_size: BatchSize = 64,
    key: Annotated[
        str | None,
        typer.Option(help="Idempotency key: the same command with the same key and input is learnt once."),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Learn examples with their true labels.

    Example: `manylabel update tags '{"x": {"word=cat": 1}, "y": ["pets"]}'`
    """
    with connect(url, PATIENT) as client:
        items = read_items(source, True, labels, TableOptions(tags, separator, ignore))
        learnt, receipt = _learn(client.model(model), items, batch_size, key or uuid.uuid4().hex)
    print_as(as_json, receipt, lambda receipt: _print(model, learnt, receipt))


def _learn(model: Model, items: Iterable[Item], batch_size: int, key: str) -> tuple[int, Updated]:
    learnt = 0
    receipt = None
    try:
        for chunk in chunks(items, batch_size):
            with placed(chunk):
                examples = [(item.x, item.y) for item in chunk]
                receipt = model.update_many(examples, batch_size=batch_size, key=f"{key}-{learnt}")
            learnt += len(chunk)
    except (Failure, ManyLabelError) as error:
        if learnt:
            error.add_note(f"{learnt:,} examples before were learnt; --key {key} learns only the others")
        raise
    if receipt is None:
        raise Failure("there are no examples in the input")
    return learnt, receipt


def _print(model: str, learnt: int, receipt: Updated) -> None:
    what = "example" if learnt == 1 else "examples"
    how = " (had been learnt before)" if receipt.replayed else ""
    typer.echo(
        f"{learnt:,} {what} learnt{how}; {model} has learnt {receipt.updates:,} "
        f"(position {receipt.position}, durability {receipt.durability})"
    )
