"""`manylabel serve`: become the server."""

import os
import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    # Everything after `serve` belongs to the server, --help included: its settings are its own.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.command(context_settings=settings, add_help_option=False)(serve)


def serve(context: typer.Context) -> None:
    """Run the server in this process; `manylabel serve --help` lists its settings."""
    os.execv(sys.executable, server_command(context.args))


def server_command(flags: list[str]) -> list[str]:
    """Return the command line of a server."""
    # -P: files in the current directory must not shadow modules, as they do not for `manylabel` itself.
    return [sys.executable, "-P", "-m", "manylabel_service", *flags]
