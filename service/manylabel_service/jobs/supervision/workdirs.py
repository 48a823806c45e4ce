"""Directories of running tasks, and the removal of those left by dead processes."""

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = "lock"
NEW_SECONDS = 60.0
"""Age in seconds below which a directory may be about to be locked."""


@contextmanager
def task_directory(root: Path) -> Iterator[Path]:
    """Create a directory under a root, which is created if necessary; it is removed at the end."""
    root.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="task-", dir=root))
    try:
        with (directory / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases the lock however this process ends
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def remove_stale(root: Path) -> None:
    """Remove the directories of dead processes; others may remove them at the same time."""
    for directory in root.glob("task-*"):
        with suppress(OSError):
            _remove_if_stale(directory)


def _remove_if_stale(directory: Path) -> None:
    """Remove an unlocked directory; raises OSError if it is locked or does not exist."""
    if time.time() - directory.stat().st_mtime < NEW_SECONDS:
        return
    with (directory / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
