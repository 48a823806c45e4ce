"""Disk space reserved for writes that must succeed on a full disk."""

import os
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 4 << 20
"""Size of the reserve in bytes: enough for some hundred deletions and revocations."""

LEAST_BYTES = 64 << 10
"""Minimum size in bytes of a reserve on a nearly full disk."""


class Reserve:
    """File that reserves disk space until an urgent write needs it. Blocking."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def release(self) -> bool:
        """Release the reserved space; return whether any was reserved."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def fill(self) -> None:
        """Reserve the space again, as far as the disk allows."""
        size_bytes = RESERVE_BYTES
        while size_bytes >= LEAST_BYTES and not self._allocate(size_bytes):
            size_bytes //= 2

    def _allocate(self, size_bytes: int) -> bool:
        """Grow the file to a size; return False, without the file, if that failed."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, size_bytes)
                else:  # macOS
                    os.pwrite(descriptor, bytes(size_bytes), 0)
            finally:
                os.close(descriptor)
        except OSError:
            with suppress(OSError):
                self._path.unlink()
            return False
        return True
