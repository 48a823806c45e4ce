"""`manylabel backup` and `restore`: write a store to an archive, and restore one from it."""

import click

from manylabel_clients.command.declaring import Commands
from manylabel_clients.command.server.program import become

MODULE = "manylabel_service.archive"


def register(app: Commands) -> None:
    """Add the commands."""
    # Like `serve`, both pass all further arguments to the server's program.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.add(backup, "backup", context_settings=settings, add_help_option=False)
    app.add(restore, "restore", context_settings=settings, add_help_option=False)


def backup(context: click.Context) -> None:
    """Write the new data of a store to an archive; `manylabel backup --help` lists its options."""
    become(MODULE, ["backup", *context.args])


def restore(context: click.Context) -> None:
    """Restore a store from an archive; `manylabel restore --help` lists its options."""
    become(MODULE, ["restore", *context.args])
