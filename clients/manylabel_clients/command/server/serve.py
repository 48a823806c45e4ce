"""`manylabel serve`: run the server."""

import click

from manylabel_clients.command.declaring import Commands
from manylabel_clients.command.server.program import become

MODULE = "manylabel_service"


def register(app: Commands) -> None:
    """Add the command."""
    # All arguments after `serve`, including --help, are passed to the server.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.add(serve, context_settings=settings, add_help_option=False)


def serve(context: click.Context) -> None:
    """Run the server in this process; `manylabel serve --help` lists its settings."""
    become(MODULE, context.args)
