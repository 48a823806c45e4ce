"""A well-behaved client next to hostile clients: its latency, its responses, and the memory of the server.

The settings are the server's defaults. A prediction of the well-behaved client is timed on a quiet server first, then
while all others attack (benchmarks.http.hostile).
"""

import argparse
import json
import threading
import time
from collections import Counter
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException

import numpy as np

from benchmarks.http import hostile, servers
from benchmarks.output import verdict

QUIET_SECONDS = 10.0
AFTER_SECONDS = 5.0
"""Seconds after the storm within which latencies must be as before."""
MAX_CONNECTIONS = "5000"
PAUSE_SECONDS = 0.005
AIM_RATIO = 5.0
AIM_MB = 2_000.0


def run(args: argparse.Namespace) -> None:
    """Print a table."""
    print(f"\nstorm ({args.store})       predictions    p50 ms    p99 ms    max ms   answers")
    with ExitStack() as stack:
        flags = [*stack.enter_context(servers.store(args.store, args.port + 10)), "--max-connections", MAX_CONNECTIONS]
        server = stack.enter_context(servers.manylabel(args.port, flags))
        servers.post(args.port, "/v1/models", b'{"name": "victim", "algorithm": "falt"}')
        servers.post(args.port, "/v1/models/victim/update", b'{"x": {"a": 1, "b": 2}, "y": ["c"]}')
        hostile.prepare(args.port)
        memory = _Memory(server)
        quiet, _ = _predict(args.port, QUIET_SECONDS)
        with hostile.attacking(args.port, args.seconds + 30, args.hostile):
            time.sleep(3.0)  # until their processes have started
            stormy, answers = _predict(args.port, args.seconds)
        soon, _ = _predict(args.port, AFTER_SECONDS)
        after, _ = _predict(args.port, QUIET_SECONDS)
        most, at_last = memory.stop(), server.resident_bytes()
        refused = _refused(args.port)
    _print("quiet", quiet, Counter({200: len(quiet)}))
    _print("in the storm", stormy, answers)
    _print("just afterwards", soon, Counter({200: len(soon)}))
    _print(f"{AFTER_SECONDS:g} s later", after, Counter({200: len(after)}))
    ratio = float(np.percentile(stormy, 99) / np.percentile(quiet, 99))
    print(f"p99 in the storm / quiet: {ratio:.1f}   {verdict(ratio, at_most=AIM_RATIO)}")
    print(f"refused: {refused or 'nothing'}; memory in the end {at_last / 1e6:,.0f} MB")
    print(f"most memory: {most / 1e6:,.0f} MB   {verdict(most / 1e6, at_most=AIM_MB)}")


class _Memory(threading.Thread):
    """Thread that samples the memory of a server ten times per second."""

    def __init__(self, server: servers.Server) -> None:
        super().__init__(daemon=True)
        self._server, self._most, self._over = server, 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.1):
            self._most = max(self._most, self._server.resident_bytes())

    def stop(self) -> int:
        """Stop, and return the maximum."""
        self._over.set()
        self.join()
        return self._most


def _predict(port: int, seconds: float) -> tuple[list[float], Counter[int]]:
    """Return the seconds of each prediction, and the number of responses by status; 0 is no response."""
    took, answers = [], Counter[int]()
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    body, headers = json.dumps({"x": {"a": 1, "b": 2}}), {"Content-Type": "application/json"}
    until = time.monotonic() + seconds
    while (begun := time.monotonic()) < until:
        try:
            connection.request("POST", "/v1/models/victim/predict", body, headers)
            answer = connection.getresponse()
            answer.read()
            answers[answer.status] += 1
        except (OSError, HTTPException):
            answers[0] += 1
            connection.close()
        took.append(time.monotonic() - begun)
        time.sleep(PAUSE_SECONDS)
    connection.close()
    return took, answers


def _refused(port: int) -> str:
    """Return the number of rejections of the server by error code."""
    begin = "manylabel_rejections_total{"
    lines = [line for line in servers.get(port, "/metrics").decode().splitlines() if line.startswith(begin)]
    counts = {line.partition('reason="')[2].partition('"')[0]: float(line.rpartition(" ")[2]) for line in lines}
    return ", ".join(f"{reason}: {count:,.0f}" for reason, count in sorted(counts.items()))


def _print(what: str, seconds: list[float], answers: Counter[int]) -> None:
    p50, p99 = 1e3 * np.percentile(seconds, [50, 99])
    counted = ", ".join(f"{status or 'none'}: {count:,}" for status, count in sorted(answers.items()))
    print(f"{what:18} {len(seconds):17,} {p50:9.2f} {p99:9.2f} {1e3 * max(seconds):9.1f}   {counted}")
