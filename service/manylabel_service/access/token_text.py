"""Tokens that the holder of a key derives without a request, to predict with one model for a limited time.

A token is ``mlt_<id>_<expires>_<model>_<signature>``: the id of the key, the Unix time in seconds at which it expires,
the name of the model as base64url without padding, and the hexadecimal HMAC-SHA256 of ``<id>_<expires>_<model>`` as
written in the token. Its key is the HMAC-SHA256 of ``manylabel token`` under the SHA-256 of the secret, which the
server stores.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from manylabel_service import names
from manylabel_service.access.key_text import ID_LENGTH
from manylabel_service.access.scopes import Scope

BEGINNING = "mlt_"
MAX_SECONDS = 3600
"""Maximum validity of a token in seconds."""
SKEW_SECONDS = 30
"""Maximum seconds by which the clock of a token's maker may be ahead."""

SCOPE: Scope = "predict"
"""Only scope of a token."""
OVER = "is a token that has expired, or that is valid for more than 60 minutes"

_PURPOSE = b"manylabel token"
_TEXT = re.compile(rf"mlt_(([a-z0-9]{{{ID_LENGTH}}})_([0-9]{{1,12}})_([A-Za-z0-9_-]{{1,86}}))_([0-9a-f]{{64}})")


class Token(NamedTuple):
    """Signed token of a client."""

    key_id: str
    expires_unix_seconds: int
    model: str
    signed: str
    """Signed part of the text."""
    signature: str

    def is_signed_by(self, key: bytes) -> bool:
        """Return whether the token was signed with a key (see `key_of`), in constant time."""
        return hmac.compare_digest(_signature(self.signed, key), self.signature)

    def is_over(self, unix_ms: int) -> bool:
        """Return whether the token has expired or exceeds the maximum lifetime."""
        left = self.expires_unix_seconds - unix_ms / 1000
        return not 0 < left <= MAX_SECONDS + SKEW_SECONDS


def derive(key_id: str, digest: bytes, model: str, expires_unix_seconds: int) -> str:
    """Return the token for a model under the key with this id and digest of its secret."""
    name = urlsafe_b64encode(model.encode()).decode().rstrip("=")
    signed = f"{key_id}_{expires_unix_seconds}_{name}"
    return f"{BEGINNING}{signed}_{_signature(signed, key_of(digest))}"


def key_of(digest: bytes) -> bytes:
    """Return the key that signs tokens, from the digest of the secret of an API key."""
    return hmac.digest(digest, _PURPOSE, "sha256")


def parse(text: str) -> Token | None:
    """Return the parts of a text; None if it is no token."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    signed, key_id, expires, name, signature = found.groups()
    try:
        model = urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode("ascii")
    except ValueError:
        return None
    return Token(key_id, int(expires), model, signed, signature) if names.valid(model) else None


def _signature(signed: str, key: bytes) -> str:
    return hmac.digest(key, signed.encode(), "sha256").hex()
