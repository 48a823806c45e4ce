"""Largest bodies in many shapes to every call: they bound the wait of other calls, and the memory.

`pytest -m long tests/bodies -s` shows the table: for each call the worst body. MANYLABEL_TEST_BODY_CALLS is a regular
expression that picks calls. MANYLABEL_TEST_BODY_EVERY=7 sends every seventh body.
MANYLABEL_TEST_BODY_BYTES is their size.
"""

import http.client
import json
import os
import re
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from tests.support.body_server import (
    HEAD,
    MOST_STALL_SECONDS,
    MOST_TIMES_ITS_SIZE,
    SLACK_BYTES,
    Beside,
    Server,
    Worst,
    row,
    say,
)
from tests.support.body_shapes import Body, files, forms, infer_bodies, json_bodies, lines
from tests.support.waiting import eventually

from manylabel_service.api.web.large_json import MAX_DOCUMENT_BYTES

pytestmark = pytest.mark.long

EVERY = int(os.environ.get("MANYLABEL_TEST_BODY_EVERY", 1))
"""One body in this number is sent."""
SIZE = int(os.environ.get("MANYLABEL_TEST_BODY_BYTES", 4 * 2**20 - 2**12))
LARGE = ("/predict", "/update", "/predict-update", "/labels", "/infer", "/models", "/setup", "/webhook")
"""Calls whose bodies may have the largest size."""
FORM = "application/x-www-form-urlencoded"

