"""`manylabel replicas`: the processes that share the store of a server."""

import click

from manylabel_clients.command.options import remote
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import KnownVersions, Replica, Replicas


def _print(found: Replicas) -> None:
    click.echo(f"in use: format {found.format}, replay version {found.replay_version}")
    columns = ("replica", "role", "host", "release", "build", "formats", "replay_versions", "state", "models")
    print_table(columns, [_row(one) for one in found.replicas], words=8)


def _row(one: Replica) -> tuple[str, ...]:
    state = "withholds " + ", ".join(sorted(one.withheld)) if one.withheld else "ready" if one.ready else "not ready"
    known = (_known(one.formats), _known(one.replay_versions))
    return (one.id, one.role, f"{one.host}:{one.pid}", one.release, one.build, *known, state, str(len(one.models)))


def _known(versions: KnownVersions) -> str:
    return str(versions.last) if versions.first == versions.last else f"{versions.first}-{versions.last}"


@remote(_print)
def replicas(client: Client) -> Replicas:
    """List the processes that share the store of a server, with their releases and models."""
    return client.replicas()
