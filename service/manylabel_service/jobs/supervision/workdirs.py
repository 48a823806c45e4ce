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
def own_place(root: Path) -> Iterator[Path]:
    """A new directory under a root, which is made if it is not there; removed at the end."""
    root.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="task-", dir=root))
    try:
        with (place / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # let go of by the system, however this process ends
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def sweep_places(root: Path) -> None:
    """Remove the directories of processes that have died; any of them may go at the same time by itself."""
    for place in root.glob("task-*"):
        with suppress(OSError):
            _remove_if_left(place)


def _remove_if_left(place: Path) -> None:
    """Raises OSError if somebody works there, or it is gone."""
    if time.time() - place.stat().st_mtime < NEW_SECONDS:
        return
    with (place / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
