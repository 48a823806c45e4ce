"""`manylabel export` and `import`: models and data sets of a store to an archive, and back into any store."""

import os
import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    # As with `serve`, everything after them belongs to the program of the server, which knows its stores.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.command("export", context_settings=settings, add_help_option=False)(export)
    app.command("import", context_settings=settings, add_help_option=False)(import_)


def export(context: typer.Context) -> None:
    """Write the models and data sets of a store to an archive; `manylabel export --help` lists its options."""
    _become("export", context.args)


def import_(context: typer.Context) -> None:
    """Make models and data sets of an archive in a store; `manylabel import --help` lists its options."""
    _become("import", context.args)


def _become(direction: str, flags: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-P", "-m", "manylabel_service.transfer", direction, *flags])
