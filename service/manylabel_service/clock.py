"""Points in time, as answers write them and as they are kept."""

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Return the milliseconds of Unix time now."""
    return time.time_ns() // 1_000_000


def unix_ms(at: datetime) -> int:
    """Return the milliseconds of Unix time at a point in time."""
    return round(at.timestamp() * 1000)


def rfc3339(unix_ms: int) -> str:
    """Return milliseconds of Unix time in the form ``2026-11-20T21:00:00.000Z``."""
    text = datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
