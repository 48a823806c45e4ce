"""Names of models and datasets in URLs."""

import re

PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$"
ALLOWED = "must have 1 to 64 lower-case letters, digits, and dots, dashes or underscores between them"
"""Description of the pattern."""
_NAME = re.compile(PATTERN)


def valid(name: str) -> bool:
    """Return whether a string is a name: 1 to 64 lower-case letters and digits, with dots, dashes or underscores
    between them."""
    return _NAME.fullmatch(name) is not None
