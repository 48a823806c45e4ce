"""Failures of a command, and its exit status."""

REFUSED = 1
"""Exit status after a rejection by the server, or another failure. (2 means wrong usage.)"""
UNREACHABLE = 3
"""Exit status if no server responds, or the server is not ready."""


class Failure(Exception):
    """Error that ends the command with its message, without a traceback."""
