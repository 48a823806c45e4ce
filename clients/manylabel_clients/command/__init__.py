"""The `manylabel` command: a folder for each subject of its subcommands, and one for what they print."""

from manylabel_clients.command.app import main

__all__ = ["main"]
