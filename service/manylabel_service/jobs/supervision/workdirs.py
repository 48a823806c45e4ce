"""Directories of tasks under way, and the removal of those whose process died."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = "lock"
NEW_SECONDS = 60.0
"""A directory that is younger may be about to be locked."""


@contextmanager
def task_directory(root: Path) -> Iterator[Path]:
    """Make a new directory under a root, which is made if it is not there; it is removed at the end."""
    root.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="task-", dir=root))
    try:
        with (directory / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases it, however this process ends
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def remove_stale(root: Path) -> None:
    """Remove the directories of processes that have died; any of them may go at the same time by itself."""
    for directory in root.glob("task-*"):
        with suppress(OSError):
            _remove_if_stale(directory)


def _remove_if_stale(directory: Path) -> None:
    """Remove a directory that is not locked; raises OSError if it is locked, or gone."""
    if time.time() - directory.stat().st_mtime < NEW_SECONDS:
        return
    with (directory / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
