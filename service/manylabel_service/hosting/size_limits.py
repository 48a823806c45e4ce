"""Check of a size against its limit."""

from manylabel_service.errors import LimitExceeded


def check_limit(what: str, size: int, limit: int) -> None:
    """Raise LimitExceeded for a size above its limit."""
    if size > limit:
        raise LimitExceeded(what, size, limit)
