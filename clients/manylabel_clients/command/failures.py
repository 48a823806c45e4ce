"""What ends a command other than success."""

REFUSED = 1
"""The server refused, or something went wrong here. (2 is wrong usage.)"""
UNREACHABLE = 3
"""No server is there, or it is not ready."""


class Failure(Exception):
    """The command cannot go on; the message is all there is to say."""
