"""Disk quota of running uploads in the data directory; an idle upload yields to others."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from manylabel_service.errors import NotReady

MAX_UPLOADS = 32
"""Maximum number of running uploads; each has some open files."""
PORTION_BYTES = 2**18
"""Bytes after which an upload counts as having made progress."""
STILL_SECONDS = 2.0
"""Seconds without progress after which an upload counts as stalled."""


class Upload:
    """Running upload.

    Attributes
    ----------
    n_bytes : bytes on the disk.
    moved_at : time in seconds of its last progress.
    release : callback when other uploads need the capacity; None once the upload is complete.
    gave_way : whether the callback was called.
    """

    def __init__(self, now: float) -> None:
        self.n_bytes = 0
        self.moved_at = now
        self.release: Callable[[], None] | None = None
        self.gave_way = False


class UploadSlots:
    """Limits on the number and the total bytes of running uploads.

    Parameters
    ----------
    max_bytes : maximum bytes of all uploads on the disk.
    clock : clock in seconds.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._uploads: set[Upload] = set()

    @contextmanager
    def upload(self) -> Iterator[Upload]:
        """Reserve capacity for an upload; raises NotReady if it is exhausted and no other upload is idle."""
        if len(self._uploads) >= MAX_UPLOADS and not self._make_room():
            raise NotReady("the server has reached its limit of concurrent uploads")
        upload = Upload(self._clock())
        self._uploads.add(upload)
        try:
            yield upload
        finally:
            self._uploads.discard(upload)

    def add(self, upload: Upload, n_bytes: int) -> None:
        """Count received bytes; raises NotReady if there is no capacity and no other upload is idle."""
        while sum(one.n_bytes for one in self._uploads) + n_bytes > self._max_bytes:
            if not self._make_room(besides=upload):
                raise NotReady("the running uploads use all disk space that is reserved for uploads")
        if (upload.n_bytes + n_bytes) // PORTION_BYTES > upload.n_bytes // PORTION_BYTES:
            upload.moved_at = self._clock()
        upload.n_bytes += n_bytes

    def _make_room(self, besides: Upload | None = None) -> bool:
        """End the upload that has been idle the longest; return whether there was one."""
        before = self._clock() - STILL_SECONDS
        still = [one for one in self._uploads if one.release and one.moved_at <= before and one is not besides]
        if not still:
            return False
        longest = min(still, key=lambda one: one.moved_at)
        assert longest.release is not None
        self._uploads.discard(longest)
        longest.gave_way = True
        longest.release()
        return True
