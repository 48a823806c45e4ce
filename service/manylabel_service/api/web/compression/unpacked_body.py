"""Request body that is decompressed on demand, within limits."""

import asyncio
import time
from collections.abc import Iterator

from starlette.types import Message, Receive

from manylabel_service.api.web.compression.codings import Coding, Unpacker
from manylabel_service.api.web.held_bodies import BodyBuffer
from manylabel_service.api.web.problems import Problem

MAX_RATIO = 250
"""Maximum ratio of a body to its compressed bytes above `FREE_BYTES`; examples as JSON reach 50."""
FREE_BYTES = 2**22

SLICE_SECONDS = 0.001
"""Seconds of decompression after which other requests get their turn."""


class DecompressedBody:
    """Body of one request, decompressed on demand.

    Parameters
    ----------
    coding : of the body.
    receive : where it comes from.
    held : where the memory of its decoder is counted.
    """

    def __init__(self, coding: Coding, receive: Receive, held: BodyBuffer) -> None:
        self._receive = receive
        self._held = held
        self._window_bytes = coding.window_bytes
        self._unpacker = Unpacker(coding)
        self._portions: Iterator[bytes] = iter(())
        self._n_packed = self._n_bytes = self._n_counted = 0
        self._is_last = False
        self._slice_ends = 0.0

    async def receive(self) -> Message:
        """Return the next chunk, or that the client disconnected; raise a Problem if a limit is exceeded."""
        self._slice_ends = self._slice_ends or time.perf_counter() + SLICE_SECONDS
        while True:
            if time.perf_counter() > self._slice_ends:
                await asyncio.sleep(0)
                self._slice_ends = time.perf_counter() + SLICE_SECONDS
            portion = next(self._portions, None)
            if portion:
                self._count(len(portion))
                return {"type": "http.request", "body": portion, "more_body": True}
            if portion is None and self._is_last:
                if not self._unpacker.complete:
                    raise self._unpacker.damaged("it ends too early")
                return {"type": "http.request", "body": b"", "more_body": False}
            if portion is None:
                message = await self._receive()
                if message["type"] != "http.request":
                    return message
                packed = message.get("body", b"")
                self._n_packed += len(packed)
                self._is_last = not message.get("more_body", False)
                self._portions = self._unpacker.unpack(packed)

    def _count(self, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        if self._n_bytes > FREE_BYTES + MAX_RATIO * self._n_packed:
            detail = f"the body is more than {MAX_RATIO} times as long as its compressed bytes, the limit"
            raise Problem("body_too_large", detail)
        window = min(self._n_bytes, self._window_bytes) - self._n_counted
        if window:
            self._held.add(window, self._n_bytes)
            self._n_counted += window

    def release(self) -> None:
        """Count the memory of the decoder no more."""
        self._held.n_bytes -= self._n_counted
