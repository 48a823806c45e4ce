"""Predictions with a key, with rates and with a token, compared with a server without keys; timing of wrong keys.

The two servers differ only in the key, share a core and take turns; each turn is compared with the neighbouring turn of
the other server. The inverse of the event loop's CPU time per request is the maximum number of requests per second.
Wrong keys are timed in this process, without the network: by the median of many, taken in turns, and by how often one
kind takes longer than another.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import uvloop
from scipy.stats import mannwhitneyu

from benchmarks.http import servers
from benchmarks.http.load import Load, apply_load, post
from benchmarks.http.requests import bodies, create
from benchmarks.output import verdict
from manylabel_service.access import key_text
from manylabel_service.access.key import KeyStore, new_key
from manylabel_service.access.keyring import Keyring

AIM = 0.95
"""Minimum share of the requests per second of a server without keys."""
RATES = {"requests_per_second": 1e6, "examples_per_second": 1e6, "max_concurrent_requests": 1000}
Shown = dict[str, tuple[servers.Server, str]]
Runs = dict[str, list[tuple[Load, float]]]
"""Runs with the CPU seconds per request, by row of the table."""
N_TIMED = 50_000
"""Number of wrong keys of each kind."""


def run(args: argparse.Namespace) -> None:
    """Print a table for each number of connections, and one of wrong keys."""
    examples = bodies()
    with ExitStack() as stack:
        flags = [stack.enter_context(servers.sqlite()) for _ in range(2)]
        command = [sys.executable, "-m", "manylabel_service.access", "init", *flags[1]]
        admin = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        ports = (args.port, args.port + 1)
        bare, keyed = (stack.enter_context(servers.manylabel(*each)) for each in zip(ports, flags, strict=True))
        create(bare.port, "m", examples[0])
        create(keyed.port, "m", examples[0], key=admin)
        shown = {"without keys": (bare, ""), **_keys(keyed, admin)}
        for n_connections in args.connections:
            _print(n_connections, _measure(shown, examples, n_connections, args.requests, args.repeats))
    _time_wrong_keys()


def _keys(server: servers.Server, admin: str) -> Shown:
    """Return the server and the credentials by row of the table."""

    def made(**fields: Any) -> str:
        wanted = json.dumps({"name": "benchmark", "scopes": ["predict"], **fields}).encode()
        return str(json.loads(servers.post(server.port, "/v1/keys", wanted, key=admin))["key"])

    return {"with a key": (server, made()), "with rates": (server, made(rates=RATES))}


def _measure(shown: Shown, examples: list[bytes], n_connections: int, n_requests: int, repeats: int) -> Runs:
    runs: Runs = {name: [] for name in shown}
    for repeat in range(repeats + 1):
        for name, (server, key) in shown.items():
            requests = [post("/v1/models/m/predict", body, key=key) for body in examples]
            before = server.loop_seconds()
            load = uvloop.run(apply_load(server.port, requests, n_connections, n_requests))
            if repeat:  # the first is a warm-up
                runs[name].append((load, (server.loop_seconds() - before) / n_requests))
    return runs


def _print(n_connections: int, runs: Runs) -> None:
    title = f"{n_connections} connections: predict"
    print(f"\n{title:26} requests/s   of without (quartiles)   processor us   of without (quartiles)")
    bare = runs["without keys"]
    for name, found in runs.items():
        pairs = list(zip(found, bare, strict=True))
        rates = [ours.requests_per_second / theirs.requests_per_second for (ours, _), (theirs, _) in pairs]
        times = [theirs / ours for (_, ours), (_, theirs) in pairs]
        rate = statistics.median(load.requests_per_second for load, _ in found)
        cpu = 1e6 * statistics.median(seconds for _, seconds in found)
        aim = verdict(statistics.median(times), at_least=AIM if name == "with a key" else None)
        print(f"{name:24} {rate:12,.0f}   {_quartiles(rates):22} {cpu:14.1f}   {_quartiles(times)}   {aim}")


def _quartiles(values: list[float]) -> str:
    first, median, third = statistics.quantiles(values, n=4)
    return f"{median:.3f} ({first:.3f}..{third:.3f})"


def _time_wrong_keys() -> None:
    key, text = new_key("benchmark", ["predict"])
    keyring = Keyring(KeyStore(None, 1), None)  # type: ignore[arg-type]  # whose store nobody asks
    keyring._known = True
    keyring._note({key.id: key.at(1)})
    other = {character: "a" if character != "a" else "b" for character in (text[16], text[-1])}
    kinds = {
        "secret wrong in its first character": text[:16] + other[text[16]] + text[17:],
        "secret wrong in its last character": text[:-1] + other[text[-1]],
        "secret wrong everywhere": text[:16] + key_text.make().secret,
        "id not known": str(key_text.make()),
    }
    times = _timed({name: partial(keyring.access, wrong) for name, wrong in kinds.items()})
    first = next(iter(times.values()))
    title = f"wrong keys, {N_TIMED:,} of each"
    print(f"\n{title:38}    median us   how often longer than the first kind (0.5: no difference)")
    for name, found in times.items():
        longer = mannwhitneyu(found, first).statistic / (len(found) * len(first))
        print(f"{name:38} {np.median(found) / 1e3:12.3f}   {longer:.3f}")


def _timed(calls: dict[str, Callable[[], object]]) -> dict[str, np.ndarray]:
    """Return the nanoseconds of each call, taken in turns in random order."""
    rng = np.random.default_rng(0)
    times = {name: np.empty(N_TIMED) for name in calls}
    names = list(calls)
    for number in range(N_TIMED):
        for name in rng.permutation(names):
            call = calls[name]
            started = time.perf_counter_ns()
            call()
            times[name][number] = time.perf_counter_ns() - started
    return times
