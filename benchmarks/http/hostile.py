"""Hostile clients: each repeats one attack that could make a server unavailable to others, for some seconds.

They run in separate processes at the lowest priority, because the benchmark measures their effect on the server, not on
the client on the same core. They continue whatever the response is.
"""

import json
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from multiprocessing import get_context

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 5.0


def imports_a_huge_header(port: int) -> None:
    """Upload a snapshot whose header is 30 MB of empty lists."""
    header = b"{" + b'"a":[' + b"[],[]," * 5_000_000
    with _connected(port) as client:
        length = len(header) + 8
        client.sendall(_head("PUT", "/v1/models/huge", "application/octet-stream", length))
        client.sendall(struct.pack("<Q", len(header)) + header)
        client.recv(2**16)


def sends_endless_headers(port: int) -> None:
    """Send headers that do not end."""
    with _connected(port) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(1_000):
            client.sendall(b"x-a: " + b"a" * 4_000 + b"\r\n")


def pipelines(port: int) -> None:
    """Send 200,000 requests without reading a response."""
    with _connected(port) as client:
        for _ in range(200):
            client.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000)


def names_a_far_column(port: int) -> None:
    """Send the largest allowed index to a model, and take a snapshot."""
    name = f"far-{os.getpid()}"
    _call(port, "POST", "/v1/models", {"name": name, "algorithm": "salt"})
    for index in (2**24 - 1, 2**24 - 2):
        _call(port, "POST", f"/v1/models/{name}/update", {"x": {"indices": [index], "values": [1.0]}, "y": ["a", "b"]})
        _call(port, "POST", f"/v1/models/{name}/snapshots")
    _call(port, "DELETE", f"/v1/models/{name}")


