"""Idempotency key of a request, for all packages of the service."""

from typing import NamedTuple

MAX_KEY_BYTES = 255
"""Maximum length of a key in UTF-8."""


FORGOTTEN = b""
"""Digest of a request of which examples were forgotten: it matches any."""


class IdempotencyKey(NamedTuple):
    """A client's key, and a digest of the request it came with (16 bytes)."""

    key: str
    digest: bytes
