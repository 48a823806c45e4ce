"""Request bodies: bytes in, JSON values out, within limits."""

import asyncio
from typing import Any

import jiter
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from manylabel_core.datasets.formats.ndjson import MERGED_LINES
from manylabel_service.api.web.compression.codings import SUPPORTED
from manylabel_service.api.web.held_bodies import BodyBuffer
from manylabel_service.api.web.problems import Problem

JSON = b"application/json"
NDJSON = b"application/x-ndjson"
BYTES = b"application/octet-stream"

_ENDINGS = {JSON: (b"/json", b"+json"), NDJSON: (b"/x-ndjson", b"/ndjson"), BYTES: (b"/octet-stream",)}
"""Endings of media types that count as another type."""

MAX_LENGTH_DIGITS = 20
"""Maximum length of a Content-Length in digits; Python refuses to parse numbers with thousands of digits."""


def has_body(request: Request) -> bool:
    """Return whether a request has a body, by its headers; for calls with an optional body."""
    headers = dict(request.scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


A_LINE = "the line"
"""Name of a line in error messages of `json_value`."""


def json_value(raw: bytes, what: str) -> Any:
    """Return the JSON value of some bytes. Raises a Problem malformed_json, also for a duplicate key."""
    try:
        return jiter.from_json(raw, catch_duplicate_keys=True)
    except ValueError as error:
        hint = MERGED_LINES if str(error).startswith("trailing characters") and what == A_LINE else ""
        raise Problem("malformed_json", f"{what} is not JSON: {error}{hint}") from error


async def read_body(request: Request, media_type: bytes | None, max_bytes: int) -> bytes:
    """Return the body of a request, which must declare this type, if one is given.

    Never holds more than its limit and one chunk.
    """
    check_headers(request, media_type, max_bytes)
    message = await request.receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        body, message = await _gather(message, request.receive, max_bytes, request.app.state.held_bodies)
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    if len(body) > max_bytes:
        raise too_large(max_bytes)
    return body


async def _gather(message: Message, receive: Receive, max_bytes: int, held: BodyBuffer) -> tuple[bytes, Message]:
    """Return the body that begins with a message, up to its limit and one chunk, and the last message."""
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
            raise Problem("stream_idle", f"nothing came for {seconds:g} s") from None

    return receive_in_time


def check_headers(request: Request, expected: bytes | None, max_bytes: int | None) -> None:
    """Reject a request whose headers declare a body of another type (None: any type), compressed, or too large."""
    media_type = b""
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length" and max_bytes is not None and length_of(value) > max_bytes:
            raise too_large(max_bytes)
        elif name == b"content-encoding":
            check_coding(value)
    if expected is not None and media_type != expected:
        _check_media_type(media_type, expected)


def check_coding(value: bytes) -> None:
    """Reject a coding that is left in the header Content-Encoding; known codings have been decompressed before."""
    if value.strip().lower() not in (b"", b"identity"):
        detail = f"the Content-Encoding may be {SUPPORTED}, not {value.decode('latin-1')[:100]!r}"
        raise Problem("unsupported_media_type", detail, headers={"Accept-Encoding": SUPPORTED})


def _check_media_type(media_type: bytes, expected: bytes) -> None:
    if not _is(media_type, expected):
        sent = f"not {media_type.decode('latin-1')[:100]!r}" if media_type else "which is missing"
        raise Problem("unsupported_media_type", f"the Content-Type must be {expected.decode()}, {sent}")
    if expected != BYTES and (charset := _charset(media_type)) not in (b"", b"utf-8"):
        raise Problem("unsupported_media_type", f"JSON is UTF-8 here, not {charset.decode('latin-1')[:100]!r}")


def length_of(content_length: bytes, header: str = "Content-Length") -> int:
    """Return the number of bytes in a header; raises a Problem malformed_request that names the header."""
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


def too_large(max_bytes: int) -> Problem:
    """Return the problem of a body over its limit."""
    return Problem("body_too_large", f"the body has more than {max_bytes:,} bytes, the limit of this server")
