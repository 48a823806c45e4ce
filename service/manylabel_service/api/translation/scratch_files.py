"""Files without a name on the disk of the data directory, for what is too large to be held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from starlette.requests import Request

from manylabel_service.api.translation.dataset_uploads import (
    UPLOAD_SECONDS,
    Part,
    chunks,
    full_or,
    giving_way,
    scratch_file,
)
from manylabel_service.api.web.bodies import check_headers
from manylabel_service.datasets.dataset_store import DatasetStore


@contextmanager
def full_disk() -> Iterator[None]:
    """Raise StorageFull where a file inside cannot be written because the disk is full."""
    try:
        yield
    except OSError as error:
        raise full_or(error) from error


async def receive_file(
    request: Request, media_type: bytes, max_bytes: int, idle_seconds: float, datasets: DatasetStore, stack: ExitStack
) -> tuple[IO[bytes], int]:
    """Return the body of a request that says it is of this type as a file, which `stack` closes, and its size in bytes.

    Until then it has its room among the uploads under way; what is still coming gives way when others need it.

    Raises
    ------
    Problem
        unsupported_media_type, body_too_large, or stream_idle.
    NotReady
        There is no room, or it gave way.
    StorageFull
    ClientDisconnect
        The client went away before it had sent everything.
    """
    check_headers(request, media_type, max_bytes)
    upload = stack.enter_context(datasets.uploads.upload())
    part = Part(await scratch_file(datasets, stack), max_bytes)
    async with giving_way(upload, UPLOAD_SECONDS):
        async for chunk in chunks(request, idle_seconds):
            datasets.uploads.add(upload, len(chunk))
            await part.write(chunk)
        await part.flush()
    return part.file, part.size
