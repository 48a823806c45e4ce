"""Latency of predictions while jobs use all cores, compared with the latency without jobs.

Two jobs train continuously, with one thread per core. The server, the jobs and the load generator share all cores, and
the request rate leaves most of the time to the jobs. In runs without jobs, the training processes are paused. Runs with
and without jobs take turns.
"""

import argparse
import io
import json
import os
import signal
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import uvloop

from benchmarks.http import servers
from benchmarks.http.load import Load, apply_load, post
from benchmarks.http.requests import bodies, create
from benchmarks.output import spread, verdict

AIM = 3.0
"""Maximum factor by which the 99th percentile may grow."""
PER_SECOND = 400
"""Approximate requests per second, over all connections."""
JOBS = 2
ROWS, FEATURES, LABELS = 4_000, 100, 14
ENDLESS = {"scaling": "none", "tol": 1e-10, "max_iter": 1_000_000}


def run(args: argparse.Namespace) -> None:
    """Measure, and print a table."""
    os.sched_setaffinity(0, servers.CORES)
    threads = str(max(1, len(servers.CORES) // JOBS))
    flags = ["--job-slots", str(JOBS), "--job-threads", threads]
    print(f"\npredict while {JOBS} jobs train, {threads} thread each")
    print(
        "connections          requests/s      p50 ms   p99 ms   over without jobs (min..max)   jobs have of the cores"
    )
    with servers.sqlite() as store, servers.manylabel(args.port, [*store, *flags], servers.CORES):
        examples = bodies()
        create(args.port, "m", examples[0])
        jobs = _begin(args.port)
        requests = [post("/v1/models/m/predict", body) for body in examples]
        for n_connections in args.connections:
            _compare(args, jobs, requests, n_connections)
        for id in _ids(args.port):
            servers.post(args.port, f"/v1/jobs/{id}", None, method="DELETE")
    os.sched_setaffinity(0, servers.OTHERS)


def _compare(args: argparse.Namespace, jobs: Sequence[int], requests: Sequence[bytes], n_connections: int) -> None:
    without, beside, shares = [], [], []

    def predict() -> Load:
        pause = n_connections / PER_SECOND
        return uvloop.run(apply_load(args.port, requests, n_connections, args.requests, pause))

    for repeat in range(args.repeats + 1):
        _tell(jobs, signal.SIGSTOP)
        idle = predict()
        _tell(jobs, signal.SIGCONT)
        cpu, started = _cpu_seconds(jobs), time.perf_counter()
        load = predict()
        seconds = time.perf_counter() - started
        if repeat:  # the first is a warm-up
            without.append(idle)
            beside.append(load)
            shares.append((_cpu_seconds(jobs) - cpu) / seconds / len(servers.CORES))
    ratios = [b.p99_ms / a.p99_ms for a, b in zip(without, beside, strict=True)]
    aim = verdict(statistics.median(ratios), at_most=AIM)
    _print(f"{n_connections:4}  without jobs", without, "")
    shown = f"{spread(ratios):22} {statistics.median(shares):8.0%}   {aim}"
    _print(f"{n_connections:4}  beside jobs", beside, shown)


def _print(name: str, loads: Sequence[Load], rest: str) -> None:
    rate, p50, p99 = (
        statistics.median(getattr(load, field) for load in loads)
        for field in ("requests_per_second", "p50_ms", "p99_ms")
    )
    print(f"{name:20} {rate:10,.0f}  {p50:10.2f} {p99:8.2f}   {rest}")


def _begin(port: int) -> list[int]:
    """Submit jobs that do not end by themselves; return the training processes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES))
    Y = X @ rng.standard_normal((FEATURES, LABELS)) + 6.0 * rng.standard_normal((ROWS, LABELS)) > 0
    file = io.BytesIO()
    np.savez(file, X=X, Y=Y.astype(np.int8))
    path, media_type = "/v1/datasets?name=noise&format=npz", "application/octet-stream"
    servers.post(port, path, file.getvalue(), media_type=media_type)
    for number in range(JOBS):
        job = {"trainer": "m3l", "params": ENDLESS, "data": {"dataset": "noise"}, "model": f"trained-{number}"}
        servers.post(port, "/v1/jobs", json.dumps(job).encode())
    while not all(_iteration(port, id) > 0 for id in _ids(port)):
        time.sleep(0.1)
    return _training_processes()


def _ids(port: int) -> list[str]:
    return [job["id"] for job in json.loads(servers.get(port, "/v1/jobs"))["jobs"]]


def _iteration(port: int, id: str) -> int:
    job = json.loads(servers.get(port, f"/v1/jobs/{id}"))
    if job["error"]:
        raise RuntimeError(job["error"])
    return int((job["progress"] or {}).get("iteration", 0))


def _training_processes() -> list[int]:
    """Return the training processes of the server started by this process."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        fields = (place / "stat").read_text().rpartition(")")[2].split() if (place / "stat").exists() else ["", "0"]
        parents[int(place.name)] = int(fields[1])
    # The server, its process that forks others, and the training processes, which have no children.
    servers = {pid for pid, parent in parents.items() if parent == os.getpid()}
    below = {pid for pid, parent in parents.items() if parent in servers}
    found = [pid for pid, parent in parents.items() if parent in servers | below and pid not in parents.values()]
    if len(found) != JOBS:
        raise RuntimeError(f"the server has {len(found)} training processes, not {JOBS}")
    return found


def _tell(processes: Sequence[int], number: signal.Signals) -> None:
    for pid in processes:
        os.kill(pid, number)


def _cpu_seconds(processes: Sequence[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in processes]
    return sum(int(of[11]) + int(of[12]) for of in fields) / os.sysconf("SC_CLK_TCK")
