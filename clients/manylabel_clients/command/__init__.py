"""The `manylabel` command."""

from manylabel_clients.command.app import main

__all__ = ["main"]
