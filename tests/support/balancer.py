"""A simple load balancer: each connection goes to the next server that accepts it."""

import asyncio
from contextlib import suppress
from typing import Self


class Balancer:
    """A balancer on a port of its own; `backends` are the ports of the servers, and may change at any time."""

    def __init__(self) -> None:
        self.backends: list[int] = []
        self.url = ""
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        backend = None
        try:
            with suppress(asyncio.CancelledError):  # at the end of the balancer; asyncio would log it
                if (backend := await self._connected()) is not None:
                    await asyncio.gather(_pass_on(reader, backend[1]), _pass_on(backend[0], writer))
        finally:
            self._serving.discard(task)
            for open_writer in (writer, *(backend or ())[1:]):
                open_writer.transport.abort()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self.backends:
            self._turn += 1
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", self.backends[self._turn % len(self.backends)])
        return None


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
