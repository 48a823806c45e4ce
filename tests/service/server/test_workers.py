"""Several processes on one port: they share the work, survive each other, and stop together."""

import contextlib
import http.client
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.waiting import eventually

from manylabel_service.server import workers
from manylabel_service.settings import Settings

WAIT_SECONDS = 120.0
ITEM = {"x": {"a": 1}, "y": ["p"]}


@pytest.fixture(scope="module")
def redis_url(new_module_redis: Callable[..., Any]) -> Iterator[str]:
    with new_module_redis() as redis:
        yield redis.start().url


@pytest.fixture(scope="module")
def process(module_server_process: Callable[..., Any], redis_url: str) -> Iterator[Any]:
    """Two workers with the model m; started again, and then forked, by the tests that end them."""
    with module_server_process(
        "--workers", "2", "--store", redis_url, "--shutdown-timeout-seconds", "2", fresh=True
    ) as process:
        start(process)
        process.fresh = False
        assert request(process, "POST", "/v1/models", {"name": "m", "algorithm": "falt"})[0] == 201
        yield process


@pytest.fixture
def server(process: Any) -> Any:
    if process.process is None:
        start(process)
    return process


def start(server: Any) -> None:
    """Start it, and wait until all its workers are ready."""
    before = len(server.logged("serving"))
    server.start(wait=False)
    eventually(lambda: len(server.logged("serving")) > before, otherwise=server.log_tail)


def pids(server: Any) -> dict[int, int]:
    """The processes by the worker's number."""
    return {line["worker"]: line["pid"] for line in server.logged("worker_ready")}


