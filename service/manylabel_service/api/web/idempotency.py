"""The header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header)."""

import re
from hashlib import blake2b
from typing import Any

from starlette.requests import Request

from manylabel_service.api.web.problems import Problem
from manylabel_service.idempotency import IdempotencyKey

HEADER = "Idempotency-Key"
REPLAYED = (b"idempotent-replayed", b"true")

_KEY = re.compile(rb"[!-~]{1,255}")
_ALLOWED = "must be 1 to 255 visible ASCII characters, given once"


def described(text: str) -> dict[str, Any]:
    """Return the header in the description of an operation."""
    schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
    return {"name": HEADER, "in": "header", "required": False, "description": text, "schema": schema}


PARAMETER: dict[str, Any] = {
    "parameters": [described("Makes a retry safe: the same key and body get the first answer again.")]
}
"""Part of an operation's description that declares the header."""


def idempotency_key(request: Request, operation: str, body: bytes) -> IdempotencyKey | None:
    """Return the key of a request with the digest of its content; None without a key.

    Raises
    ------
    Problem
        The header is not a key.
    """
    key = key_text(request)
    if key is None:
        return None
    return IdempotencyKey(key, blake2b(body, digest_size=16, person=operation.encode()).digest())


def key_text(request: Request) -> str | None:
    """Return the key itself; raises as `idempotency_key`."""
    values = [value for name, value in request.scope["headers"] if name == b"idempotency-key"]
    if not values:
        return None
    if len(values) > 1 or not _KEY.fullmatch(values[0]):
        raise Problem("invalid_request", f"{HEADER} {_ALLOWED}", [{"header": HEADER, "detail": _ALLOWED}])
    return str(values[0], "ascii")
