"""Parsing of request bodies within limits, and the header Idempotency-Key."""

import asyncio
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import jiter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive

from manylabel_core.datasets.formats.ndjson import MERGED_LINES
from manylabel_service.api.web.problems import FIXED, Problem
from manylabel_service.idempotency import IdempotencyKey

SMALL_BYTES = 2**16
"""Size in bytes below which a body is accepted even if the buffer is full; the limit of connections also limits small
bodies."""


class BodyBuffer:
    """Counter of the bytes of buffered request bodies of an application:

    `n_bytes`, at most `max_bytes`. `on_refused` is called when a body exceeds the free capacity.
    """

    def __init__(self, max_bytes: int, on_refused: Callable[[], None]) -> None:
        self._max_bytes = max_bytes
        self._on_refused = on_refused
        self.n_bytes = 0

    def add(self, n_bytes: int, body_bytes: int) -> None:
        """Count n_bytes received from a body of body_bytes; raise a Problem server_busy if the buffer is full."""
        if self.n_bytes + n_bytes > self._max_bytes and body_bytes >= SMALL_BYTES:
            self._on_refused()
            detail = f"incomplete request bodies fill the buffer of this server ({self._max_bytes:,} bytes); retry soon"
            raise Problem("server_busy", detail, headers={"Retry-After": "1"})
        self.n_bytes += n_bytes


JSON = b"application/json"
NDJSON = b"application/x-ndjson"
BYTES = b"application/octet-stream"

_ENDINGS = {JSON: (b"/json", b"+json"), NDJSON: (b"/x-ndjson", b"/ndjson"), BYTES: (b"/octet-stream",)}
"""Suffixes of media types that count as another type."""

MAX_LENGTH_DIGITS = 20
"""Maximum length of a Content-Length in digits; Python refuses to parse numbers with thousands of digits."""


