"""Metrics of all server processes in every scrape.

A scrape reaches only one worker, but must return the metrics of all. Each worker writes its series, labelled with its
number, to any process that connects to its socket in the server's private directory; the scraped worker joins all
series. Each process has its own counters, so requests share no state, and counters of a restarted process begin at 0,
as Prometheus expects.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import structlog

log = structlog.get_logger()

ANSWER_SECONDS = 2.0
"""Timeout in seconds of a scrape for another worker. A frozen worker is then shown as down."""
MAX_BYTES = 2**28
"""Maximum bytes of the text of another process."""

_UP = b"# HELP manylabel_worker_up Whether the worker answered to this scrape.\n# TYPE manylabel_worker_up gauge\n"


class WorkerMetrics:
    """Exchange of metrics between the workers of a server.

    Parameters
    ----------
    directory : directory of the sockets.
    number : number of this process.
    of : total number of processes.
    """

    def __init__(self, directory: Path, number: int, of: int) -> None:
        self.number = number
        self._directory = directory
        self._others = [other for other in range(of) if other != number]
        self._server: asyncio.Server | None = None

    async def listen(self, exposition: Callable[[], Awaitable[bytes]]) -> None:
        """Respond to the other processes from now on.

        Parameters
        ----------
        exposition : returns the series of this process in Prometheus' text format.
        """

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    writer.write(await exposition())
                    await writer.drain()
            except (OSError, TimeoutError):
                pass  # the worker that asked has exited, or will ask again
            except Exception:
                log.exception("metrics_failed")
            finally:
                writer.close()

        path = self._path(self.number)
        path.unlink(missing_ok=True)  # the socket of an earlier worker with this number
        self._server = await asyncio.start_unix_server(answer, path)  # responds while the lock is held

    def close(self) -> None:
        """Stop responding."""
        if self._server is not None:
            self._server.close()

    async def joined(self, own: bytes) -> bytes:
        """Return the series of this process and of all others that respond in time.

        Parameters
        ----------
        own : series of this process in Prometheus' text format.
        """
        answers = await asyncio.gather(*(self._ask(other) for other in self._others))
        texts = sorted((dict(zip(self._others, answers, strict=True)) | {self.number: own}).items())
        up = [f'manylabel_worker_up{{worker="{number}"}} {float(text is not None)}\n' for number, text in texts]
        return join([*(text for _, text in texts if text), _UP + "".join(up).encode()])

    async def _ask(self, other: int) -> bytes | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._path(other))
                try:
                    return await _read(reader)
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None

    def _path(self, number: int) -> Path:
        return self._directory / f"{number}.sock"


async def _read(reader: asyncio.StreamReader) -> bytes | None:
    parts, size = [], 0
    while part := await reader.read(2**20):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            return None
    return b"".join(parts) or None


def join(texts: Iterable[bytes]) -> bytes:
    """Merge texts in Prometheus' format: every family once, with all series.

    The texts are from one program, so a family has the same header in each.
    """
    families: dict[tuple[bytes, bytes], list[bytes]] = {}
    for text in texts:
        for family in (b"\n" + text).split(b"\n# HELP ")[1:]:
            help_, type_, *series = family.split(b"\n", 2)
            families.setdefault((help_, type_), []).append(series[0].rstrip(b"\n") if series else b"")
    return b"".join(
        b"".join((b"# HELP ", *(line + b"\n" for line in (*head, *filter(None, series)))))
        for head, series in families.items()
    )
