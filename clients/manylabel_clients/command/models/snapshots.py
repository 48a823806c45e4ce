"""`manylabel snapshots` and `rollback`: states of a model that stay, and the way back to one."""

from typing import Annotated

import typer

from manylabel_clients.command.options import DEFAULT_URL, ApiKeyFile, AsJson, ModelName, Url, Yes, confirm, connect
from manylabel_clients.command.output.text import human_size, print_as, print_table
from manylabel_clients.http.resources.snapshots import Snapshot


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(snapshots)
    app.command()(rollback)


def snapshots(
    model: ModelName,
    take: Annotated[bool, typer.Option("--take", help="Keep the present state until it is deleted.")] = False,
    name: Annotated[str | None, typer.Option(help="With --take: names the snapshot.")] = None,
    note: Annotated[str | None, typer.Option(help="With --take: says what it is for.")] = None,
    delete: Annotated[
        str | None,
        typer.Option(metavar="SNAPSHOT", help="Delete one that somebody asked for, by its name or position."),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """List the snapshots of a model, the newest first; take one, or delete one.

    Example: `manylabel snapshots tags --take --name before-cleanup`
    """
    if take and delete is not None:
        raise typer.BadParameter("either --take or --delete", param_hint="--delete")
    if not take and (name or note):
        raise typer.BadParameter("only with --take", param_hint="--name" if name else "--note")
    with connect(url, api_key) as client:
        handle = client.model(model)
        if take:
            taken = handle.take_snapshot(name, note)
            print_as(as_json, taken, lambda taken: typer.echo(f"kept the state at {taken.position}{_called(taken)}"))
        elif delete is not None:
            handle.delete_snapshot(delete)
            typer.echo(f"deleted {delete}")
        else:
            print_as(as_json, handle.snapshots(), _print)


def rollback(
    model: ModelName,
    snapshot: Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Name or position of the snapshot.")],
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
        lambda done: typer.echo(f"{model} is back at {done.rolled_back_to}: {done.updates:,} examples learnt"),
    )


def _print(found: list[Snapshot]) -> None:
    rows = [
        (each.name or "", each.position, each.created, human_size(each.bytes), _why(each), each.note or "")
        for each in found
    ]
    print_table(("name", "position", "created", "size", "stays", "note"), rows, words=6)


def _why(snapshot: Snapshot) -> str:
    """Return how long a snapshot stays."""
    if snapshot.kept:
        return "until deleted"
    return "for a rollback" if snapshot.pinned else ""


def _called(snapshot: Snapshot) -> str:
    return f" as {snapshot.name}" if snapshot.name else ""
