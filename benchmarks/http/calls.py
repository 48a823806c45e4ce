"""Requests of one client, one after another, and lines for their durations."""

import http.client
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.output import verdict


@contextmanager
def connected(port: int) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        yield connection
    finally:
        connection.close()


def timed(client: http.client.HTTPConnection, method: str, path: str, body: object = None) -> float:
    """Send a request, and return the milliseconds until its response was read."""
    data = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    started = time.perf_counter()
    client.request(method, path, data, headers)
    response = client.getresponse()
    text = response.read()
    milliseconds = 1_000 * (time.perf_counter() - started)
    if response.status >= 300:
        raise RuntimeError(f"{method} {path}: {response.status} {text[:500]!r}")
    return milliseconds


def line(name: str, value: float, at_most: float | None = None) -> None:
    print(f"{name:46} {value:12,.1f}  {verdict(value, at_most=at_most)}", flush=True)


def spread(name: str, values: Sequence[float], at_most: float | None = None) -> None:
    """Print the median and the 99th percentile, which has the target."""
    ordered = sorted(values)
    median, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    print(f"{name:46} {median:12,.1f}  p99 {late:,.1f}  {verdict(late, at_most=at_most)}", flush=True)
