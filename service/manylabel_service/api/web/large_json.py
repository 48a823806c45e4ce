"""Large JSON bodies, which are parsed one at a time in chunks. Other requests run between two chunks, because parsing
blocks them."""

import asyncio
import math
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import jiter
import numpy as np
from starlette.requests import Request

from manylabel_core.records._json_pieces import OPEN_LIST, next_cut
from manylabel_service.api.web.bodies import BOM, JSON, BodyBuffer, json_value, malformed, read_body
from manylabel_service.api.web.problems import FIXED, Problem
from manylabel_service.api.web.validation import M, check_known, validated
from manylabel_service.work_rate import GRACE_SHARE, WorkRate

LARGE_BYTES = 2**16
"""Size in bytes below which a body is parsed in one step."""

_AT_ONCE: AbstractAsyncContextManager[None] = nullcontext()


class ParseQueue:
    """FIFO queue of the large bodies of all requests of an application.

    If bodies were parsed concurrently, in time slices, all would finish late. A body is rejected if its expected wait,
    estimated from recent bodies, is above `max_seconds`.
    """

    def __init__(self, held: BodyBuffer, max_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._held = held
        self._max_seconds = max_seconds
        self._clock = clock
        self._rate = WorkRate(LARGE_BYTES, clock)
        self._n_bytes = 0
        self._converting = asyncio.Lock()

    def turn(self, raw: bytes, deadline: float = math.inf) -> AbstractAsyncContextManager[None]:
        """Return a context for the parsing of a body, which must start by the deadline (time.monotonic).

        Entering it raises a Problem queue_full or server_busy.
        """
        return self._turn(len(raw), deadline) if len(raw) >= LARGE_BYTES else _AT_ONCE

    @asynccontextmanager
    async def _turn(self, n_bytes: int, deadline: float) -> AsyncIterator[None]:
        now = self._clock()
        deadline = min(max(deadline, now + GRACE_SHARE * self._max_seconds), now + self._max_seconds)
        self._check_wait(deadline, self._rate.seconds(self._n_bytes))
        self._held.add(n_bytes, n_bytes)
        self._n_bytes += n_bytes
        try:
            async with self._converting:
                self._check_wait(deadline, 0.0)
                self._rate.begin(n_bytes)
                done = 0
                try:
                    yield
                    done = n_bytes
                finally:
                    self._rate.end(done)
        finally:
            self._n_bytes -= n_bytes
            self._held.n_bytes -= n_bytes

    def _check_wait(self, deadline: float, seconds: float) -> None:
        """Raise a Problem queue_full if fewer than `seconds` are left until the deadline."""
        late = self._clock() + seconds - deadline
        if late > 0:
            after = max(1, round(late))
            detail = f"large bodies would wait more than {self._max_seconds:g} s to be parsed: retry in {after} s"
            raise Problem("queue_full", detail, headers={"Retry-After": str(after)})


PIECE_BYTES = 2**15
"""Minimum bytes of a chunk. Parsing one takes 0.2 to 3 ms."""

MAX_CONTAINERS = 2**15
"""Maximum number of lists and objects of a large body; a longer body may have one per `BYTES_PER_CONTAINER`."""
BYTES_PER_CONTAINER = 16
"""Minimum bytes of JSON per list or object. An empty list takes 3 bytes of JSON and 64 of memory; an object with one
field takes 8 and 200.
"""

_MAX_DEPTH = 256
"""Maximum nesting depth; jiter parses less."""

_BEGIN, _END = (f'"{secrets.token_hex(8)}"'.encode() for _ in range(2))
"""Placeholder keys, unknown to clients, for the JSON before and after a chunk."""
_BEGIN_KEY = _BEGIN.decode().strip('"')

_PLACE = re.compile(r"(.*) at line (\d+) column (\d+)", re.DOTALL)


MAX_DOCUMENT_BYTES = 2**18
"""Maximum bytes of a body that is a document: a job, a key, the name of a snapshot."""


async def read_json(request: Request) -> tuple[Any, bytes]:
    """Return the document in the body of a request, which has at most `MAX_DOCUMENT_BYTES`, and the body itself. Raises
    a Problem or ClientDisconnect."""
    return await read_large_json(request, MAX_DOCUMENT_BYTES)


async def read_model(request: Request, model: type[M]) -> tuple[M, bytes]:
    """Return the document in the body as a model, and the body itself; raises the errors of `read_json`."""
    document, raw = await read_json(request)
    return validated(model, document), raw


async def read_large_json(request: Request, max_bytes: int | None = None) -> tuple[Any, bytes]:
    """Return the parsed body of a request, and its bytes: at most `max_bytes`, and at most the limit of the server.
    Raises the errors of `read_json`."""
    context = request.scope["context"]
    most = context.settings.max_body_bytes
    if max_bytes is None or max_bytes >= most:
        raw = await read_body(request, JSON, most)
    else:
        raw = await read_body(request, JSON, max_bytes, setting=None)
    async with context.turns.turn(raw):
        document = await read_value(raw)
    check_known(document, ())
    return document, raw


async def read_value(raw: bytes, what: str = "the body") -> Any:
    """Parse a JSON body, called `what` in errors; a large one in chunks. Raises a Problem."""
    if len(raw) < LARGE_BYTES:
        return json_value(raw, what)
    raw = raw[3:] if raw.startswith(BOM) else raw
    _check_containers(raw, what)
    data, stack = np.frombuffer(raw, dtype=np.uint8), np.zeros(_MAX_DEPTH, dtype=np.uint8)
    document, opened = None, list[Any]()  # open lists and objects, outermost first
    begin = depth = 0
    while True:
        before = stack[:depth].tolist()
        cut, depth, least, _ = next_cut(data, begin, PIECE_BYTES, stack, depth)
        stays = max(least - 1, 0)  # the innermost list or object that is open throughout the chunk
        ends = cut == len(raw)
        head = _head(before[stays:])
        piece = _parsed(raw, begin, cut + 1, head, b"" if ends else _tail(stack[stays:depth].tolist()), what)
        inside = [] if ends else _spine(piece, depth - stays)
        if not before:
            document, opened = piece, inside
        else:
            _join(piece, opened[stays:], raw, what)
            opened[stays + 1 :] = inside[1:]
        if ends:
            return document
        begin = cut + 1
        del piece, inside
        await asyncio.sleep(0)


def _check_containers(raw: bytes, what: str) -> None:
    allowed = max(MAX_CONTAINERS, len(raw) // BYTES_PER_CONTAINER)
    if raw.count(b"[") + raw.count(b"{") <= allowed:  # includes commas in strings
        return
    stack = np.zeros(_MAX_DEPTH, dtype=np.uint8)
    *_, opened = next_cut(np.frombuffer(raw, dtype=np.uint8), 0, len(raw), stack, 0)
    if opened > allowed:
        detail = f"{what} has {opened:,} lists and objects; at most {allowed:,} are allowed; {FIXED}"
        raise Problem("body_too_large", detail)


def _head(brackets: Sequence[int]) -> bytes:
    """Return the start of a chunk within open brackets, with a placeholder for the preceding elements."""
    opening = [b"[" if bracket == OPEN_LIST else b"{" + _BEGIN + b":" for bracket in brackets]
    return b"".join(opening) + b"0," if opening else b""


def _tail(brackets: Sequence[int]) -> bytes:
    """Return the end of a chunk within open brackets, after its comma, with a placeholder for later elements."""
    last = b"0" if brackets[-1] == OPEN_LIST else _END + b":0"
    return last + b"".join(b"]" if bracket == OPEN_LIST else b"}" for bracket in reversed(brackets))


def _parsed(raw: bytes, begin: int, end: int, head: bytes, tail: bytes, what: str) -> Any:
    try:
        return jiter.from_json(b"".join((head, memoryview(raw)[begin:end], tail)), catch_duplicate_keys=True)
    except ValueError as error:
        raise malformed(_in_the_body(str(error), raw, begin, len(head)), raw, what) from error


def _in_the_body(message: str, raw: bytes, begin: int, n_head: int) -> str:
    """Return an error of a chunk with its line and column in the body."""
    if (found := _PLACE.fullmatch(message)) is None:
        return message
    what, line, column = found[1], int(found[2]), int(found[3])
    if line == 1:
        column += begin - (raw.rfind(b"\n", 0, begin) + 1) - n_head
    line += raw.count(b"\n", 0, begin)
    return f"{what} at line {line} column {column}"


def _spine(piece: Any, n: int) -> list[Any]:
    """Return the lists and objects open at the end of a chunk, without placeholders."""
    spine = [piece]
    for _ in range(n - 1):
        last = spine[-1]
        spine.append(last[-1] if isinstance(last, list) else last[next(reversed(last))])
    innermost = spine[-1]
    if isinstance(innermost, list):
        innermost.pop()
    else:
        innermost.popitem()
    return spine


def _join(piece: Any, opened: Sequence[Any], raw: bytes, what: str) -> None:
    """Merge a chunk into the lists and objects open at its start, outermost first."""
    for container in opened:
        if isinstance(container, list):
            before = piece[0]
            del piece[0]
            container += piece
        else:
            before = piece.pop(_BEGIN_KEY)
            if not container.keys().isdisjoint(piece.keys()):
                repeated = next(key for key in piece if key in container)
                raise malformed(f'Detected duplicate key "{repeated}"', raw, what)
            container.update(piece)
        piece = before
