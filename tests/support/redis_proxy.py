"""A proxy in front of Redis that loses replies, changes them, or speaks TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RedisProxy:
    """Between a store and Redis: counts connections, and can be told what to do with replies.

    Parameters
    ----------
    port : of Redis.
    tls : the certificate that it shows, where stores speak TLS to it; it speaks none to Redis.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.redis_port = port
        self.tls = tls
        self.connections = 0
        self.drop_after = b""
        """A request with this in it reaches Redis, but its connection ends before the reply."""
        self.dropped = 0
        self.replace: dict[bytes, bytes] = {}
        """Replacements in replies."""
        self.swallow = 0
        """Number of the first connections that stay open while nothing comes through them any more."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(
            lambda r, w: tasks.add(asyncio.create_task(self._serve(r, w))), "127.0.0.1", ssl=self.tls
        )
        try:
            yield f"{'rediss' if self.tls else 'redis'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            there, here = await asyncio.open_connection("127.0.0.1", self.redis_port)
        except OSError:
            writer.close()
            return
        doomed = False

        async def requests() -> None:
            nonlocal doomed
            while data := await reader.read(1 << 16):
                if number <= self.swallow:
                    continue
                doomed = doomed or bool(self.drop_after and self.drop_after in data)
                here.write(data)

        async def replies() -> None:
            while data := await there.read(1 << 16):
                if doomed:
                    self.dropped += 1
                    return
                for old, new in self.replace.items():
                    data = data.replace(old, new)
                writer.write(data)

        tasks = [asyncio.create_task(requests()), asyncio.create_task(replies())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for end in (writer, here):
                end.close()
