"""Seconds from the start of a process until it is ready, and until 100 models of 1 MB are restored."""

import argparse
import json
import time
from contextlib import ExitStack

from benchmarks.http import servers
from benchmarks.output import spread

N_MODELS, N_FEATURES, N_LABELS = 100, 2_500, 100
"""Sizes of the restored models; a weight has 4 bytes."""


def run(args: argparse.Namespace) -> None:
    """Print a line for each store."""
    print("\nfrom the start                    seconds  (min..max)")
    for models in (0, N_MODELS):
        with ExitStack() as stack:
            flags = stack.enter_context(servers.store(args.store, args.port + 10))
            size = _fill(args.port, flags, models)
            seconds = [_start(args.port, flags, models) for _ in range(args.repeats)]
        name = f"{args.store}, {models} models" + (f" of {size / 1e6:.1f} MB" if models else "")
        for until, each in zip(("ready", "restored"), zip(*seconds, strict=True), strict=True):
            print(f"{name + ', ' + until:38} {spread(each):>20}")


def _fill(port: int, flags: list[str], n_models: int) -> float:
    """Store the models, each with a snapshot; return the bytes of one."""
    labels = [f"label {i}" for i in range(N_LABELS)]
    item = {"x": {"indices": [0, N_FEATURES - 1], "values": [1.0, 1.0]}, "y": labels[:3]}
    size = 0.0
    with servers.manylabel(port, flags) as server:
        for i in range(n_models):
            spec = {"name": f"m{i}", "algorithm": "falt", "features": N_FEATURES, "labels": labels}
            servers.post(port, "/v1/models", json.dumps(spec).encode())
            servers.post(port, f"/v1/models/m{i}/update", json.dumps(item).encode())
        if n_models:
            size = json.loads(servers.get(port, "/v1/models/m0"))["bytes"]
        server.stop()  # takes the snapshots
    return size


def _start(port: int, flags: list[str], n_models: int) -> tuple[float, float]:
    started = time.perf_counter()
    with servers.manylabel(port, flags):
        ready = time.perf_counter() - started
        while _n_restored(port) < n_models:
            time.sleep(0.01)
        return ready, time.perf_counter() - started


def _n_restored(port: int) -> int:
    """Return the number of models in the memory of a server."""
    models = json.loads(servers.get(port, "/v1/models"))["models"]
    return sum(model["loaded"] for model in models)
