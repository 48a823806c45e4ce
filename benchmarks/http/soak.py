"""Soak test: servers under mixed load for a long time, to detect growth after their models have stopped growing.

Some clients predict, update, store predictions and label them later, stream, list, scrape and take snapshots, in turns
and with pauses; others subscribe to events, and jobs train. The models know all their features and labels from the
start, so memory should not grow. With Redis, each client alternates between two replicas.
"""

import argparse
import itertools
import json
import random
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http.client import HTTPConnection

import numpy as np

from benchmarks.http import servers
from benchmarks.output import verdict

N_CLIENTS = 4
N_LISTENERS = 4
N_REPLICAS = {"sqlite": 1, "redis": 2}
N_FEATURES, N_LABELS = 500, 20
ALGORITHMS = ("falt", "salt", "kernel_falt", "passive_aggressive")
PAUSE_SECONDS = 0.04
SAMPLE_SECONDS = 5.0
JOB_SECONDS = 60.0
"""Seconds between the end of a job and the submission of the next."""
N_PARTS = 10
"""Number of parts of the run, each with a printed line."""
AIM = 2.0
"""Maximum percentage of the memory by which its trend may rise over the run."""

Sample = tuple[float, float, int, int]
"""Seconds, resident MB, open descriptors, and threads."""


def run(args: argparse.Namespace) -> None:
    """Print the resources of each server in each tenth of the run, and the latencies of the clients."""
    with ExitStack() as stack:
        flags = stack.enter_context(servers.store(args.store, args.port + 10))
        ports = [args.port + number for number in range(N_REPLICAS[args.store])]
        started = [stack.enter_context(servers.manylabel(port, flags, servers.CORES)) for port in ports]
        for algorithm in ALGORITHMS:
            servers.post(ports[0], "/v1/models", json.dumps(_spec(algorithm)).encode())
        load = _Load(ports)
        try:
            load.over.wait(60 * args.warm_up)
            load.took.clear()
            samples = _samples(started, 60 * args.minutes, load.over)
        finally:
            load.stop()
    load.print()
    print(f"\nsoak ({args.store}), {args.warm_up:g} minutes before      MB (min..max)    descriptors  threads")
    for server, lines in zip(started, samples, strict=True):
        if len(lines) >= N_PARTS:  # it ends early if a client fails
            _print(server.port, np.array(lines))


def _spec(algorithm: str) -> dict[str, object]:
    names = {"features": [f"f{n}" for n in range(N_FEATURES)], "labels": [f"l{n}" for n in range(N_LABELS)]}
    params = {"params": {"budget": 200}} if algorithm.startswith("kernel") else {}
    return {"name": algorithm, "algorithm": algorithm, **names, **params}


def _samples(started: Sequence[servers.Server], seconds: float, over: threading.Event) -> list[list[Sample]]:
    """Return samples of each server's resources every few seconds; end early if a client fails."""
    samples: list[list[Sample]] = [[] for _ in started]
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds and not over.wait(SAMPLE_SECONDS):
        for server, lines in zip(started, samples, strict=True):
            lines.append((passed, server.resident_bytes() / 1e6, *server.descriptors_and_threads()))
    return samples


