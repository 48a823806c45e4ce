"""Transport of webhooks, which reads a bounded part of what a receiver sends."""

import asyncio
from collections.abc import Iterable
from ssl import SSLContext
from typing import Any

import httpcore2
import httpx2

MAX_RESPONSE_BYTES = 2**14
"""Maximum bytes that are read of the responses to a request: the headers, and any number of interim responses."""
READ_BYTES = 2**12
"""Maximum bytes read at once; other requests run in between."""


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Transport that ends a request whose responses have more than `MAX_RESPONSE_BYTES`."""

    def __init__(self, context: SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        # A receiver may send interim responses (1xx) without end, which the library skips in one go.
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=_Backend())


class _Stream(httpcore2.AsyncNetworkStream):
    """Stream that counts the bytes read since the last write."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream, self._left = stream, MAX_RESPONSE_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if self._left <= 0:
            raise httpcore2.ReadError(f"the responses have more than {MAX_RESPONSE_BYTES:,} bytes")
        await asyncio.sleep(0)
        data = await self._stream.read(min(max_bytes, READ_BYTES, self._left), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._left = MAX_RESPONSE_BYTES
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
