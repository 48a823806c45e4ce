"""Threads for long work have a lower priority than the event loop, once the server is ready."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.waiting import DEADLINE_SECONDS

from manylabel_service.server.process import NICENESS, background_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")

SERVE = """
import asyncio, os, signal, sys, threading
from pathlib import Path
from manylabel_core.kernels import Counts
from manylabel_service import app
from manylabel_service.hosting.kernels import BASE, Gate, Kernels
from manylabel_service.server.process import run
from manylabel_service.server.sockets import listen
from manylabel_service.settings import Settings

def report():
    print(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), flush=True)

def ready():
    running = asyncio.get_running_loop().run_in_executor(None, report)
    running.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))

app.Kernels = lambda: Kernels(Gate(), lambda tiers: Counts(0, 0), lambda tiers: tiers == (BASE,) and report())
settings = Settings(data_dir=Path(sys.argv[1]), port=0)
sys.exit(run(settings, listen(settings), on_ready=ready))
"""


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_background_threads_have_a_lower_priority() -> None:
    before = niceness()
    with background_threads() as threads:
        assert threads.submit(niceness).result() == max(before, NICENESS)
    assert niceness() == before


@pytest.mark.usefixtures("programs")
def test_a_server_loads_functions_at_normal_priority(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVE, str(tmp_path)]
    served = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert served.returncode == 0, served.stderr
    assert [int(line) for line in served.stdout.splitlines()] == [niceness(), max(niceness(), NICENESS)]
