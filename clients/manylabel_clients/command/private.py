"""Files that their owner alone can read: a server's log, models, and all else that tells what was learnt."""

import os


def private(path: str, flags: int) -> int:
    """Open a file, as an opener of `open`; a new file can be read by its owner alone."""
    return os.open(path, flags, 0o600)
