"""Publishing of large data: blobs that documents name.

A blob is stored first, under a key with an id that is never used again, and is published once a document names it. A
process that dies in between leaves a blob that no document names; such a blob is removed when it is old enough.
"""

from manylabel_service import ulid
from manylabel_service.clock import now_ms

ORPHANED_SECONDS = 172_800.0
"""Age in seconds at which a blob that no document names is assumed to be left by a dead process. The id has the time of
the machine that stored the blob, whose clock may be wrong by a time zone; two days exceed that."""


def is_old(id: str, before_ms: int | None = None) -> bool:
    """Return whether a blob with this id is an orphan if no document names it; False for an id that this release does
    not write.

    `before_ms` is the Unix time in milliseconds before which all blobs count as old.
    """
    return ulid.valid(id) and ulid.timestamp_of(id) < (
        now_ms() - 1_000 * ORPHANED_SECONDS if before_ms is None else before_ms
    )
