"""Text of keys, ``ml_<id>_<secret>``.

The text is the credential; the store has only a hash of the secret.
"""

import hashlib
import hmac
import re
import string
from typing import NamedTuple

from manylabel_service.environment import secrets

BEGINNING = "ml_"
ID_LENGTH = 12
SECRET_BYTES = 32
_ID_CHARACTERS = string.ascii_lowercase + string.digits
_SECRET_CHARACTERS = string.digits + string.ascii_letters
SECRET_LENGTH = 43
"""Number of letters and digits for 32 bytes."""

ID_PATTERN = rf"^[a-z0-9]{{{ID_LENGTH}}}$"
_ID = re.compile(ID_PATTERN)
_ID_ENDS = len(BEGINNING) + ID_LENGTH
_LENGTH = _ID_ENDS + 1 + SECRET_LENGTH

DIGEST_OF_NONE = bytes(hashlib.sha256().digest_size)
"""Dummy digest to compare if the key is unknown, so that the check takes constant time."""


class KeyText(NamedTuple):
    """Text of a key: its id and its secret."""

    id: str
    secret: str

    def __str__(self) -> str:
        return f"{BEGINNING}{self.id}_{self.secret}"

    def __repr__(self) -> str:
        return f"KeyText({self.id!r}, ...)"


NO_KEY = KeyText("", "")
"""Result of parsing a text that is not a key."""


def make() -> KeyText:
    """Return a new key; its secret has 256 random bits."""
    id = "".join(secrets.choice(_ID_CHARACTERS) for _ in range(ID_LENGTH))
    number = int.from_bytes(secrets.token_bytes(SECRET_BYTES))
    digits = []
    for _ in range(SECRET_LENGTH):
        number, digit = divmod(number, len(_SECRET_CHARACTERS))
        digits.append(_SECRET_CHARACTERS[digit])
    return KeyText(id, "".join(digits))


def is_id(text: str) -> bool:
    """Return whether a text is the id of a key."""
    return _ID.fullmatch(text) is not None


def parse(text: str) -> KeyText | None:
    """Return the parts of a key; None if the text is malformed."""
    if len(text) != _LENGTH or not text.startswith(BEGINNING) or text[_ID_ENDS] != "_":
        return None
    return KeyText(text[len(BEGINNING) : _ID_ENDS], text[_ID_ENDS + 1 :])


def digest_of(secret: str) -> bytes:
    """Return the SHA-256 of a secret, which is stored. It needs no salt, because secrets are random."""
    return hashlib.sha256(secret.encode()).digest()


def is_secret(secret: str, digest: bytes) -> bool:
    """Return whether a digest is that of a secret, in constant time."""
    return hmac.compare_digest(digest_of(secret), digest)
