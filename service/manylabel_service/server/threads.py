"""Threads for long work: copies, files, large examples."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

MAX_THREADS = 6
NICENESS = 10
"""Niceness of the threads relative to the event loop, which needs the processor briefly but at once."""


def background_threads() -> ThreadPoolExecutor:
    """Return the executor of `asyncio.to_thread`; its threads have a lower priority if the system supports it."""
    return ThreadPoolExecutor(MAX_THREADS, "manylabel-background", initializer=_give_way)


def _give_way() -> None:
    if sys.platform == "linux":  # only Linux has priorities per thread
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
