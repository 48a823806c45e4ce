"""`manylabel worker`: run a training worker over Redis."""

import click

from manylabel_clients.command.declaring import Commands
from manylabel_clients.command.server.program import become


def register(app: Commands) -> None:
    """Add the command."""
    # Like `serve`, it passes all further arguments to the worker.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.add(worker, context_settings=settings, add_help_option=False)


def worker(context: click.Context) -> None:
    """Run training jobs of servers over Redis; `manylabel worker --help` lists its settings."""
    become("manylabel_service.jobs.worker", context.args)
