"""Files that are opened in a thread, and closed even if the caller has stopped waiting for them."""

import asyncio
from collections.abc import Callable
from typing import IO


async def open_in_thread(open_file: Callable[[], IO[bytes]]) -> IO[bytes]:
    """Open a file in a thread; close it again if the caller is cancelled.

    Raises
    ------
    OSError
        It cannot be opened.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(open_file))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close)
        raise


def _close(opening: asyncio.Future[IO[bytes]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
