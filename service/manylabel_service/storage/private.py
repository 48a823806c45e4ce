"""Restriction of the data directory to the user of the process."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import structlog

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

log = structlog.get_logger()


def private_directory(path: Path) -> None:
    """Create a directory that only this user can enter, or restrict an existing one; raises OSError."""
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    make_private(path)


def make_private(path: Path) -> None:
    """Remove the access of other users to a directory or a file, and log it.

    If the path belongs to another user, such as the root of a Kubernetes volume, or is on a file system without modes,
    its mode stays, and the server logs a warning.
    """
    found = path.stat()
    if not found.st_mode & _OTHERS:
        return
    if found.st_uid == os.geteuid():
        with suppress(OSError):  # a file system without modes
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    mode, changed = f"{stat.S_IMODE(found.st_mode):04o}", not path.stat().st_mode & _OTHERS
    if changed:
        log.warning("made_private", path=str(path), mode=mode, action="other users of this machine have no access now")
    else:
        action = "set data_dir to a directory below it: the server creates it with mode 0700"
        log.warning("open_to_other_users", path=str(path), mode=mode, owner=found.st_uid, action=action)
