"""Commands that are programs of the server: `serve`, `worker`, `backup`, `restore`, `move-blobs`,
`upgrade-store` and `keys init`.
"""

import os
import sys
from collections.abc import Callable
from typing import NoReturn

import click

from manylabel_clients.command.declaring import command
from manylabel_extras import require

SERVER = "manylabel_service"


def program(module: str, arguments: list[str]) -> list[str]:
    """Return the command line of a program; raises `MissingExtra` if the server is not installed."""
    require(module, "server")
    # -P: files in the current directory must not shadow modules, as they do not for `manylabel` itself.
    return [sys.executable, "-P", "-m", module, *arguments]


def become(module: str, *first: str) -> NoReturn:
    """Replace this process by a program of the server, with the arguments of the command."""
    os.execv(sys.executable, program(module, [*first, *click.get_current_context().args]))


def passing_on(function: Callable[[], object]) -> click.Command:
    """Make a command that passes all its arguments, including --help, to a program of the server."""
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return command(function, context_settings=settings, add_help_option=False)


@passing_on
def serve() -> None:
    """Run the server in this process; `manylabel serve --help` lists its settings."""
    become(SERVER)


@passing_on
def worker() -> None:
    """Run training jobs of servers over Redis; `manylabel worker --help` lists its settings."""
    become("manylabel_service.jobs.worker")


@passing_on
def backup() -> None:
    """Write the new data of a store to an archive; `manylabel backup --help` lists its options."""
    become("manylabel_service.archive", "backup")


@passing_on
def restore() -> None:
    """Restore a store from an archive; `manylabel restore --help` lists its options."""
    become("manylabel_service.archive", "restore")


@passing_on
def move_blobs() -> None:
    """Move snapshots, histories, datasets and versions out of a store, or back; `manylabel move-blobs --help`."""
    become("manylabel_service.move_blobs")


@passing_on
def upgrade_store() -> None:
    """Raise the format number of a store when all its processes are upgraded; `manylabel upgrade-store --help`."""
    become("manylabel_service.models")


@passing_on
def init() -> None:
    """Create the first key of a store, with full access; `manylabel keys init --help` lists its options."""
    become("manylabel_service.access", "init")
