"""Building blocks of the requests of all resources: exchanges without I/O, and idempotency keys."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx2

from manylabel_clients.http.errors import NotFound
from manylabel_clients.http.transport.exchange import Exchange, Request, read, send
from manylabel_clients.http.transport.json_body import JSON, encode
from manylabel_clients.http.transport.retry import Retry

T = TypeVar("T")

MAX_KEY_OF_MANY = 240
"""Maximum length of a key of a call with many examples, whose later requests append their offsets."""


class Requests:
    """Base of the requests of a resource: exchanges without I/O. `path` is the path of a single resource."""

    def __init__(self, retry: Retry, path: str = "") -> None:
        self._retry = retry
        self._path = path

    def _get(self, path: str, convert: Callable[[dict[str, Any]], T]) -> Exchange[T]:
        response = yield from send(Request("GET", path), self._retry)
        return read(response, convert)

    def _download(self, path: str) -> Exchange[bytes]:
        return (yield from send(Request("GET", path), self._retry)).content

    def _post(
        self, path: str, body: bytes | None, key: str | None = None, method: str = "POST"
    ) -> Exchange[httpx2.Response]:
        headers: Mapping[str, str] = {} if body is None else JSON
        if key is not None:
            headers = {**headers, "Idempotency-Key": key}
        return (yield from send(Request(method, path, body, headers), self._retry))

    def _post_value(self, path: str, value: Any, convert: Callable[[dict[str, Any]], T]) -> Exchange[T]:
        return read((yield from self._post(path, encode(value))), convert)

    def _delete(self, path: str) -> Exchange[None]:
        """Delete; after an attempt without a response, a missing object counts as success."""
        try:
            yield from send(Request("DELETE", path), self._retry)
        except NotFound as error:
            if not error.maybe_done:
                raise


def new_key(given: str | None, max_length: int | None = None) -> str:
    """Return the passed or a new idempotency key; raise ValueError if it does not fit a header."""
    if given is None:
        return uuid.uuid4().hex
    if not re.fullmatch("[!-~]+", given):
        raise ValueError(f"key must consist of visible ASCII characters, not {given!r}")
    if max_length is not None and len(given) > max_length:
        raise ValueError(f"key must have at most {max_length} characters here, not {len(given)}")
    return given


def is_replay(response: httpx2.Response) -> bool:
    """Return whether the response repeats that of an earlier request with the same key."""
    return response.headers.get("Idempotent-Replayed") == "true"
