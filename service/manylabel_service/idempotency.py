"""Idempotency key of a request, for all packages of the service."""

from typing import NamedTuple

MAX_KEY_BYTES = 255
"""Maximum length of a key in UTF-8."""


FORGOTTEN = b""
"""Digest of a request whose examples were forgotten; it matches any request."""


class IdempotencyKey(NamedTuple):
    """Key of a client, and a digest of its request (16 bytes)."""

    key: str
    digest: bytes
