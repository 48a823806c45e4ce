"""Files that only their owner can read: server logs and models, for example, reveal training data."""

import os


def private(path: str, flags: int) -> int:
    """Open a file so that only the owner can read it if it is new; to pass to `open` as its opener."""
    return os.open(path, flags, 0o600)
