"""Request bodies: bytes in, JSON values out, within the limits."""

from typing import Any

import pydantic_core
from starlette.requests import ClientDisconnect, Request

from manylabel_service.api.problems import Problem


async def read_json(request: Request, max_bytes: int) -> tuple[Any, bytes]:
    """The value in the body of a request, and the body itself.

    Raises
    ------
    Problem
        unsupported_media_type, body_too_large or malformed_json.
    ClientDisconnect
        The client went away before it had sent everything.
    """
    raw = await read_body(request, max_bytes)
    try:
        return pydantic_core.from_json(raw), raw
    except ValueError as error:
        raise Problem("malformed_json", f"the body is not JSON: {error}") from error


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body of a request that says it is JSON; never holds more than its limit and one chunk."""
    _check_headers(request, max_bytes)
    message = await request.receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        chunks = bytearray(body)
        while message.get("more_body", False) and len(chunks) <= max_bytes:
            message = await request.receive()
            chunks += message.get("body", b"")
        body = bytes(chunks)
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    return body


def _check_headers(request: Request, max_bytes: int) -> None:
    media_type = b""
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            media_type = value
        elif name == b"content-length" and int(value) > max_bytes:
            raise _too_large(max_bytes)
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            raise Problem("unsupported_media_type", "send the body without Content-Encoding")
    if media_type != b"application/json" and not _is_json(media_type):
        sent = f"not {media_type.decode('latin-1')!r}" if media_type else "which is missing"
        raise Problem("unsupported_media_type", f"the Content-Type must be application/json, {sent}")


def _is_json(media_type: bytes) -> bool:
    essence = media_type.split(b";", 1)[0].strip().lower()
    return essence.startswith(b"application/") and essence.endswith((b"/json", b"+json"))


def _too_large(max_bytes: int) -> Problem:
    return Problem("body_too_large", f"the body has more than {max_bytes:,} bytes: send smaller batches")
