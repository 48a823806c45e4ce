"""A server that reports how long its event loop was blocked.

Run it by ``python -m tests.support.watched_server FILE FLAGS...``. FILE has one float64: the most processor time, in
seconds, that the thread of the loop took between two turns of a waiting task. The reader sets it back to 0. Processor
time does not grow while other processes have the processor.
"""

import asyncio
import mmap
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TURN_SECONDS = 0.001


def shared(file: Path) -> NDArray[np.float64]:
    """Return the number in a file as an array that other processes see."""
    with file.open("r+b") as opened:
        return np.frombuffer(mmap.mmap(opened.fileno(), 8), dtype=np.float64)


async def _watch(worst: NDArray[np.float64]) -> None:
    before = time.thread_time()
    while True:
        await asyncio.sleep(TURN_SECONDS)
        now = time.thread_time()
        worst[0] = max(worst[0], now - before)
        before = now


def main() -> int:
    from manylabel_service.__main__ import main as serve
    from manylabel_service.server import process

    worst = shared(Path(sys.argv.pop(1)))
    create: Callable[..., Any] = process.create_app

    def create_watched(*arguments: Any, **options: Any) -> Any:
        app = create(*arguments, **options)
        lifespan = app.router.lifespan_context

        @asynccontextmanager
        async def watched(app: Any) -> AsyncIterator[Any]:
            async with lifespan(app) as state:
                watching = asyncio.create_task(_watch(worst))
                yield state
                watching.cancel()

        app.router.lifespan_context = watched
        return app

    process.create_app = create_watched  # type: ignore[assignment]
    return serve()


if __name__ == "__main__":
    sys.exit(main())
