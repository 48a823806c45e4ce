"""Failures of a command, and its exit status."""

REFUSED = 1
"""Exit status when the server refused, or something went wrong here. (2 is wrong usage.)"""
UNREACHABLE = 3
"""Exit status when no server is there, or it is not ready."""


class Failure(Exception):
    """Error that ends the command with its message, without a traceback."""
