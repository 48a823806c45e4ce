"""`manylabel replicas`: the processes that share the store of a server."""

import click

from manylabel_clients.command.options import remote
from manylabel_clients.command.output.tables import listing
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import KnownVersions, Replica, Replicas


def _state(one: Replica) -> str:
    return "withholds " + ", ".join(sorted(one.withheld)) if one.withheld else "ready" if one.ready else "not ready"


def _known(versions: KnownVersions) -> str:
    return str(versions.last) if versions.first == versions.last else f"{versions.first}-{versions.last}"


_print_all = listing(
    {
        "replica": "id",
        "role": "role",
        "host": lambda one: f"{one.host}:{one.pid}",
        "release": "release",
        "build": "build",
        "formats": lambda one: _known(one.formats),
        "replay_versions": lambda one: _known(one.replay_versions),
        "state": _state,
        "models": lambda one: len(one.models),
    },
    words=8,
)


def _print(found: Replicas) -> None:
    click.echo(f"in use: format {found.format}, replay version {found.replay_version}")
    _print_all(found.replicas)


@remote(_print)
def replicas(client: Client) -> Replicas:
    """List the processes that share the store of a server, with their releases and models."""
    return client.replicas()