def reads_no_download(port: int) -> None:
    """Request the largest snapshot many times, and read nothing."""
    with _connected(port) as first, _connected(port) as second, _connected(port) as third:
        position = _position(port, "large")
        for client in (first, second, third):
            client.sendall(f"GET /v1/models/large/snapshots/{position} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(2.0)


def stalls_bodies(port: int) -> None:
    """Open many connections that announce a body and do not send it."""
    with suppress(OSError):
        clients = [_connected(port) for _ in range(200)]
        for client in clients:
            client.sendall(_head("POST", "/v1/models/victim/update", "application/json", 2_000_000) + b"{" * 10_000)
        time.sleep(2.0)
        for client in clients:
            client.close()


def keeps_predictions(port: int) -> None:
    """Store predictions of large examples."""
    examples = [{"x": {f"f{i}": 0.5 for i in range(5_000)}} for _ in range(10)]
    _call(port, "POST", "/v1/models/kept/predict?keep=true", {"examples": examples})


def begins_large_models(port: int) -> None:
    """Create models with 4,000 features and 1,000 labels in one update."""
    name = f"begun-{os.getpid()}"
    _call(port, "POST", "/v1/models", {"name": name, "algorithm": "falt"})
    example = {"x": {f"f{i}": 1.0 for i in range(4_000)}, "y": [f"l{i}" for i in range(1_000)]}
    _call(port, "POST", f"/v1/models/{name}/update", example)
    _call(port, "DELETE", f"/v1/models/{name}")


def sends_wrong_lines(port: int) -> None:
    """Send a megabyte of lines that are not JSON."""
    with _connected(port) as client:
        client.sendall(_head("POST", "/v1/models/kept/stream", "application/x-ndjson", 2**20) + b"x\n" * 2**19)
        while client.recv(2**16):
            pass


def scrapes_and_overloads(port: int) -> None:
    """Scrape metrics continuously, and send more updates than the server can learn in time."""
    _call(port, "GET", "/metrics")
    examples = [{"x": {f"f{i}": 1.0 for i in range(50)}, "y": [f"l{j}" for j in range(20)]} for _ in range(1_000)]
    _call(port, "POST", "/v1/models/kept/update", {"examples": examples})


def idles(port: int) -> None:
    """Open 2,000 connections and send nothing."""
    with _crowd(port, 2_000):
        time.sleep(10.0)


def listens(port: int) -> None:
    """Subscribe 100 times to the events of each of five models while they learn."""
    with _crowd(port, 500) as clients:
        for number, client in enumerate(clients):
            client.sendall(f"GET /v1/models/crowd-{number % 5}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        for number in range(100):
            _call(port, "POST", f"/v1/models/crowd-{number % 5}/update", {"x": {"a": 1.0}, "y": ["b"]})
            for client in clients:
                with suppress(BlockingIOError):
                    client.recv(2**16, socket.MSG_DONTWAIT)


def drips(port: int) -> None:
    """Send 300 bodies a byte at a time."""
    with _crowd(port, 300) as clients:
        for client in clients:
            client.sendall(_head("POST", "/v1/models/victim/update", "application/json", 10_000) + b"{")
        for _ in range(100):
            for client in clients:
                client.send(b" ")
            time.sleep(0.1)


OVERLOAD_CONNECTIONS = 320
"""Number of connections: five times the 64 that keep a server busy."""


def overloads(port: int) -> None:
    """Send batches of updates on 320 connections, each the next one after a response."""
    examples = [{"x": {f"f{i}": 1.0 for i in range(50)}, "y": [f"l{j}" for j in range(20)]} for _ in range(100)]
    body = json.dumps({"examples": examples}).encode()
    request = _head("POST", "/v1/models/kept/update", "application/json", len(body)) + body
    with _crowd(port, OVERLOAD_CONNECTIONS) as clients, selectors.DefaultSelector() as answers:
        for client in clients:
            client.sendall(request)
            answers.register(client, selectors.EVENT_READ)
        while ready := answers.select(TIMEOUT_SECONDS):
            for key, _ in ready:
                client = key.fileobj
                assert isinstance(client, socket.socket)
                if not client.recv(2**16):
                    answers.unregister(client)
                else:
                    client.sendall(request)


@contextmanager
def _crowd(port: int, n: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(_connected(port)) for _ in range(n)]


_CLIENTS: tuple[Callable[[int], None], ...] = (
    imports_a_huge_header,
    sends_endless_headers,
    pipelines,
    names_a_far_column,
    reads_no_download,
    stalls_bodies,
    keeps_predictions,
    begins_large_models,
    sends_wrong_lines,
    scrapes_and_overloads,
)
_CROWDS: tuple[Callable[[int], None], ...] = (idles, listens, drips, overloads)
HOSTILE = {client.__name__: client for client in (*_CLIENTS, *_CROWDS)}
"""Hostile clients by name."""
ONE_BY_ONE = [client.__name__ for client in _CLIENTS]
"""Hostile clients that need few connections."""


def prepare(port: int) -> None:
    """Create the models that are attacked: `kept`, five of a crowd, and `large` of some 100 MB with a snapshot."""
    for name in ("kept", "large", *(f"crowd-{number}" for number in range(5))):
        _call(port, "POST", "/v1/models", {"name": name, "algorithm": "falt"})
    labels = [f"l{i}" for i in range(500)]
    for part in range(20):
        x = {f"f{part * 1_000 + i}": 1.0 for i in range(1_000)}
        _call(port, "POST", "/v1/models/large/update", {"x": x, "y": labels}, seconds=60.0)
    _call(port, "POST", "/v1/models/large/snapshots", seconds=60.0)


@contextmanager
def attacking(port: int, seconds: float, names: Sequence[str]) -> Iterator[None]:
    """Run the named hostile clients concurrently during the block, for at most `seconds`."""
    processes = [get_context("spawn").Process(target=_repeat, args=(name, port, seconds)) for name in names]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _repeat(name: str, port: int, seconds: float) -> None:
    os.nice(19)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError, HTTPException, LookupError, ValueError):
            HOSTILE[name](port)
        time.sleep(0.05)
    sys.exit()


def _connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), TIMEOUT_SECONDS)


def _head(method: str, path: str, media_type: str, length: int) -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n"
    )
    return head.encode()


def _call(port: int, method: str, path: str, document: object = None, seconds: float = TIMEOUT_SECONDS) -> bytes:
    connection = HTTPConnection(HOST, port, timeout=seconds)
    try:
        body = None if document is None else json.dumps(document)
        connection.request(method, path, body, {} if body is None else {"Content-Type": "application/json"})
        return connection.getresponse().read()
    finally:
        connection.close()


def _position(port: int, model: str) -> str:
    snapshots = json.loads(_call(port, "GET", f"/v1/models/{model}/snapshots"))["snapshots"]
    return str(snapshots[0]["position"])