def has_body(request: Request) -> bool:
    """Return whether the headers of a request announce a body; for calls with an optional body."""
    headers = dict(request.scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


A_LINE = "the line"
"""Name of a line in error messages of `json_value`."""


BOM = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8, which editors and exports for Excel write at the start; JSON does not allow it."""


def json_value(raw: bytes, what: str) -> Any:
    """Return the JSON value in the bytes; a byte order mark is skipped. Raises a Problem malformed_json, also for a
    duplicate key."""
    try:
        return jiter.from_json(raw[3:] if raw.startswith(BOM) else raw, catch_duplicate_keys=True)
    except ValueError as error:
        raise malformed(str(error), raw, what) from error


def malformed(message: str, raw: bytes, what: str) -> Problem:
    """Return the error for bytes that are not JSON: it contains the message of the parser (jiter), and some advice.

    Its text calls the bytes `what`.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw[:4]:
        return Problem("malformed_json", f"{what} is not UTF-8, but seems to be UTF-16 or UTF-32: send it in UTF-8")
    hint = ""
    if message.startswith("invalid unicode"):
        hint = " (bytes that are not UTF-8, such as Latin-1)"
    elif "hex escape" in message:
        hint = " (an incomplete escape, or one of half a character, such as half an emoji)"
    elif message.startswith("trailing characters") and what == A_LINE:
        hint = MERGED_LINES
    return Problem("malformed_json", f"{what} is not JSON: {message}{hint}")


async def read_body(
    request: Request, media_type: bytes | None, max_bytes: int, setting: str | None = "max_body_bytes"
) -> bytes:
    """Return the body of a request, which must have this media type; None: any type.

    `setting` is the setting with the limit, if any. At most the limit and one chunk are buffered.
    """
    check_headers(request, media_type, max_bytes, setting)
    message = await request.receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        body, message = await _gather(message, request.receive, max_bytes, request.scope["context"].held_bodies)
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    if len(body) > max_bytes:
        raise too_large(max_bytes, setting)
    return body


async def _gather(message: Message, receive: Receive, max_bytes: int, held: BodyBuffer) -> tuple[bytes, Message]:
    """Return the body that begins with a message, up to the limit and one chunk, and the last message."""
    chunks, counted = bytearray(), 0
    try:
        while True:
            chunks += message.get("body", b"")
            held.add(len(chunks) - counted, len(chunks))
            counted = len(chunks)
            if not message.get("more_body", False) or len(chunks) > max_bytes:
                return bytes(chunks), message
            message = await receive()
    finally:
        held.n_bytes -= counted


def in_time(receive: Receive, seconds: float) -> Receive:
    """Return `receive` with a timeout: a client that sends nothing for `seconds` gets a Problem stream_idle."""

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout(seconds):
                return await receive()
        except TimeoutError:
            raise Problem("stream_idle", f"no data arrived for {seconds:g} s") from None

    return receive_in_time


def check_headers(request: Request, expected: bytes | None, max_bytes: int | None, setting: str | None = None) -> None:
    """Reject a request whose headers declare a body of another type (None: any type), compressed, or too large."""
    media_type = b""
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length" and max_bytes is not None and length_of(value) > max_bytes:
            raise too_large(max_bytes, setting)
        elif name == b"content-encoding":
            check_coding(value)
    if expected is not None and media_type != expected:
        _check_media_type(media_type, expected)


def check_coding(value: bytes) -> None:
    """Reject a body that is compressed according to its header Content-Encoding."""
    if value.strip().lower() not in (b"", b"identity"):
        sent = value.decode("latin-1")[:100]
        detail = f"the body must not be compressed; its Content-Encoding is {sent!r}. The file of a dataset may be gzip"
        raise Problem("unsupported_media_type", detail, headers={"Accept-Encoding": "identity"})


def _check_media_type(media_type: bytes, expected: bytes) -> None:
    if not _is(media_type, expected):
        sent = f"not {media_type.decode('latin-1')[:100]!r}" if media_type else "which is missing"
        raise Problem("unsupported_media_type", f"the Content-Type must be {expected.decode()}, {sent}")
    if expected != BYTES and (charset := _charset(media_type)) not in (b"", b"utf-8"):
        raise Problem("unsupported_media_type", f"the charset must be utf-8, not {charset.decode('latin-1')[:100]!r}")


def length_of(content_length: bytes, header: str = "Content-Length") -> int:
    """Return the number of bytes that a header declares; raises a Problem malformed_request that names the header."""
    if len(content_length) > MAX_LENGTH_DIGITS or not content_length.strip().isdigit():
        raise Problem("malformed_request", f"{header} must be a number of at most {MAX_LENGTH_DIGITS} digits")
    return int(content_length)


def _is(media_type: bytes, expected: bytes) -> bool:
    essence = media_type.split(b";", 1)[0].strip().lower()
    return essence.startswith(b"application/") and essence.endswith(_ENDINGS[expected])


def _charset(media_type: bytes) -> bytes:
    """Return the charset of a media type in lower case; empty without one."""
    for parameter in media_type.split(b";")[1:]:
        name, _, value = parameter.partition(b"=")
        if name.strip().lower() == b"charset":
            return value.strip(b' "').lower()
    return b""


def too_large(max_bytes: int, setting: str | None, what: str = "body") -> Problem:
    """Return the problem of a body, or a part of it, above a limit. `setting` is the setting with the limit; None if it
    is fixed."""
    named = FIXED if setting is None else f"the setting {setting} has this limit"
    return Problem("body_too_large", f"the {what} has more than {max_bytes:,} bytes; {named}")


IDEMPOTENCY_KEY = "Idempotency-Key"
REPLAYED = (b"idempotent-replayed", b"true")
"""Header of the response to a repeated request."""


def note_replayed(response: Response, replayed: bool) -> None:
    """Add the header `REPLAYED` to the response of an endpoint if its request was repeated."""
    if replayed:
        response.raw_headers.append(REPLAYED)


_KEY = re.compile(rb"[!-~]{1,255}")
_KEY_ALLOWED = "must be 1 to 255 visible ASCII characters, sent once"


def described_key(text: str) -> dict[str, Any]:
    """Return the description of the header for an operation."""
    schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
    return {"name": IDEMPOTENCY_KEY, "in": "header", "required": False, "description": text, "schema": schema}


KEY_PARAMETER: dict[str, Any] = {
    "parameters": [described_key("Makes a retry safe: the same key and body get the first answer again.")]
}
"""Part of an operation's description that declares the header Idempotency-Key."""


def idempotency_key(request: Request, operation: str, body: bytes) -> IdempotencyKey | None:
    """Return the key of a request with the digest of its content; None without a key. Raises a Problem."""
    key = key_text(request)
    if key is None:
        return None
    return IdempotencyKey(key, blake2b(body, digest_size=16, person=operation.encode()).digest())


def key_text(request: Request) -> str | None:
    """Return the key itself; raises the errors of `idempotency_key`."""
    values = [value for name, value in request.scope["headers"] if name == b"idempotency-key"]
    if not values:
        return None
    if len(values) > 1 or not _KEY.fullmatch(values[0]):
        raise Problem(
            "invalid_request",
            f"{IDEMPOTENCY_KEY} {_KEY_ALLOWED}",
            [{"header": IDEMPOTENCY_KEY, "detail": _KEY_ALLOWED}],
        )
    return str(values[0], "ascii")
