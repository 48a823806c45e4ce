"""Requests per second of the service against an empty FastAPI endpoint with the same body model.

Both run as their own processes with the same event loop, HTTP parser and number of workers (one), and take turns
under the same load. An example has 103 numbers and 14 labels, as the yeast data.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import uvloop
from benchmarks.http_load import Load, apply_load, post
from benchmarks.machine import print_machine

N_FEATURES, N_LABELS = 103, 14
AIMS = {"predict": 0.8, "update (log)": 0.6}
"""Least share of the empty endpoint's requests per second at 64 connections."""

EMPTY_APP = """
import sys, uvicorn
from fastapi import FastAPI
from manylabel_service.api.schemas import UpdateItem

app = FastAPI()

@app.post("/empty")
async def empty(item: UpdateItem) -> dict[str, str]:
    return {"status": "ok"}

uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--requests", type=int, default=4000, help="per run and endpoint")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each endpoint, taken in turns")
    parser.add_argument("--port", type=int, default=18700, help="first of two ports to use")


def run(args: argparse.Namespace) -> None:
    print_machine("fastapi", "uvicorn", "uvloop", "httptools", "pydantic", "numba")
    bodies = _bodies()
    with ExitStack() as stack:
        empty, ours = args.port, args.port + 1
        stack.enter_context(_process([sys.executable, "-c", EMPTY_APP, str(empty)]))
        data_dir = stack.enter_context(tempfile.TemporaryDirectory())
        flags = ["--port", str(ours), "--data-dir", data_dir, "--log-level", "warning"]
        stack.enter_context(_process([sys.executable, "-m", "manylabel_service", *flags]))
        _wait_for(f"http://127.0.0.1:{empty}/openapi.json")
        _wait_for(f"http://127.0.0.1:{ours}/readyz")
        endpoints = {"empty": (empty, "/empty")} | {
            name: (ours, path) for name, path in _models(ours, bodies[0]).items()
        }
        for n_connections in args.connections:
            runs = _measure(endpoints, bodies, n_connections, args.requests, args.repeats)
            _print(n_connections, runs)


def _bodies(n_bodies: int = 64) -> list[bytes]:
    rng = np.random.default_rng(0)
    bodies = []
    for _ in range(n_bodies):
        x = [round(v, 6) for v in rng.normal(size=N_FEATURES).tolist()]
        y = [f"Class{i + 1}" for i in np.flatnonzero(rng.random(N_LABELS) < 0.3)]
        bodies.append(json.dumps({"x": x, "y": y}).encode())
    return bodies


def _models(port: int, body: bytes) -> dict[str, str]:
    """Create a model for each row of the table; all know every label before the measurement."""
    all_labels = json.dumps({"x": json.loads(body)["x"], "y": [f"Class{i + 1}" for i in range(N_LABELS)]}).encode()
    paths = {}
    for durability in ("memory", "log", "fsync"):
        spec = {"name": durability, "algorithm": "falt", "scaling": "unit", "durability": durability}
        _post(port, "/v1/models", json.dumps(spec).encode())
        _post(port, f"/v1/models/{durability}/update", all_labels)
        paths[f"update ({durability})"] = f"/v1/models/{durability}/update"
    return {
        "predict": "/v1/models/log/predict",
        **paths,
        "predict-update (log)": "/v1/models/log/predict-update",
    }


def _measure(
    endpoints: dict[str, tuple[int, str]],
    bodies: list[bytes],
    n_connections: int,
    n_requests: int,
    repeats: int,
) -> dict[str, list[Load]]:
    """Runs of every endpoint, in turns, so that a slow spell of the machine meets them all."""
    runs: dict[str, list[Load]] = {name: [] for name in endpoints}
    for repeat in range(repeats + 1):
        for name, (port, path) in endpoints.items():
            requests = [post(path, body) for body in bodies]
            load = uvloop.run(apply_load(port, requests, n_connections, n_requests))
            if repeat:  # the first is a warm-up
                runs[name].append(load)
    return runs


def _print(n_connections: int, runs: dict[str, list[Load]]) -> None:
    print(f"\n{n_connections} connections       requests/s   of empty (min..max)      p50 ms   p99 ms")
    for name, loads in runs.items():
        shares = [
            ours.requests_per_second / empty.requests_per_second
            for ours, empty in zip(loads, runs["empty"], strict=True)
        ]
        share = statistics.median(shares)
        rate, p50, p99 = (
            statistics.median(getattr(load, field) for load in loads)
            for field in ("requests_per_second", "p50_ms", "p99_ms")
        )
        aim = AIMS.get(name) if n_connections == 64 else None
        verdict = "" if aim is None else f"   aim {aim}: {'met' if share >= aim else 'MISSED'}"
        spread = f"{share:5.2f} ({min(shares):.2f}..{max(shares):.2f})"
        print(f"{name:22} {rate:12,.0f}   {spread:22} {p50:8.2f} {p99:8.2f}{verdict}")


def _post(port: int, path: str, body: bytes) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request) as answer:
        answer.read()


@contextmanager
def _process(command: list[str]) -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(url: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
