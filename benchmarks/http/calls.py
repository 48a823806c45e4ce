"""Requests of one client, one after another, and lines for their durations."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

from benchmarks.output import verdict


@contextmanager
def connected(port: int, timeout_seconds: float = 60.0) -> Iterator[HTTPConnection]:
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout_seconds)
    try:
        yield connection
    finally:
        connection.close()


def send(client: HTTPConnection, method: str, path: str, body: object = None) -> Any:
    """Send a request, again while the server compiles; return the document of the response."""
    while (answer := _answer(client, method, path, _written(body)))[0] == HTTPStatus.SERVICE_UNAVAILABLE:
        time.sleep(1.0)
    text = _checked(method, path, *answer)
    return json.loads(text) if text else None


def timed(client: HTTPConnection, method: str, path: str, body: object = None) -> float:
    """Send a request, and return the milliseconds until its response was read."""
    data = _written(body)
    started = time.perf_counter()
    answer = _answer(client, method, path, data)
    milliseconds = 1_000 * (time.perf_counter() - started)
    _checked(method, path, *answer)
    return milliseconds


def _written(body: object) -> bytes | None:
    return None if body is None else json.dumps(body).encode()


def _answer(client: HTTPConnection, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
    client.request(method, path, data, {} if data is None else {"Content-Type": "application/json"})
    response = client.getresponse()
    return response.status, response.read()


def _checked(method: str, path: str, status: int, text: bytes) -> bytes:
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        raise RuntimeError(f"{method} {path}: {status} {text[:500]!r}")
    return text


def line(name: str, value: float, at_most: float | None = None) -> None:
    print(f"{name:46} {value:12,.1f}  {verdict(value, at_most=at_most)}", flush=True)


def spread(name: str, values: Sequence[float], at_most: float | None = None) -> None:
    """Print the median and the 99th percentile, which has the target."""
    ordered = sorted(values)
    median, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    print(f"{name:46} {median:12,.1f}  p99 {late:,.1f}  {verdict(late, at_most=at_most)}", flush=True)
