"""Threads for long work have a lower priority than the event loop."""

import os
import sys
import threading

import pytest

from manylabel_service.server.process import NICENESS, background_threads


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
def test_background_threads_have_a_lower_priority() -> None:
    before = niceness()
    with background_threads() as threads:
        assert threads.submit(niceness).result() == max(before, NICENESS)
    assert niceness() == before
