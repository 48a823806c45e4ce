"""Load generator: keep-alive connections, each of which sends the next request after a response, or a little later.

It parses only the end of a response, so that on two cores the server is the bottleneck.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np


@dataclass(frozen=True)
class Load:
    """Result of one run of requests."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float


class _Connection(asyncio.Protocol):
    """Connection that sends requests in sequence and records their seconds."""

    def __init__(self, requests: Sequence[bytes], n_requests: int, pause_seconds: float) -> None:
        self._requests = requests
        self._left = n_requests
        self._pause_seconds = pause_seconds
        self._sent = 0.0
        self._buffer = b""
        self.seconds: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def start(self) -> None:
        self._send()

    def close(self) -> None:
        self._transport.abort()

    def _send(self) -> None:
        self._left -= 1
        self._sent = time.perf_counter()
        self._transport.write(self._requests[self._left % len(self._requests)])

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._buffer[:head_end].lower()
        at = head.index(b"content-length:") + len(b"content-length:")
        length = int(head[at : head.find(b"\r\n", at) if b"\r\n" in head[at:] else None])
        if len(self._buffer) < head_end + 4 + length:
            return
        if not head.startswith(b"http/1.1 200"):
            self._fail(RuntimeError(self._buffer.decode(errors="replace")))
            return
        self._buffer = b""
        self.seconds.append(time.perf_counter() - self._sent)
        if not self._left:
            self.done.set_result(None)
        elif self._pause_seconds:
            asyncio.get_running_loop().call_later(self._pause_seconds, self._send)
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server closed the connection"))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


def post(path: str, body: bytes, key: str = "") -> bytes:
    """Return the bytes of a POST request with a JSON body and an optional key."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {key}\r\n" if key else ""
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def apply_load(
    port: int, requests: Sequence[bytes], n_connections: int, n_requests: int, pause_seconds: float = 0.0
) -> Load:
    """Send `n_requests` in total over `n_connections` to 127.0.0.1, with a pause after every response."""
    loop = asyncio.get_running_loop()
    share = n_requests // n_connections
    connections = [
        (await loop.create_connection(lambda: _Connection(requests, share, pause_seconds), "127.0.0.1", port))[1]
        for _ in range(n_connections)
    ]
    started = time.perf_counter()
    for connection in connections:
        connection.start()
    await asyncio.gather(*(connection.done for connection in connections))
    elapsed = time.perf_counter() - started
    for connection in connections:
        connection.close()
    milliseconds = 1e3 * np.array([s for connection in connections for s in connection.seconds])
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return Load(len(milliseconds) / elapsed, float(p50), float(p99))
