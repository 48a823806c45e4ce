"""`manylabel export` and `import`: copy models and datasets of a store to an archive, and into any store."""

import click

from manylabel_clients.command.declaring import Commands
from manylabel_clients.command.server.program import become

MODULE = "manylabel_service.transfer"


def register(app: Commands) -> None:
    """Add the commands."""
    # Like `serve`, it passes all further arguments to the program of the server, which knows its stores.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.add(export, "export", context_settings=settings, add_help_option=False)
    app.add(import_, "import", context_settings=settings, add_help_option=False)


def export(context: click.Context) -> None:
    """Write the models and datasets of a store to an archive; `manylabel export --help` lists its options."""
    become(MODULE, ["export", *context.args])


def import_(context: click.Context) -> None:
    """Create the models and datasets of an archive in a store; `manylabel import --help` lists its options."""
    become(MODULE, ["import", *context.args])
