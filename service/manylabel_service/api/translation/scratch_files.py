"""Files without a name on the disk of the data directory, for what is too large to be held in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from starlette.requests import ClientDisconnect, Request

from manylabel_service.api.translation.dataset_uploads import full_or
from manylabel_service.api.web.bodies import check_headers, in_time, too_large
from manylabel_service.datasets.dataset_store import DatasetStore


async def scratch_file(datasets: DatasetStore, stack: ExitStack) -> IO[bytes]:
    """Return a new file, which `stack` closes; raise StorageFull."""
    with full_disk():
        return stack.enter_context(await asyncio.to_thread(datasets.scratch_file))


@contextmanager
def full_disk() -> Iterator[None]:
    """Raise StorageFull where a file inside cannot be written because the disk is full."""
    try:
        yield
    except OSError as error:
        raise full_or(error) from error


async def write_body(request: Request, media_type: bytes, max_bytes: int, idle_seconds: float, file: IO[bytes]) -> int:
    """Write the body of a request that says it is of this type to a file; return its size in bytes.

    Raises
    ------
    Problem
        unsupported_media_type, body_too_large, or stream_idle.
    StorageFull
    ClientDisconnect
        The client went away before it had sent everything.
    """
    check_headers(request, media_type, max_bytes)
    receive, size_bytes, more = in_time(request.receive, idle_seconds), 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size_bytes += len(chunk)
        if size_bytes > max_bytes:
            raise too_large(max_bytes)
        with full_disk():
            await asyncio.to_thread(file.write, chunk)
    with full_disk():
        await asyncio.to_thread(file.flush)
    return size_bytes
