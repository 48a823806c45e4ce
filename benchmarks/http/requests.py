"""Requests per second of each operation, relative to an empty FastAPI endpoint with the same body model.

Both run in separate processes with the same event loop, HTTP parser and number of workers (one) on the same core, and
take turns under the same load. An example has 103 numbers and 14 labels, like yeast.
"""

import argparse
import json
import statistics
from contextlib import ExitStack

import numpy as np
import uvloop

from benchmarks.http import servers
from benchmarks.http.load import Load, apply_load, post
from benchmarks.output import spread, verdict

N_FEATURES, N_LABELS = 103, 14
AIMS = {
    "sqlite": {"predict": 0.8, "update (log)": 0.6},
    "redis": {"update (everysec)": 0.5},
}
"""Minimum share of the empty endpoint's requests per second at 64 connections."""

Endpoints = dict[str, tuple[int, str]]
"""Port and path by row of the table."""


def run(args: argparse.Namespace) -> None:
    """Print a table for each number of connections."""
    examples = bodies()
    with ExitStack() as stack:
        empty = stack.enter_context(servers.empty_endpoint(args.port))
        endpoints: Endpoints = {"empty": (empty.port, "/empty")}
        endpoints |= (_on_redis if args.store == "redis" else _on_sqlite)(stack, args.port + 1, examples[0])
        for n_connections in args.connections:
            runs = _measure(endpoints, examples, n_connections, args.requests, args.repeats)
            _print(n_connections, runs, AIMS[args.store] if n_connections == 64 else {})


def _on_sqlite(stack: ExitStack, port: int, body: bytes) -> Endpoints:
    """Start a server for each durability."""
    ports = {"log": port, "fsync": port + 1}
    for durability, at in ports.items():
        flags = stack.enter_context(servers.sqlite())
        stack.enter_context(servers.manylabel(at, [*flags, "--durability", durability]))
        create(at, "m", body)
    return {
        "predict": (port, "/v1/models/m/predict"),
        **{f"update ({durability})": (at, "/v1/models/m/update") for durability, at in ports.items()},
        "predict-update (log)": (port, "/v1/models/m/predict-update"),
    }


def _on_redis(stack: ExitStack, port: int, body: bytes) -> Endpoints:
    """Start a Redis for each append-only file policy, and a server for each."""
    ports = {"everysec": port, "always": port + 1}
    for policy, at in ports.items():
        flags = stack.enter_context(servers.redis(at + 10, policy))
        stack.enter_context(servers.manylabel(at, flags))
        create(at, "m", body)
    return {
        "predict": (ports["everysec"], "/v1/models/m/predict"),
        **{f"update ({policy})": (at, "/v1/models/m/update") for policy, at in ports.items()},
        **{f"predict-update ({policy})": (at, "/v1/models/m/predict-update") for policy, at in ports.items()},
    }


def bodies(n_bodies: int = 64) -> list[bytes]:
    """Return examples as JSON."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(n_bodies):
        x = [round(v, 6) for v in rng.normal(size=N_FEATURES).tolist()]
        y = [f"Class{i + 1}" for i in np.flatnonzero(rng.random(N_LABELS) < 0.3)]
        made.append(json.dumps({"x": x, "y": y}).encode())
    return made


def create(port: int, name: str, body: bytes, key: str = "") -> None:
    """Create a model that knows every label before the measurement."""
    spec = {"name": name, "algorithm": "falt", "scaling": "unit"}
    servers.post(port, "/v1/models", json.dumps(spec).encode(), key)
    all_labels = json.dumps({"x": json.loads(body)["x"], "y": [f"Class{i + 1}" for i in range(N_LABELS)]}).encode()
    servers.post(port, f"/v1/models/{name}/update", all_labels, key)


def _measure(
    endpoints: Endpoints, examples: list[bytes], n_connections: int, n_requests: int, repeats: int
) -> dict[str, list[Load]]:
    """Run the endpoints in turns, so that slow phases of the machine affect all of them."""
    runs: dict[str, list[Load]] = {name: [] for name in endpoints}
    for repeat in range(repeats + 1):
        for name, (port, path) in endpoints.items():
            requests = [post(path, body) for body in examples]
            load = uvloop.run(apply_load(port, requests, n_connections, n_requests))
            if repeat:  # the first is a warm-up
                runs[name].append(load)
    return runs


def _print(n_connections: int, runs: dict[str, list[Load]], aims: dict[str, float]) -> None:
    print(f"\n{n_connections} connections          requests/s   of empty (min..max)      p50 ms   p99 ms")
    for name, loads in runs.items():
        shares = [
            ours.requests_per_second / empty.requests_per_second
            for ours, empty in zip(loads, runs["empty"], strict=True)
        ]
        rate, p50, p99 = (
            statistics.median(getattr(load, field) for load in loads)
            for field in ("requests_per_second", "p50_ms", "p99_ms")
        )
        aim = verdict(statistics.median(shares), at_least=aims.get(name))
        print(f"{name:25} {rate:12,.0f}   {spread(shares, '5.2f'):22} {p50:8.2f} {p99:8.2f}   {aim}")
