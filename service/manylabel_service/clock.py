"""Points in time in the formats of responses and of the store."""

from datetime import UTC, datetime, timedelta

from manylabel_service.environment import time

EPOCH = datetime.fromtimestamp(0, UTC)
FIRST_UNIX_MS = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
LAST_UNIX_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
"""First and last milliseconds of Unix time that RFC 3339 can represent."""


def now_ms() -> int:
    """Return the current Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def unix_ms(at: datetime) -> int:
    """Return a point in time as Unix time in milliseconds."""
    return round(at.timestamp() * 1000)


def rfc3339(unix_ms: float) -> str:
    """Return milliseconds of Unix time in the form ``2026-11-20T21:00:00.000Z``.

    A time outside the years 1 to 9999 becomes the first or last moment of that range.
    """
    at = EPOCH + timedelta(milliseconds=min(max(int(unix_ms), FIRST_UNIX_MS), LAST_UNIX_MS))
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
