"""Examples per second through one NDJSON stream to a server on one core.

An example has 100 numbers and some of 10 labels. The client sends and reads concurrently over one connection, without
parsing, and waits for the last line of the response.
"""

import argparse
import json
import socket
import statistics
import threading
import time
from contextlib import ExitStack

import numpy as np

from benchmarks.http import servers
from benchmarks.output import spread, verdict

N_FEATURES, N_LABELS = 100, 10
AIM = 20_000
"""Minimum examples per second."""
SENT_BYTES = 2**16

LINE_END = b"}\n"


def run(args: argparse.Namespace) -> None:
    """Print a line for each store."""
    lines = _lines(2_000)
    print(f"\nNDJSON stream                 examples/s  (min..max)           CPU us an example, {len(lines[0])} bytes")
    with ExitStack() as stack:
        running = {}
        for offset, (name, flags) in enumerate(_stores(stack, args).items()):
            running[name] = stack.enter_context(servers.manylabel(args.port + offset, flags))
            spec = {"name": "m", "algorithm": "falt", "scaling": "unit"}
            servers.post(args.port + offset, "/v1/models", json.dumps(spec).encode())
        rates: dict[str, list[tuple[float, float]]] = {}
        for repeat in range(args.repeats + 1):
            for name, server in running.items():
                result = measure(server, lines, args.lines, "m")
                if repeat:  # the first is a warm-up
                    rates.setdefault(name, []).append(result)
    for name, results in rates.items():
        per_second = [rate for rate, _ in results]
        cpu, aim = statistics.median(cpu for _, cpu in results), verdict(statistics.median(per_second), at_least=AIM)
        print(f"{name:25} {spread(per_second, ',.0f'):>36} {cpu:8.1f}   {aim}")


def _stores(stack: ExitStack, args: argparse.Namespace) -> dict[str, list[str]]:
    policies = ("everysec", "always") if args.store == "redis" else ("sqlite",)
    return {
        f"stream ({policy})": stack.enter_context(servers.store(args.store, args.port + 10 + i, policy))
        for i, policy in enumerate(policies)
    }


def _lines(n_lines: int) -> list[bytes]:
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(n_lines):
        x = [round(v, 6) for v in rng.normal(size=N_FEATURES).tolist()]
        y = [f"Class{i + 1}" for i in np.flatnonzero(rng.random(N_LABELS) < 0.3)]
        lines.append(json.dumps({"x": x, "y": y}).encode() + b"\n")
    return lines


def measure(server: servers.Server, lines: list[bytes], n_lines: int, model: str) -> tuple[float, float]:
    """Return lines per second, and CPU microseconds of the server per line; lines are repeated if necessary."""
    text = b"".join(lines) * (n_lines // len(lines))
    n_lines = n_lines // len(lines) * len(lines)
    parts = [_chunk(text[i : i + SENT_BYTES]) for i in range(0, len(text), SENT_BYTES)] + [_chunk(b"")]
    head = f"POST /v1/models/{model}/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    parts.insert(0, head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        cpu, started = server.cpu_seconds(), time.perf_counter()
        sender = threading.Thread(target=_send, args=(connection, parts))
        sender.start()
        answered = _count_lines(connection)
        seconds = time.perf_counter() - started
        sender.join()
    if answered != n_lines:
        raise RuntimeError(f"{n_lines} lines were sent, {answered} answered")
    return n_lines / seconds, 1e6 * (server.cpu_seconds() - cpu) / n_lines


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _send(connection: socket.socket, parts: list[bytes]) -> None:
    for part in parts:
        connection.sendall(part)


def _count_lines(connection: socket.socket) -> int:
    """Count lines until the chunked response ends. A line ends in LINE_END, which never occurs in the framing."""
    count, end = 0, b""
    begin = b""
    while not end.endswith(b"0\r\n\r\n"):
        data = connection.recv(2**18)
        if not data:
            raise ConnectionError(f"the stream ended early: {end!r}")
        if len(begin) < 512:
            begin += data[:512]
            if not begin.startswith(b"HTTP/1.1 200"[: len(begin)]):
                raise RuntimeError(begin.decode(errors="replace"))
        count += (end[-1:] + data).count(LINE_END)
        end = (end + data)[-8:]
    if b'"error"' in begin:
        raise RuntimeError(begin.decode(errors="replace"))
    return count
