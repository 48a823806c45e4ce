"""`manylabel snapshots` and `rollback`: states of a model that stay, and the way back to one."""

from typing import Annotated

import click

from manylabel_clients.command.declaring import Argument, Commands, Option
from manylabel_clients.command.options import DEFAULT_URL, ApiKeyFile, AsJson, ModelName, Url, Yes, confirm, connect
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import human_size, print_as, short_time
from manylabel_clients.http.resources.snapshots import Snapshot


def register(app: Commands) -> None:
    """Add the commands."""
    app.add(snapshots)
    app.add(rollback)


def snapshots(
    model: ModelName,
    take: Annotated[bool, Option("--take", help="Keep the present state until it is deleted.")] = False,
    name: Annotated[str | None, Option(help="With --take: names the snapshot.")] = None,
    note: Annotated[str | None, Option(help="With --take: says what it is for.")] = None,
    delete: Annotated[
        str | None,
        Option(metavar="SNAPSHOT", help="Delete a manual snapshot, by its name or position."),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """List the snapshots of a model, the newest first; take one, or delete one.

    Example: `manylabel snapshots tags --take --name before-cleanup`
    """
    if take and delete is not None:
        raise click.BadParameter("either --take or --delete", param_hint="--delete")
    if not take and (name or note):
        raise click.BadParameter("only with --take", param_hint="--name" if name else "--note")
    with connect(url, api_key) as client:
        handle = client.model(model)
        if take:
            taken = handle.take_snapshot(name, note)
            print_as(as_json, taken, lambda taken: click.echo(f"kept the state at {taken.position}{_called(taken)}"))
        elif delete is not None:
            handle.delete_snapshot(delete)
            click.echo(f"deleted {delete}")
        else:
            print_as(as_json, handle.snapshots(), _print)


def rollback(
    model: ModelName,
    snapshot: Annotated[str, Argument(metavar="SNAPSHOT", help="Name or position of the snapshot.")],
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """Go back to a snapshot: the model forgets what it has learnt since."""
    confirm(f"Forget what {model} has learnt since {snapshot}?", yes)
    with connect(url, api_key) as client:
        done = client.model(model).rollback(snapshot)
    print_as(
        as_json,
        done,
        lambda done: click.echo(f"{model} is back at {done.rolled_back_to}: {done.updates:,} examples learnt"),
    )


def _print(found: list[Snapshot]) -> None:
    rows = [
        (each.name or "", each.position, short_time(each.created), human_size(each.bytes), _why(each), each.note or "")
        for each in found
    ]
    print_table(("name", "position", "created", "size", "stays", "note"), rows, words=6)


def _why(snapshot: Snapshot) -> str:
    """Return how long a snapshot stays."""
    if snapshot.manual:
        return "until deleted"
    return "for a rollback" if snapshot.pinned else ""


def _called(snapshot: Snapshot) -> str:
    return f" as {snapshot.name}" if snapshot.name else ""
