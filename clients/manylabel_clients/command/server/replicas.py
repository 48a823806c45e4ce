"""`manylabel replicas`: the processes that share the store of a server."""

import click

from manylabel_clients.command.options import remote
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import Replica, Replicas


def _print(found: Replicas) -> None:
    click.echo(f"the store has format {found.format}")
    columns = ("replica", "role", "host", "release", "build", "supports", "state", "models")
    print_table(columns, [_row(one) for one in found.replicas], words=8)


def _row(one: Replica) -> tuple[str, ...]:
    state = "withholds " + ", ".join(sorted(one.withheld)) if one.withheld else "ready" if one.ready else "not ready"
    place = f"{one.host}:{one.pid}"
    return (one.id, one.role, place, one.release, one.build, str(one.supports), state, str(len(one.models)))


@remote(_print)
def replicas(client: Client) -> Replicas:
    """List the processes that share the store of a server, with their releases and models."""
    return client.replicas()