def request(server: Any, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """On a connection of its own, so that any worker may get it."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as connection:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        is_json = "json" in answer.headers["Content-Type"]
        return answer.status, json.loads(text) if is_json else text.decode()


def series(server: Any) -> dict[tuple[str, str], dict[str, float]]:
    """What /metrics says: by name and handler or model, the value of each worker."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    names = []
    for family in text_string_to_metric_families(request(server, "GET", "/metrics")[1]):
        names.append(family.name)
        for sample in family.samples:
            labels = sample.labels
            key = sample.name, labels.get("handler") or labels.get("model") or ""
            found.setdefault(key, {})[labels["worker"]] = sample.value
    assert len(set(names)) == len(names), "a family stands there once"
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended may wait to be reaped by its parent.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def updates(server: Any, position: str) -> set[int]:
    """Return the updates that many connections see of the model after all workers have reached a position."""
    item = {"x": ITEM["x"]}
    for _ in range(20):
        assert request(server, "POST", f"/v1/models/m/predict?at_least={position}", item)[0] == 200
    return {request(server, "GET", "/v1/models/m")[1]["updates"] for _ in range(20)}


def test_workers_share_connections_and_metrics_show_all_of_them(server: Any) -> None:
    n, first = 64, series(server)
    before = request(server, "GET", "/v1/models/m")[1]["updates"]
    position = ""
    for _ in range(n):
        status, answer = request(server, "POST", "/v1/models/m/update", ITEM)
        assert status == 200
        position = answer["position"]
    assert updates(server, position) == {before + n}

    last = series(server)
    key = "manylabel_updates_total", "m"
    learnt = {worker: last[key][worker] - first.get(key, {}).get(worker, 0) for worker in ("0", "1")}
    assert sum(learnt.values()) == n
    assert min(learnt.values()) >= n / 8, "the kernel shares connections out by chance: less has odds of 1 in 10^10"
    assert last["manylabel_worker_up", ""] == {"0": 1.0, "1": 1.0}
    assert set(last["manylabel_model_labels", "m"].values()) == {1.0}
    assert set(last["process_resident_memory_bytes", ""]) == {"0", "1"} or sys.platform != "linux"


def test_a_killed_worker_is_replaced_while_the_other_responds(server: Any) -> None:
    server.stop()
    start(server)  # which is forked now, so that a replacement is ready soon
    before, seen = pids(server), Counter[str]()
    n_ready, stop = len(server.logged("worker_ready")), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                seen[str(request(server, "GET", "/readyz")[0])] += 1
            except (OSError, http.client.HTTPException):
                seen["none"] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        os.kill(before[0], signal.SIGKILL)
        eventually(lambda: len(server.logged("worker_ready")) > n_ready, otherwise=server.log_tail)
    finally:
        stop.set()
        asking.join()

    after = pids(server)
    assert after[0] != before[0]
    assert after[1] == before[1]
    assert server.logged("worker_ended")[-1]["restart_in_seconds"] == 0.0
    assert {line["status"] for line in server.logged("worker_ended")} == {-signal.SIGKILL}
    # The other one answers meanwhile; a replacement that is not ready takes no connection.
    assert set(seen) <= {"200", "none"}
    assert seen["200"] > 20
    assert seen["none"] <= 2, "only what the killed one had accepted breaks"
    position = request(server, "POST", "/v1/models/m/update", ITEM)[1]["position"]
    assert len(updates(server, position)) == 1
    assert series(server)["manylabel_worker_up", ""] == {"0": 1.0, "1": 1.0}


def test_another_server_cannot_use_the_port(server: Any, server_process: Callable[..., Any]) -> None:
    for flags in (server.flags, ()):
        second = server_process(*flags, port=server.port)
        second.start(wait=False)
        assert second.process.wait(WAIT_SECONDS) == 1
        assert f"cannot listen on 127.0.0.1 port {server.port}" in second.logged("cannot_start")[0]["error"]
        second.process = None
    assert request(server, "GET", "/readyz")[0] == 200


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("by", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_stops_all_workers_and_loses_nothing(server: Any, by: signal.Signals) -> None:
    processes = pids(server)
    n_updates = request(server, "POST", "/v1/models/m/update", ITEM)[1]["updates"]
    server.process.send_signal(by)
    for pid in processes.values():  # as Ctrl+C does, which reaches every process of the terminal
        if by == signal.SIGINT:
            os.kill(pid, by)
    assert server.process.wait(WAIT_SECONDS) == 0
    server.process = None
    assert not any(map(is_alive, processes.values()))
    assert server.logged("stopped")
    assert "Traceback" not in server.log.read_text()
    assert not server.logged("worker_killed")
    start(server)
    assert request(server, "GET", "/v1/models/m")[1]["updates"] == n_updates


@pytest.mark.usefixtures("programs")
def test_workers_end_with_a_killed_parent(server: Any) -> None:
    processes = pids(server)
    server.kill()
    eventually(lambda: not any(map(is_alive, processes.values())), otherwise=server.log_tail)
    with socket.create_server(("127.0.0.1", server.port)):
        pass


IMPATIENT = """
import sys
from dataclasses import replace
from manylabel_service.server import workers
from manylabel_service.settings import read_settings
from manylabel_service.telemetry.logs import configure_logging

workers.LAST_SNAPSHOTS_SECONDS = 3.0
settings = read_settings(sys.argv[1:])
type(settings).limits = replace(settings.limits, shutdown_timeout_seconds=1)
configure_logging(settings)
sys.exit(workers.supervise(settings))
"""


@pytest.mark.usefixtures("programs")
@pytest.mark.long
def test_a_worker_that_does_not_stop_is_killed(redis_url: str) -> None:
    flags = ["--workers", "2", "--port", "0", "--store", redis_url]
    command = [sys.executable, "-c", IMPATIENT, *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stderr is not None
        processes = {}
        for line in map(json.loads, parent.stderr):
            if line["event"] == "worker_ready":
                processes[line["worker"]] = line["pid"]
            if line["event"] == "serving":
                break
        os.kill(processes[1], signal.SIGSTOP)
        parent.terminate()
        lines = list(map(json.loads, parent.stderr))
        assert parent.wait(WAIT_SECONDS) == 1
    assert [line["worker"] for line in lines if line["event"] == "worker_killed"] == [1]
    assert lines[-1]["event"] == "stopped"
    assert not any(map(is_alive, processes.values()))


def test_a_start_that_cannot_succeed_is_not_retried(
    new_redis: Callable[..., Any], server_process: Callable[..., Any]
) -> None:
    """A store that waiting does not repair: every worker would fail again."""
    with new_redis(options={"requirepass": "secret"}) as redis:
        server = server_process("--workers", "2", "--store", redis.start().url)
        server.start(wait=False)
        assert server.process.wait(WAIT_SECONDS) == 1
    server.process = None
    assert "password" in server.logged("cannot_start")[0]["error"]
    assert not server.logged("serving")
    assert not server.logged("worker_ended")


def test_restarts_slow_down_until_a_worker_is_stable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    worker = workers._Worker(0, Settings(), tmp_path)
    waits = [worker.schedule_restart() for _ in range(100)]
    assert waits[:9] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert waits[-1] == 30.0
    assert worker.starts_at == now + 30.0

    def live(seconds: float) -> float:
        nonlocal now
        worker._ready_pipe, ready = multiprocessing.Pipe(duplex=False)
        ready.send_bytes(b"ready")
        assert worker.became_ready()
        ready.close()
        now += seconds
        return worker.schedule_restart()

    assert live(workers.STABLE_SECONDS - 1) == 30.0
    assert live(workers.STABLE_SECONDS + 1) == 0.0
    assert live(1) == 0.5
