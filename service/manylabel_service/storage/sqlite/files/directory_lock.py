"""Lock of a data directory, which admits one process at a time."""

import fcntl
import os
from pathlib import Path
from types import TracebackType

from manylabel_service.errors import StoreLocked


class DirectoryLock:
    """Exclusive lock on ``<directory>/lock``, held within the context.

    The kernel releases it when the process ends, so no stale lock is left. The process id in the file is only for the
    error message of another process.

    Raises
    ------
    StoreLocked
        On entry, if another process, or another object in this process, holds the lock.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor = -1

    def __enter__(self) -> None:
        descriptor = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).strip()
            os.close(descriptor)
            raise StoreLocked(self._directory, int(holder) if holder.isdigit() else None) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._descriptor = descriptor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The file stays: removing it would let two openers lock two different files of the same name.
        os.close(self._descriptor)
