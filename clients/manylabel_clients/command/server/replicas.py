"""`manylabel replicas`: the processes that share the store of a server."""

import click

from manylabel_clients.command.options import remote
from manylabel_clients.command.output.tables import listing
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import Replica, Replicas


def _state(one: Replica) -> str:
    return "withholds " + ", ".join(sorted(one.withheld)) if one.withheld else "ready" if one.ready else "not ready"


_print_all = listing(
    {
        "replica": "id",
        "role": "role",
        "host": lambda one: f"{one.host}:{one.pid}",
        "release": "release",
        "build": "build",
        "supports": "supports",
        "state": _state,
        "models": lambda one: len(one.models),
    },
    words=8,
)


def _print(found: Replicas) -> None:
    click.echo(f"the store has format {found.format}")
    _print_all(found.replicas)


@remote(_print)
def replicas(client: Client) -> Replicas:
    """List the processes that share the store of a server, with their releases and models."""
    return client.replicas()