class _Load:
    """Clients of all kinds, each in a thread; the first error stops all.

    Attributes
    ----------
    over : set when they are to stop, or one of them has failed.
    took : seconds that each call of a client took.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self.over = threading.Event()
        self.took: list[float] = []
        self._ports = ports
        self._failures: list[BaseException] = []
        self._events = self._jobs = 0
        users = [(self._use, seed) for seed in range(N_CLIENTS)]
        listeners = [(self._listen, number) for number in range(N_LISTENERS)]
        self._threads = [
            threading.Thread(target=self._until_over, args=work) for work in (*users, *listeners, (self._train, 0))
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()

    def print(self) -> None:
        p50, p99, longest = 1e3 * np.percentile(self.took or [np.nan], [50, 99, 100])
        print(
            f"\n{len(self.took):,} calls, p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {longest:,.0f} ms; "
            f"{self._events:,} events, {self._jobs} jobs; errors: {len(self._failures)}"
        )
        for failure in self._failures:
            print(f"  {failure!r}")

    def _until_over(self, work: Callable[[int], None], number: int) -> None:
        try:
            work(number)
        except Exception as error:
            if not self.over.is_set():
                self._failures.append(error)
            self.over.set()

    def _use(self, seed: int) -> None:
        rng = random.Random(seed)
        connections = itertools.cycle([HTTPConnection("127.0.0.1", port, timeout=60) for port in self._ports])
        calls = itertools.cycle((_update, _predict, _keep_and_label, _update, _stream, _predict, _look))
        while not self.over.wait(PAUSE_SECONDS):
            begun = time.perf_counter()
            next(calls)(next(connections), f"/v1/models/{rng.choice(ALGORITHMS)}", rng)
            self.took.append(time.perf_counter() - begun)

    def _listen(self, number: int) -> None:
        port, model = self._ports[number % len(self._ports)], ALGORITHMS[number % len(ALGORITHMS)]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models/{model}/events", timeout=60) as lines:
            while not self.over.is_set():
                self._events += lines.readline().startswith(b"event:")

    def _train(self, _: int) -> None:
        """Submit jobs on the stream of a model, one at a time."""
        order = {"trainer": "m3l", "data": {"stream": ALGORITHMS[0], "last": 500}, "model": "trained"}
        while not self.over.wait(JOB_SECONDS):
            connection = HTTPConnection("127.0.0.1", self._ports[0], timeout=60)  # idle connections are closed
            job = json.loads(_post(connection, "/v1/jobs", order))
            while job["state"] in ("queued", "running") and not self.over.wait(1.0):
                job = json.loads(_send(connection, "GET", f"/v1/jobs/{job['id']}"))
            if job["state"] == "failed":
                raise RuntimeError(f"a job failed: {job}")
            connection.close()
            self._jobs += 1


def _example(rng: random.Random) -> dict[str, object]:
    x = {f"f{n}": round(rng.random(), 3) for n in rng.sample(range(N_FEATURES), 30)}
    return {"x": x, "y": [f"l{n}" for n in rng.sample(range(N_LABELS), 3)]}


def _update(connection: HTTPConnection, model: str, rng: random.Random) -> None:
    _post(connection, f"{model}/update", {"examples": [_example(rng) for _ in range(10)]})


def _predict(connection: HTTPConnection, model: str, rng: random.Random) -> None:
    _post(connection, f"{model}/predict", {"x": _example(rng)["x"]})


def _keep_and_label(connection: HTTPConnection, model: str, rng: random.Random) -> None:
    example = _example(rng)
    kept = json.loads(_post(connection, f"{model}/predict?keep=true", {"x": example["x"]}))
    _post(connection, f"{model}/labels", {"id": kept["id"], "y": example["y"]})


def _stream(connection: HTTPConnection, model: str, rng: random.Random) -> None:
    lines = b"".join(json.dumps(_example(rng)).encode() + b"\n" for _ in range(10))
    _send(connection, "POST", f"{model}/stream", lines, "application/x-ndjson")


def _look(connection: HTTPConnection, model: str, rng: random.Random) -> None:
    for path in ("/metrics", "/v1/models", model, f"{model}/metrics"):
        _send(connection, "GET", path)
    if rng.random() < 0.01:
        taken = json.loads(_send(connection, "POST", f"{model}/snapshots"))
        _send(connection, "DELETE", f"{model}/snapshots/{taken['position']}")  # their number is limited


def _post(connection: HTTPConnection, path: str, document: object) -> bytes:
    return _send(connection, "POST", path, json.dumps(document).encode(), "application/json")


def _send(connection: HTTPConnection, method: str, path: str, body: bytes = b"", media_type: str = "") -> bytes:
    connection.request(method, path, body or None, {"Content-Type": media_type} if media_type else {})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {content[:500].decode(errors='replace')}")
    return content


def _print(port: int, samples: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    print(f"server on port {port}")
    for part in np.array_split(samples, N_PARTS):
        seconds, mb, descriptors, threads = part.T
        memory = f"{np.median(mb):24.1f} ({mb.min():.1f}..{mb.max():.1f})"
        print(f"to minute {seconds[-1] / 60:5.1f} {memory:44} {descriptors.max():6.0f} {threads.max():8.0f}")
    slope = np.polyfit(samples[:, 0], samples[:, 1], 1)[0]
    rise = slope * (samples[-1, 0] - samples[0, 0]) / np.median(samples[:, 1])
    aim = verdict(100 * rise, at_most=AIM)
    print(f"trend: {60 * slope:+.3f} MB a minute, {100 * rise:+.2f} % in all   {aim}")
