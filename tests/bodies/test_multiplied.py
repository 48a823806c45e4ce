"""Requests whose parameters multiply, such as documents and labels: they bound the wait of other calls, and the memory.

`pytest -m long tests/bodies/test_multiplied.py -s` shows the table. MANYLABEL_TEST_BODY_CALLS is a regular expression
that picks calls.
"""

import http.client
import json
import os
import re
import time
from collections.abc import Iterator

import pytest
from tests.support.body_server import (
    MOST_STALL_SECONDS,
    MOST_TIMES_ITS_SIZE,
    SLACK_BYTES,
    Beside,
    Server,
    say,
)
from tests.support.multiplied import Load, loads, prepare
from tests.support.waiting import eventually

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    no_snapshots = ("--snapshot-every-seconds", "86400", "--snapshot-every-updates", "1000000")  # each takes memory
    server = Server(tmp_path_factory.mktemp("multiplied"), *no_snapshots)
    try:
        eventually(server.is_ready, 300)
        server.ask("POST", "/v1/models", b'{"name":"beside","algorithm":"falt"}')
        server.ask("POST", "/v1/models/beside/update", b'{"x":{"a":1},"y":["pets","a","b"]}')
        prepare(server.ask)
        yield server
    finally:
        server.end()


def test_every_product_of_parameters_bounds_time_and_memory(server: Server) -> None:
    beside = Beside(server)
    beside.start()
    wanted = os.environ.get("MANYLABEL_TEST_BODY_CALLS", "")
    failures = list[str]()
    say("\n| call | request | bytes | status | longest stall | longest wait | memory | response |")
    say("|---|---|---|---|---|---|---|---|")
    for load in loads(lambda name: str(json.loads(server.ask("GET", f"/v1/models/{name}")[1])["position"])):
        if not re.search(wanted, f"{load.call} {load.what}"):
            continue
        size = len(load.content)
        server.forget_peak()
        before = server.memory("VmRSS")
        time.sleep(0.2)  # the server may still work for the previous request
        beside.longest = server.worst[0] = 0.0
        try:
            status, text = server.ask(load.method, load.path, load.content, load.media_type)
        except (OSError, http.client.HTTPException):
            status, text = 599, b"an incomplete response"
        eventually(lambda load=load: load.done is None or load.done(server.ask), 300)
        time.sleep(0.2)  # for the wait of the predict that was under way
        stall, wait, peak = float(server.worst[0]), beside.longest, server.memory("VmHWM") - before
        say(
            f"| {load.call} | {load.what} | {size:,} | {status} | {stall * 1000:.0f} ms | {wait * 1000:.0f} ms "
            f"| {peak / 2**20:.0f} MiB | {len(text) / 2**20:.2f} MiB |"
        )
        where = f"{load.call} {load.what}, {size:,} bytes: {status} {text[:200]!r}"
        if status >= 500 and status != 507:
            failures.append(f"{where}: refused")
        if stall > MOST_STALL_SECONDS:
            failures.append(f"{where}: the event loop was busy for {stall:.3f} s")
        if peak > MOST_TIMES_ITS_SIZE * size + SLACK_BYTES + load.copied_bytes:
            failures.append(f"{where}: took {peak / 2**20:.0f} MiB")
        end(server, load)
    beside.ended.set()
    beside.join()
    assert not failures, "\n".join(failures)


def end(server: Server, load: Load) -> None:
    if load.ends:
        server.ask("DELETE", f"/v1/models/{load.ends}")
