"""Gain of a second replica in predictions per second.

A host is a core that runs one replica and its clients; two hosts share one Redis. Each replica learns all updates.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager

import uvloop

from benchmarks.http import servers
from benchmarks.http.load import apply_load, post
from benchmarks.http.requests import bodies, create
from benchmarks.output import spread

CONNECTIONS = 32
"""Number of connections per replica."""
UPDATES_PER_SECOND = 500
BATCH = 10


def run(args: argparse.Namespace) -> None:
    """Print a line with and one without concurrent updates."""
    cores = servers.CORES[:2]
    if len(cores) < 2 or args.store != "redis":
        print("\npredictions of two replicas: needs two cores and --store redis")
        return
    print("\npredictions/s                  one replica   two replicas   two / one (min..max)")
    with ExitStack() as stack:
        flags = stack.enter_context(servers.redis(args.port + 10, "everysec"))
        ports = [args.port + i for i in range(2)]
        for port, core in zip(ports, cores, strict=True):
            stack.enter_context(servers.manylabel(port, flags, [core]))
        create(ports[0], "m", bodies()[0])
        clients = [stack.enter_context(_client_at(core)) for core in cores]
        for updates_per_second in (0, UPDATES_PER_SECOND):
            with _updates(ports[0], updates_per_second):
                rates = [_measure(clients, ports, args.requests) for _ in range(args.repeats + 1)][1:]
            name = f"{updates_per_second} updates/s"
            one, two = (statistics.median(rate[i] for rate in rates) for i in range(2))
            shares = [both / alone for alone, both in rates]
            print(f"{name:25} {one:16,.0f} {two:14,.0f}   {spread(shares)}")


def _measure(clients: list[ProcessPoolExecutor], ports: list[int], n_requests: int) -> tuple[float, float]:
    """Return the predictions per second of one replica alone, and of both together."""
    one = clients[0].submit(_load, ports[0], n_requests).result()
    loads = [client.submit(_load, port, n_requests) for client, port in zip(clients, ports, strict=True)]
    return one, sum(load.result() for load in loads)


def _load(port: int, n_requests: int) -> float:
    requests = [post("/v1/models/m/predict", body) for body in bodies()]
    return uvloop.run(apply_load(port, requests, CONNECTIONS, n_requests)).requests_per_second


@contextmanager
def _client_at(core: int) -> Iterator[ProcessPoolExecutor]:
    """Start a process on that core that sends requests."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=os.sched_setaffinity, initargs=(0, [core])) as pool:
        yield pool


@contextmanager
def _updates(port: int, per_second: int) -> Iterator[None]:
    """Send this number of examples per second during the block, in small batches."""
    stop = threading.Event()
    thread = threading.Thread(target=_update, args=(port, per_second, stop))
    if per_second:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if per_second:
            thread.join()


def _update(port: int, per_second: int, stop: threading.Event) -> None:
    batch = json.dumps({"examples": [json.loads(body) for body in bodies(BATCH)]}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    due = time.perf_counter()
    while not stop.is_set():
        due += BATCH / per_second
        time.sleep(max(0.0, due - time.perf_counter()))
        connection.request("POST", "/v1/models/m/update", batch, {"Content-Type": "application/json"})
        connection.getresponse().read()
    connection.close()
