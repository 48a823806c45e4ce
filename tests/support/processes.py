"""Processes of this machine that run a module of ours."""

from contextlib import suppress
from pathlib import Path
from types import ModuleType


def processes(module: ModuleType, parent: int | None = None, directory: Path | None = None) -> set[int]:
    """Return the ids of the processes that run a module and have not ended.

    Parameters
    ----------
    module : as in ``python -m module``.
    parent : only those that this process has started.
    directory : only those with this directory, or a path in it, in their command line.
    """
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (place / "cmdline").read_bytes()
            if module.__name__.encode() not in command.split(b"\0"):
                continue
            if directory is not None and bytes(directory) not in command:
                continue
            state, ppid, *_ = _status(int(place.name))
            if state != "Z" and parent in (None, int(ppid)):
                found.add(int(place.name))
    return found


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, be it that nobody has asked for its exit status yet."""
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
