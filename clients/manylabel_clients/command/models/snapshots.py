"""`manylabel snapshots`, `rollback` and `log`: stored states, the return to an earlier state, and the log."""

import json
from typing import Annotated

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.options import AsJson, ModelName, Yes, confirm, remote
from manylabel_clients.command.output.tables import listing
from manylabel_clients.command.output.text import human_size, print_as, short_time
from manylabel_clients.http.client import Client

MAX_ENTRIES = 10_000
"""Entries per request, the maximum of the server."""


_print = listing(
    {
        "position": "position",
        "created": lambda each: short_time(each.created),
        "size": lambda each: human_size(each.bytes),
        "stays": lambda each: "for a rollback" if each.pinned else "",
    },
    words=4,
)


@remote()
def snapshots(
    client: Client,
    model: ModelName,
    take: Annotated[bool, Option(help="Take a snapshot of the current state.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the snapshots of a model, newest first, or take one."""
    handle = client.model(model)
    if take:
        print_as(as_json, handle.take_snapshot(), lambda taken: click.echo(f"snapshot taken at {taken.position}"))
    else:
        print_as(as_json, handle.snapshots(), _print)


@remote()
def rollback(
    client: Client,
    model: ModelName,
    snapshot: Annotated[str | None, Argument(metavar="SNAPSHOT", help="Position of a snapshot.")] = None,
    at: Annotated[
        str | None,
        Option(metavar="TIME|POSITION", help="Instead of a snapshot: a time with an offset, or a position of the log."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Return the model to a snapshot, or to any time or position; later updates are lost.

    Example: `manylabel rollback tags --at 2026-11-27T10:03:00Z`
    """
    if (snapshot is None) == (at is None):
        raise click.BadParameter("give either a snapshot or --at", param_hint="--at")
    to = snapshot if at is None else at
    assert to is not None
    confirm(f"Return {model} to {to}, and lose everything learnt since?", yes)
    done = client.model(model).rollback(to)
    print_as(
        as_json,
        done,
        lambda done: click.echo(f"{model} is back at {done.rolled_back_to}: {done.updates:,} examples learnt"),
    )


@remote()
def log(
    client: Client,
    model: ModelName,
    start: Annotated[
        str | None, Option("--from", metavar="TIME|POSITION", help="Entries after this position, or from this time on.")
    ] = None,
    to: Annotated[
        str | None, Option(metavar="TIME|POSITION", help="Entries up to and including this position or time.")
    ] = None,
) -> None:
    """Write the log of a model to the standard output, a line of JSON for each entry, the earliest first.

    Example: `manylabel log tags --from 2026-11-27T00:00:00Z > tuesday.ndjson`
    """
    handle = client.model(model)
    while entries := handle.log(start, to, MAX_ENTRIES):
        for entry in entries:
            click.echo(json.dumps(entry, ensure_ascii=False))
        start = entries[-1]["position"]
