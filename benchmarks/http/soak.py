"""Memory of a server under mixed load for a long time: does it rise after its models have stopped growing?

Some clients predict, update, keep predictions and label them later, stream, list, scrape and take snapshots, in turns
and with pauses. The models know all their features and labels from the start, so that nothing has a reason to grow.
"""

import argparse
import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection

import numpy as np

from benchmarks.http import servers

N_CLIENTS = 4
N_FEATURES, N_LABELS = 500, 20
ALGORITHMS = ("falt", "salt", "kernel_falt", "passive_aggressive")
PAUSE_SECONDS = 0.04
SAMPLE_SECONDS = 5.0
AIM = 0.02
"""Most of the memory by which its trend may rise over the time measured."""


def run(args: argparse.Namespace) -> None:
    """Measure, and print the memory of each tenth of the time."""
    with ExitStack() as stack:
        flags = stack.enter_context(
            servers.redis(args.port + 10, "everysec") if args.store == "redis" else servers.sqlite()
        )
        server = stack.enter_context(servers.manylabel(args.port, flags, servers.CORES))
        for algorithm in ALGORITHMS:
            servers.post(args.port, "/v1/models", json.dumps(_spec(algorithm)).encode())
        stop = threading.Event()
        clients = [threading.Thread(target=_use, args=(args.port, seed, stop)) for seed in range(N_CLIENTS)]
        for client in clients:
            client.start()
        try:
            stop.wait(60 * args.warm_up)
            samples = list(_samples(server, 60 * args.minutes))
        finally:
            stop.set()
            for client in clients:
                client.join()
    _print(np.array(samples), args)


def _spec(algorithm: str) -> dict[str, object]:
    names = {"features": [f"f{n}" for n in range(N_FEATURES)], "labels": [f"l{n}" for n in range(N_LABELS)]}
    params = {"params": {"budget": 200}} if algorithm.startswith("kernel") else {}
    return {"name": algorithm, "algorithm": algorithm, **names, **params}


def _samples(server: servers.Server, seconds: float) -> Iterator[tuple[float, float, int, int]]:
    """Seconds, resident MB, open descriptors, and threads."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        yield passed, server.resident_bytes() / 1e6, *server.descriptors_and_threads()
        time.sleep(SAMPLE_SECONDS)


def _use(port: int, seed: int, stop: threading.Event) -> None:
    rng = random.Random(seed)
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    calls = itertools.cycle((_update, _predict, _keep_and_label, _update, _stream, _predict, _look))
    while not stop.wait(PAUSE_SECONDS):
        next(calls)(connection, f"/v1/models/{rng.choice(ALGORITHMS)}", rng)


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
        _send(connection, "POST", f"{model}/snapshots")


def _post(connection: HTTPConnection, path: str, document: object) -> bytes:
    return _send(connection, "POST", path, json.dumps(document).encode(), "application/json")


def _send(connection: HTTPConnection, method: str, path: str, body: bytes = b"", media_type: str = "") -> bytes:
    connection.request(method, path, body or None, {"Content-Type": media_type} if media_type else {})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {content[:500].decode(errors='replace')}")
    return content


def _print(samples: np.ndarray[tuple[int, int], np.dtype[np.float64]], args: argparse.Namespace) -> None:
    print(f"\nsoak ({args.store}), {args.warm_up:g} minutes before      MB (min..max)    descriptors  threads")
    for part in np.array_split(samples, 10):
        seconds, mb, descriptors, threads = part.T
        memory = f"{np.median(mb):24.1f} ({mb.min():.1f}..{mb.max():.1f})"
        print(f"to minute {seconds[-1] / 60:5.1f} {memory:44} {descriptors.max():6.0f} {threads.max():8.0f}")
    slope = np.polyfit(samples[:, 0], samples[:, 1], 1)[0]
    rise = slope * (samples[-1, 0] - samples[0, 0]) / np.median(samples[:, 1])
    verdict = f"aim {100 * AIM:g} %: {'met' if rise <= AIM else 'MISSED'}"
    print(f"trend: {60 * slope:+.3f} MB a minute, {100 * rise:+.2f} % in all   {verdict}")
