"""Processes of this machine that do a task for a server."""

from contextlib import suppress
from pathlib import Path

TRAINER = "manylabel-train"
READER = "manylabel-read"
FORK_SERVER = "manylabel-forks"
COMPILER = "manylabel-numba"


def processes(name: str, ancestor: int | None = None, directory: Path | None = None) -> set[int]:
    """Return the ids of the processes that have a name and have not ended.

    Parameters
    ----------
    name : that they gave themselves, as `TRAINER`.
    ancestor : only those that this process, or one that it started, has started.
    directory : only those that work in this directory, or in one within it.
    """
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "comm").read_text().strip() != name or _status(int(place.name))[0] == "Z":
                continue
            if directory is not None and not (place / "cwd").readlink().is_relative_to(directory.resolve()):
                continue
            if ancestor is None or ancestor in _ancestors(int(place.name)):
                found.add(int(place.name))
    return found


def _ancestors(pid: int) -> set[int]:
    found = set()
    while pid > 1:
        pid = int(_status(pid)[1])
        found.add(pid)
    return found


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its exit status was not read yet."""
    try:
        return _status(pid)[0] == "Z"
    except OSError:
        return True


def is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal."""
    return _status(pid)[0] == "T"


def _status(pid: int) -> list[str]:
    """State, parent, and more: the fields of /proc/PID/stat behind the name, which may have any characters."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
