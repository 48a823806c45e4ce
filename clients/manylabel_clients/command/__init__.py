"""The `manylabel` command: a folder for each subject of its subcommands, and one for output."""

from manylabel_clients.command.app import main

__all__ = ["main"]
