"""The threads for what takes long: copies, files, large examples."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

MAX_THREADS = 6
NICENESS = 10
"""Niceness of the threads relative to the event loop, which needs the processor briefly but at once."""


def background_threads() -> ThreadPoolExecutor:
    """Return what runs `asyncio.to_thread`; its threads give way to the others of the process where the system can."""
    return ThreadPoolExecutor(MAX_THREADS, "manylabel-background", initializer=_give_way)


def _give_way() -> None:
    if sys.platform == "linux":  # where a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
