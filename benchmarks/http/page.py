"""Web UI of a model during updates: memory of the tab, and cost for the server.

The page of a model stays open and visible in a browser (`MANYLABEL_TEST_CHROMIUM`, or chromium). Before and after, the
server handles the same updates without the page; the difference is the cost.
"""

import argparse
import json
import os
import random
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.http import servers

RATE = 100.0
"""Updates per second, of one example each."""
N_FEATURES, N_LABELS = 500, 20
PER_EXAMPLE = 10
N_BODIES = 997
SAMPLE_SECONDS = 15.0
ALONE_SHARE = 0.15
"""Share of the duration before the page is opened, and again after it is closed."""
N_PARTS = 10
AIM = 0.02
"""Maximum share of a core that the page may cost the server."""


class Sample(NamedTuple):
    """Memory of the tab after garbage collection: seconds since it was opened, MB, MB and DOM nodes."""

    seconds: float
    heap: float
    resident: float
    nodes: float


class Phase(NamedTuple):
    """Phase of the run: its seconds, the CPU seconds of the server, and the updates learnt."""

    seconds: float
    cpu: float
    updates: int


def run(args: argparse.Namespace) -> None:
    """Print the memory of the tab in each tenth of the run, and the cost for the server."""
    seconds = 60 * args.minutes
    with servers.sqlite() as flags, servers.manylabel(args.port, flags) as server:
        servers.post(args.port, "/v1/models", json.dumps({"name": "watched", "algorithm": "falt"}).encode())
        load = _Load(args.port)
        try:
            time.sleep(60 * args.warm_up)
            phases: dict[str, Phase] = {}
            with _measured(phases, "alone, before", server, load):
                time.sleep(ALONE_SHARE * seconds)
            with _measured(phases, "with the page", server, load):
                samples = _watch(server, (1 - 2 * ALONE_SHARE) * seconds)
            with _measured(phases, "alone, after", server, load):
                time.sleep(ALONE_SHARE * seconds)
        finally:
            load.stop()
    print(
        f"\npage: {load.sent:,} updates, {RATE:g} a second asked for; errors: {len(load.failures)} {load.failures[:1]}"
    )
    _print(samples)
    print("\nserver           seconds    updates/s    share of a core    ms an update")
    for name, (took, cpu, updates) in phases.items():
        each = 1e3 * cpu / max(updates, 1)
        print(f"{name:<13} {took:>10.0f} {updates / took:>12.1f} {cpu / took:>18.4f} {each:>15.3f}")
    _print_cost(phases)


def _print_cost(phases: dict[str, Phase]) -> None:
    """Print the CPU time of the server with the page, beyond that of the same number of updates without it."""
    took, cpu, updates = phases.pop("with the page")
    each = sum(phase.cpu for phase in phases.values()) / max(sum(phase.updates for phase in phases.values()), 1)
    print(f"the page cost the server {(cpu - updates * each) / took:.4f} of a core; aim: {AIM}")


@contextmanager
def _measured(phases: dict[str, Phase], name: str, server: servers.Server, load: "_Load") -> Iterator[None]:
    """Record the CPU time of the server during the block."""
    begun, cpu, sent = time.monotonic(), server.cpu_seconds(), load.sent
    yield
    phases[name] = Phase(time.monotonic() - begun, server.cpu_seconds() - cpu, load.sent - sent)


def _watch(server: servers.Server, seconds: float) -> list[Sample]:
    """Return samples of the memory of a tab that is open for this time."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("MANYLABEL_TEST_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"http://127.0.0.1:{server.port}/#/models/watched")
        page.get_by_text("How well it predicts").wait_for()
        tab, whole = page.context.new_cdp_session(page), browser.new_browser_cdp_session()
        tab.send("Performance.enable")
        samples: list[Sample] = []
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            tab.send("HeapProfiler.collectGarbage")
            found = {metric["name"]: metric["value"] for metric in tab.send("Performance.getMetrics")["metrics"]}
            processes = whole.send("SystemInfo.getProcessInfo")["processInfo"]
            resident = sum(_resident(process["id"]) for process in processes if process["type"] == "renderer")
            samples.append(Sample(passed, found["JSHeapUsedSize"] / 1e6, resident / 1e6, found["Nodes"]))
            page.wait_for_timeout(1e3 * min(SAMPLE_SECONDS, max(seconds - passed, 0.1)))
        browser.close()
    return samples


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0


def _print(samples: Sequence[Sample]) -> None:
    print("part of the time    heap MB    processes MB    nodes")
    for number, part in enumerate(np.array_split(np.array(samples), N_PARTS)):
        if len(part):
            heap, resident, nodes = part[:, 1:].mean(axis=0)
            print(f"{number + 1:>16}    {heap:7.2f}    {resident:12.1f}    {nodes:5.0f}")
    table = np.array(samples[len(samples) // N_PARTS :])  # the first tenth fills bounded buffers
    if len(table) > N_PARTS:
        for name, column in (("heap", 1), ("processes", 2), ("nodes", 3)):
            slope = np.polyfit(table[:, 0], table[:, column], 1)[0]
            rise = slope * (table[-1, 0] - table[0, 0]) / table[:, column].mean()
            print(f"trend of {name} over the last nine tenths: {rise:+.1%}")


class _Load:
    """Thread that sends updates at a constant rate until it is stopped.

    Attributes
    ----------
    sent : number of updates with the response 200.
    failures : errors, and other responses.
    """

    def __init__(self, port: int) -> None:
        self.sent = 0
        self.failures: list[str] = []
        self._port = port
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        due = time.monotonic()
        for body in cycle(_bodies()):
            due = max(due + 1 / RATE, time.monotonic() - 1)  # updates missed on a busy machine are not sent later
            if self._over.wait(max(0.0, due - time.monotonic())):
                break
            try:
                connection.request("POST", "/v1/models/watched/update", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    self.sent += 1
                else:
                    self.failures.append(f"status {answer.status}")
            except OSError as error:
                self.failures.append(repr(error))
                connection.close()
        connection.close()


def _bodies() -> list[bytes]:
    rng = random.Random(0)
    bodies = []
    for _ in range(N_BODIES):
        chosen = rng.sample(range(N_FEATURES), PER_EXAMPLE)
        x = {f"f{n}": round(rng.random(), 3) for n in chosen}
        bodies.append(json.dumps({"x": x, "y": sorted({f"l{n % N_LABELS}" for n in chosen[:3]})}).encode())
    return bodies
