"""Files that only their owner can read, such as server logs and models, which reveal training data."""

import os


def private(path: str, flags: int) -> int:
    """Open a file, as an opener of `open`; only the owner can read a new file."""
    return os.open(path, flags, 0o600)