_CHOICES = '<Choices name="c" toName="t"><Choice value="a"/><Choice value="b"/></Choices>'
CONFIG = f'<View><Text name="t" value="$t"/>{_CHOICES}</View>'
EXAMPLES: dict[str, Any] = {
    "/v1/label-studio/{name}/setup": {"project": "7.1", "schema": CONFIG},
    "/v1/label-studio/{name}/predict": {"tasks": [{"id": 1, "data": {"t": "a b"}}], "label_config": CONFIG},
    "/v1/label-studio/{name}/webhook": {
        "action": "ANNOTATION_CREATED",
        "annotation": {"id": 1, "updated_at": "2026-01-01T00:00:00Z", "project": 7, "result": []},
        "task": {"id": 1, "data": {"t": "a b"}},
        "project": {"id": 7, "label_config": CONFIG},
    },
}
"""Bodies of calls whose description has no example."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("bodies"))
    try:
        eventually(server.is_ready, 300)
        status, text = server.ask("POST", "/v1/keys", b'{"name":"all","scopes":["admin"],"models":["*"]}')
        assert status == 201, text
        server.key = json.loads(text)["key"]
        for name in ("beside", "m"):
            new_model(server, name)
        train(server)
        yield server
    finally:
        server.end()


def new_model(server: Server, name: str) -> None:
    server.ask("DELETE", f"/v1/models/{name}")
    status, text = server.ask("POST", "/v1/models", json.dumps({"name": name, "algorithm": "falt"}).encode())
    assert status == 201, text
    status, text = server.ask("POST", f"/v1/models/{name}/update", b'{"x":{"a":1},"y":["pets","a","b"]}')
    assert status == 200, text


def train(server: Server) -> None:
    rows = b"a,b,y\n" + b"".join(b"%d,%d,%d\n" % (i % 7, i % 3, i % 2) for i in range(60))
    status, text = server.ask("POST", "/v1/datasets?name=rows&format=csv&label_columns=y", rows, "text/csv")
    assert status == 201, text
    job = {"trainer": "m3l", "data": {"dataset": "rows"}, "model": "trained"}
    status, text = server.ask("POST", "/v1/jobs", json.dumps(job).encode())
    assert status == 202, text
    path = f"/v1/jobs/{json.loads(text)['id']}"
    eventually(lambda: json.loads(server.ask("GET", path)[1])["state"] == "succeeded", 300)


class Request(NamedTuple):
    method: str
    path: str
    media_type: str
    body: Body


def calls(server: Server) -> Iterator[tuple[str, Iterator[Request]]]:
    """Yield the calls that take a body, each with the requests to send."""
    description = json.loads(server.ask("GET", "/openapi.json")[1])
    for template, operations in description["paths"].items():
        for method, operation in operations.items():
            if "requestBody" in operation:
                kinds = operation["requestBody"]["content"]
                yield f"{method.upper()} {template}", requests(method.upper(), template, kinds, description)


def requests(method: str, template: str, kinds: dict[str, Any], description: dict[str, Any]) -> Iterator[Request]:
    if "multipart/form-data" in kinds:
        for number, (form, body) in enumerate(files(SIZE)):
            yield Request(method, f"{template}?{query(form, number)}", "application/octet-stream", body)
    elif "application/octet-stream" in kinds:
        for body in (
            Body("zeros", bytes(SIZE)),
            Body("a header", (SIZE - 8).to_bytes(8, "little") + b'{"a":' * (SIZE // 5)),
        ):
            yield Request(method, "/v1/models/new", "application/octet-stream", body)
    for path in paths(template):
        if "application/x-ndjson" in kinds and template.endswith("/stream"):
            for body in lines(SIZE, SIZE - 2**10):
                yield Request(method, path, "application/x-ndjson", body)
        elif FORM in kinds:
            for body in forms(SIZE):
                yield Request(method, path, FORM, body)
        elif "application/json" in kinds:
            kind = kinds["application/json"]
            models = kind["schema"].get("anyOf", [kind["schema"]])
            example = EXAMPLES.get(template, kind.get("example"))
            size = SIZE if template.endswith(LARGE) else min(SIZE, MAX_DOCUMENT_BYTES - 2**10)
            for body in json_bodies(models, description["components"]["schemas"], example, size):
                yield Request(method, path, "application/json", body)
            for body in infer_bodies(SIZE, 10_000) if template.endswith("/infer") else ():
                yield Request(method, path, "application/json", body)


def paths(template: str) -> list[str]:
    """Return the paths of a call: of an online model, and of a trained model if it has the call."""
    names = ["m"]
    if template.endswith(("/promote", "/versions/{version}/infer")):
        names = ["trained"]
    elif template.endswith(("/predict", "/infer", "/labels")) and "/label-studio/" not in template:
        names = ["m", "trained"]
    return [template.replace("{name}", name).replace("{version}", "1").replace("{key_id}", "x") for name in names]


def query(form: str, number: int) -> str:
    columns = "&label_columns=y" if form in ("csv", "tsv") else ""
    return f"name=set-{number}&format={form}{columns}"


def test_every_call_bounds_time_and_memory_of_its_body(server: Server) -> None:
    beside = Beside(server)
    beside.start()
    wanted = os.environ.get("MANYLABEL_TEST_BODY_CALLS", "")
    failures = list[str]()
    say(HEAD)
    for call, sent in calls(server):
        if not re.search(wanted, call):
            continue
        stalls, waits, peaks = list[Worst](), list[Worst](), list[Worst]()
        for request in islice(sent, 0, None, EVERY):
            size = len(request.body.content)
            server.forget_peak()
            before = server.memory("VmRSS")
            beside.longest = server.worst[0] = 0.0
            status, text = send(server, request)
            time.sleep(0.02)  # for the wait of the predict that was under way
            stall, peak = float(server.worst[0]), server.memory("VmHWM") - before
            stalls.append(Worst(stall, request.body.shape, status))
            waits.append(Worst(beside.longest, request.body.shape, status))
            peaks.append(Worst(peak / size, request.body.shape, status))
            where = f"{call} {request.path} with {size:,} bytes of {request.body.shape}: {status} {text[:200]!r}"
            if status >= 500 and status != 507:
                failures.append(f"{where}: refused")
            if stall > MOST_STALL_SECONDS:
                failures.append(f"{where}: the event loop was busy for {stall:.3f} s")
            if peak > MOST_TIMES_ITS_SIZE * size + SLACK_BYTES:
                failures.append(f"{where}: took {peak / size:.0f} times its size")
            if status < 300 and "/m/" in request.path:
                new_model(server, "m")
            if status < 300 and request.path == "/v1/models":
                server.ask("DELETE", f"/v1/models/{quote(json.loads(text)['name'])}")
        say(row(call, len(stalls), max(stalls), max(waits), max(peaks)))
    beside.ended.set()
    beside.join()
    assert not failures, "\n".join(failures[:100])


def send(server: Server, request: Request) -> tuple[int, bytes]:
    try:
        return server.ask(request.method, request.path, request.body.content, request.media_type)
    except (OSError, http.client.HTTPException):  # refused before all of it was read
        return 0, b""
