"""`manylabel worker`: become a worker that trains for servers over Redis."""

import os
import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    # As with `serve`, everything after it belongs to the worker.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.command(context_settings=settings, add_help_option=False)(worker)


def worker(context: typer.Context) -> None:
    """Train for servers over Redis, in this process; `manylabel worker --help` lists its settings."""
    os.execv(sys.executable, [sys.executable, "-P", "-m", "manylabel_service.jobs.worker", *context.args])
