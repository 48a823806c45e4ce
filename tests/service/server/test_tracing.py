"""Traces of requests, as a collector receives them from a real server."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_server import http_server
from tests.support.lazy import lazy
from tests.support.server_process import ServerProcess, free_port

from manylabel_service.telemetry import tracing

messages = lazy("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
MARK = "zq7secret"
EXAMPLE = {"x": {MARK: 1.0}, "y": [f"{MARK}-label"]}


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A collector of OTLP over HTTP: its address, and what it was sent."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

    with http_server(Handler) as address:
        yield f"{address}/v1/traces", received


def spans_of(received: list[bytes]) -> list[dict[str, Any]]:
    found = []
    for body in received:
        for resource in messages.ExportTraceServiceRequest.FromString(body).resource_spans:
            assert "manylabel" in str(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
                    found.append(
                        {
                            "name": span.name,
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "failed": span.status.code == 2,
                            "begins": span.start_time_unix_nano,
                            "ends": span.end_time_unix_nano,
                            **attributes,
                        }
                    )
    return found


def send(server: ServerProcess, path: str, body: Any, parent: str = "") -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "application/x-ndjson" if path.endswith("/stream") else "application/json"
    headers = {"Content-Type": kind, **({"traceparent": parent} if parent else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{server.url}{path}", data, headers)) as answer:
            return json.loads(answer.read().splitlines()[-1])
    except urllib.error.HTTPError as error:
        return json.load(error)


def test_a_request_is_a_span_without_data_of_the_client(
    server_process: Callable[..., ServerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")  # only requests that ask for it are traced
    with collector() as (address, received):
        server = server_process("--otel-endpoint", address).start()
        send(server, "/v1/models", {"name": "tags", "algorithm": "falt"}, f"00-{TRACE}-{PARENT}-00")
        send(server, "/v1/models/tags/update", EXAMPLE, f"00-{TRACE}-{PARENT}-01")
        refused = send(server, f"/v1/models/tags/update?{MARK}=1", {MARK: [MARK]}, f"00-{'1' * 32}-{PARENT}-01")
        send(server, f"/nowhere/{MARK}", {}, f"00-{'2' * 32}-{PARENT}-01")
        lines = json.dumps(EXAMPLE).encode() + b"\n"
        send(server, "/v1/models/tags/stream", 3 * lines, f"00-{'3' * 32}-{PARENT}-01")
        send(server, "/v1/models/tags/predict", EXAMPLE)
        send(server, "/v1/models/tags/predict", EXAMPLE, "00-nonsense")
        assert server.stop() == 0

    assert not [body for body in received if MARK.encode() in body], "nothing of what was sent"
    spans = spans_of(received)
    assert {span["trace"] for span in spans} == {TRACE, "1" * 32, "2" * 32, "3" * 32}, "others were not asked for"

    (request,) = [span for span in spans if span["trace"] == TRACE and span["parent"] == PARENT]
    assert request["name"] == "POST /v1/models/{name}/update"
    assert (request["http.status_code"], request["failed"]) == (200, False)
    assert request["http.route"] == "/v1/models/{name}/update"
    assert request["manylabel.request_id"]

    (wrong,) = [span for span in spans if span["trace"] == "1" * 32]
    assert (wrong["http.status_code"], wrong["error.type"]) == (422, refused["code"])
    assert not wrong["failed"], "the client's fault is no failure of the server"
    (nowhere,) = [span for span in spans if span["trace"] == "2" * 32]
    assert (nowhere["name"], nowhere["error.type"]) == ("POST", "not_found")
    (stream,) = [span for span in spans if span["trace"] == "3" * 32]
    assert stream["name"] == "POST /v1/models/{name}/stream"


def test_a_missing_collector_does_not_delay_requests(server_process: Callable[..., ServerProcess]) -> None:
    server = server_process("--otel-endpoint", f"http://127.0.0.1:{free_port()}/v1/traces").start()
    send(server, "/v1/models", {"name": "tags", "algorithm": "falt"})
    assert send(server, "/v1/models/tags/update", EXAMPLE)["updates"] == 1
    assert server.stop() == 0


PROGRAM = """
import sys
from manylabel_service.telemetry import tracing

tracing.start(None)
assert not tracing.enabled()
tracing.stop()
print(*(name for name in sys.modules if name.startswith("opentelemetry")))
"""


@pytest.mark.usefixtures("programs")
def test_opentelemetry_is_loaded_only_if_configured() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "\n"
    importing = [
        path.name
        for path in Path(tracing.__file__).parents[1].rglob("*.py")
        if re.search("^(import|from) opentelemetry", path.read_text(), re.MULTILINE)
    ]
    assert not importing, "only inside functions that are called when it is wanted"


WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from manylabel_service.settings import read_settings
read_settings(["--otel-endpoint", sys.argv[1]])
"""


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("address", "said"), [("http://localhost:4318/v1/traces", "manylabel[otel]"), ("localhost:4318", "address")]
)
def test_a_missing_package_or_address_is_named(address: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, address], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert said in done.stderr
