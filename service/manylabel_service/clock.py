"""Points in time as answers write them."""

from datetime import UTC, datetime


def rfc3339(unix_ms: int) -> str:
    """Return milliseconds of Unix time in the form ``2026-11-20T21:00:00.000Z``."""
    text = datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
