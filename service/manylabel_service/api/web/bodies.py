"""Request bodies: bytes in, JSON values out, within the limits."""

import asyncio
from typing import Any

import jiter
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from manylabel_service.api.web.problems import Problem

JSON = b"application/json"
NDJSON = b"application/x-ndjson"
BYTES = b"application/octet-stream"

_ENDINGS = {JSON: (b"/json", b"+json"), NDJSON: (b"/x-ndjson", b"/ndjson"), BYTES: (b"/octet-stream",)}
"""How the media types end that are taken for another."""


async def read_json(request: Request, max_bytes: int) -> tuple[Any, bytes]:
    """Return the value in the body of a request, and the body itself.

    Raises
    ------
    Problem
        unsupported_media_type, body_too_large or malformed_json.
    ClientDisconnect
        The client went away before it had sent everything.
    """
    raw = await read_body(request, JSON, max_bytes)
    return json_value(raw, "the body"), raw


def json_value(raw: bytes, what: str) -> Any:
    """Return the value that some bytes stand for; raises a Problem malformed_json, also for a key that comes twice."""
    try:
        return jiter.from_json(raw, catch_duplicate_keys=True)
    except ValueError as error:
        raise Problem("malformed_json", f"{what} is not JSON: {error}") from error


async def read_body(request: Request, media_type: bytes, max_bytes: int, idle_seconds: float | None = None) -> bytes:
    """Return the body of a request that says it is of this type; never holds more than its limit and one chunk.

    With `idle_seconds`, a client that sends nothing for so long is answered a Problem stream_idle.
    """
    check_headers(request, media_type, max_bytes)
    receive = request.receive if idle_seconds is None else in_time(request.receive, idle_seconds)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        chunks = bytearray(body)
        while message.get("more_body", False) and len(chunks) <= max_bytes:
            message = await receive()
            chunks += message.get("body", b"")
        body = bytes(chunks)
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    if len(body) > max_bytes:
        raise too_large(max_bytes)
    return body


def in_time(receive: Receive, seconds: float) -> Receive:
    """Return `receive` with a limit: a client that sends nothing for so long is answered a Problem stream_idle."""

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout(seconds):
                return await receive()
        except TimeoutError:
            raise Problem("stream_idle", f"nothing came for {seconds:g} s") from None

    return receive_in_time


def check_headers(request: Request, expected: bytes, max_bytes: int | None) -> None:
    """Refuse a request whose headers say that its body is of another type, compressed, or too large."""
    media_type = b""
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length" and max_bytes is not None and int(value) > max_bytes:
            raise too_large(max_bytes)
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            raise Problem("unsupported_media_type", "send the body without Content-Encoding")
    if media_type != expected:
        _check_media_type(media_type, expected)


def _check_media_type(media_type: bytes, expected: bytes) -> None:
    if not _is(media_type, expected):
        sent = f"not {media_type.decode('latin-1')[:100]!r}" if media_type else "which is missing"
        raise Problem("unsupported_media_type", f"the Content-Type must be {expected.decode()}, {sent}")
    if expected != BYTES and (charset := _charset(media_type)) not in (b"", b"utf-8"):
        raise Problem("unsupported_media_type", f"JSON is UTF-8 here, not {charset.decode('latin-1')[:100]!r}")


def _is(media_type: bytes, expected: bytes) -> bool:
    essence = media_type.split(b";", 1)[0].strip().lower()
    return essence.startswith(b"application/") and essence.endswith(_ENDINGS[expected])


def _charset(media_type: bytes) -> bytes:
    """Return the charset that a media type names, in small letters; empty without one."""
    for parameter in media_type.split(b";")[1:]:
        name, _, value = parameter.partition(b"=")
        if name.strip().lower() == b"charset":
            return value.strip(b' "').lower()
    return b""


def too_large(max_bytes: int) -> Problem:
    """Return the problem of a body over its limit."""
    return Problem("body_too_large", f"the body has more than {max_bytes:,} bytes, the limit of this server")
