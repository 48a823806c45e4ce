"""Lines of a stream (NDJSON), which are read ahead, up to a limit, while earlier lines are being learnt."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from manylabel_service.api.web.bodies import in_time, too_large
from manylabel_service.api.web.problems import Problem
from manylabel_service.hosting.examples import Example
from manylabel_service.slices import in_slices

MAX_LINES = 1_000
MAX_BYTES = 2**20
"""Maximum bytes of all lines that wait to be learnt, and of one line; a stream buffers at most twice this limit."""

Parse = Callable[[bytes], Awaitable[Example]]


class Line(NamedTuple):
    """Line with its number, and its example or its error."""

    number: int
    content: Example | Problem


class Splitter:
    """Splitter of chunks of bytes into lines."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._rest = bytearray()
        self.too_long = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in the next chunk. If a line is too long, set `too_long` and return the lines
        before it."""
        begin, *ends = chunk.split(b"\n")
        self._rest += begin
        if not ends:
            self.too_long = len(self._rest) > self._max_line_bytes
            return []
        lines = [bytes(self._rest), *ends[:-1]]
        self._rest = bytearray(ends[-1])
        return self._short([*lines, ends[-1]])[: len(lines)]

    def end(self) -> list[bytes]:
        """Return the last line if it has no newline."""
        last = bytes(self._rest)
        self._rest.clear()
        return [last] if last else []

    def _short(self, lines: list[bytes]) -> list[bytes]:
        for place, line in enumerate(lines):
            if len(line) > self._max_line_bytes:
                self.too_long = True
                return lines[:place]
        return lines


class ReadAhead:
    """Reader of the lines of one request, in order, which reads ahead.

    Parameters
    ----------
    receive : ASGI function that receives the body.
    parse : converts a line to an example, or raises a Problem; a Problem with headers ends the reading.
    number : number of the first line; `next_number` is the number of the next line.
    max_line_bytes : maximum bytes of a line; a longer line ends the request.
    idle_seconds : timeout in seconds, after which an idle client ends the request.
    """

    def __init__(self, receive: Receive, parse: Parse, number: int, max_line_bytes: int, idle_seconds: float) -> None:
        self._receive = in_time(receive, idle_seconds)
        self._parse = parse
        self._splitter = Splitter(max_line_bytes)
        self._max_line_bytes = max_line_bytes
        self._lines: list[Line] = []
        self._bytes = 0
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._ended = self._client_gone = False
        self.next_number = number
        self.problem: Problem | None = None

    async def run(self) -> None:
        """Read until the end, in a separate task."""
        try:
            while await self._read_some():
                pass
        except Problem as problem:
            self.end(problem)
        except ClientDisconnect:
            self._client_gone = True
        finally:
            self.end(None)

    def end(self, problem: Problem | None) -> None:
        """Stop reading. Buffered lines remain available."""
        if not self._ended:
            self._ended, self.problem = True, problem
            self._arrived.set()

    async def take(self) -> list[Line]:
        """Wait for the first line and return all buffered lines; an empty list at the end. Raises ClientDisconnect."""
        while not (self._lines or self._ended):
            self._arrived.clear()
            await self._arrived.wait()
        if self._client_gone:
            raise ClientDisconnect
        taken, self._lines, self._bytes = self._lines, [], 0
        self._room.set()
        return taken

    async def _read_some(self) -> bool:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more = bool(message.get("more_body", False))
        async for text in in_slices(self._splitter.feed(message.get("body", b""))):
            await self._add(text)
        if self._splitter.too_long:
            raise too_large(self._max_line_bytes, "max_body_bytes", "line")
        if not more:
            for text in self._splitter.end():
                await self._add(text)
        return more and not self._ended

    async def _add(self, text: bytes) -> None:
        if self._ended:
            return
        number = self.next_number
        self.next_number += 1
        if not text or text.isspace():
            return
        try:
            content: Example | Problem = await self._parse(text)
        except Problem as problem:
            if problem.headers:  # the Problem has a retry time, so the stream can resume with this line
                self.next_number = number
                raise
            content = problem
        self._lines.append(Line(number, content))
        self._bytes += len(text)
        self._arrived.set()
        while (len(self._lines) >= MAX_LINES or self._bytes >= MAX_BYTES) and not self._ended:
            self._room.clear()
            await self._room.wait()
