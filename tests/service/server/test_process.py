"""The server as a process: its start, its output and its end."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_server import ForkedProgram, finished
from tests.support.server_process import free_port
from tests.support.snapshot_files import snapshot_files
from tests.support.waiting import eventually

from manylabel_service.server.sockets import warn_if_open
from manylabel_service.settings import Settings

JSON = {"Content-Type": "application/json"}
ITEM = json.dumps({"x": {"a": 1}, "y": ["p"]})
COMMAND = [sys.executable, "-m", "manylabel_service"]
WAIT_SECONDS = 120


@contextlib.contextmanager
def started(*flags: str, command: Sequence[str] = COMMAND) -> Iterator[subprocess.Popen[str]]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MANYLABEL_")}
    with subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def request(port: int, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request(method, path, body, JSON)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module")
def process(module_server_process: Any) -> Any:
    """A server with the model m; started again by the tests that end it."""
    process = module_server_process("--shutdown-timeout-seconds", "2", "--log-level", "debug").start()
    assert request(process.port, "POST", "/v1/models", '{"name": "m", "algorithm": "falt"}')[0] == 201
    return process


@pytest.fixture
def server(process: Any) -> Any:
    """The running server."""
    if process.process is None:
        process.start()
    return process


def updates(server: Any) -> int:
    n: int = request(server.port, "GET", "/v1/models/m")[1]["updates"]
    return n


@pytest.mark.usefixtures("programs")
def test_a_server_logs_its_address_and_stops_cleanly(tmp_path: Path) -> None:
    with started("--port", "0", "--data-dir", str(tmp_path / "data")) as process:
        assert process.stderr is not None
        lines = []
        for text in process.stderr:
            lines.append(json.loads(text))
            if lines[-1]["event"] == "serving":
                break
        assert lines[0]["event"] == "starting"
        url = lines[-1]["url"]
        assert lines[-1]["docs"] == f"{url}/docs"
        port = int(url.rsplit(":", 1)[1])
        assert port != 0
        assert request(port, "GET", "/readyz") == (200, {"ready": True, "failed": []})

        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0
        assert json.loads(process.stderr.read().splitlines()[-1])["event"] == "stopped"


FAILING = """
import sys
from manylabel_service.__main__ import main
from manylabel_service.webhooks.deliverer import Deliverer

async def stop(self):
    raise ValueError("for the test")

Deliverer.stop = stop
sys.exit(main())
"""


@pytest.mark.usefixtures("programs")
def test_each_step_of_a_shutdown_runs_after_an_error(tmp_path: Path) -> None:
    """The state is stored, the store closed, and the exit status tells."""
    flags = ("--port", "0", "--data-dir", str(tmp_path / "data"))
    with started(*flags, command=[sys.executable, "-c", FAILING]) as process:
        assert process.stderr is not None
        url = next(line["url"] for line in map(json.loads, process.stderr) if line["event"] == "serving")
        port = int(url.rsplit(":", 1)[1])
        assert request(port, "POST", "/v1/models", '{"name": "m", "algorithm": "falt"}')[0] == 201
        assert request(port, "POST", "/v1/models/m/update", ITEM)[0] == 200
        process.send_signal(signal.SIGTERM)
        lines = [json.loads(text) for text in process.stderr]
        assert process.wait(WAIT_SECONDS) == 1
    (failed,) = [line for line in lines if line["event"] == "stop_failed"]
    assert (failed["part"], failed["level"]) == ("webhooks", "error")
    assert "for the test" in str(failed)
    assert snapshot_files(tmp_path / "data")
    assert not (tmp_path / "data" / "manylabel.sqlite3-wal").exists()


@pytest.mark.usefixtures("programs")
def test_a_data_directory_is_used_by_one_server(server: Any) -> None:
    before = updates(server)
    second = finished("manylabel_service", "--port", "0", "--data-dir", str(server.data_dir))
    assert second.returncode == 1
    events = {line["event"]: line for line in map(json.loads, second.stderr.splitlines())}
    assert str(server.data_dir) in events["cannot_start"]["error"]
    assert str(server.pid) in events["cannot_start"]["error"]
    assert "serving" not in events
    assert "Traceback" not in second.stderr
    assert request(server.port, "POST", "/v1/models/m/update", ITEM)[1]["updates"] == before + 1


def test_requests_are_logged_with_their_id_and_without_their_query(server: Any) -> None:
    address = ("127.0.0.1", server.port)
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=120)) as connection:
        connection.request("GET", "/v1/models/nobody?token=secret", headers={"X-Request-ID": "mine-1"})
        connection.getresponse().read()
    eventually(lambda: '"mine-1"' in server.log.read_text())  # a request is logged after its response
    log = server.log.read_text()
    lines = [json.loads(line) for line in log.splitlines() if '"mine-1"' in line]
    assert [(line["event"], line["method"], line["path"], line["status"]) for line in lines] == [
        ("request", "GET", "/v1/models/nobody", 404)
    ]
    assert "secret" not in log


HEAD = "POST /v1/models/m/update HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_requests_in_progress_are_finished_at_the_stop(server: Any) -> None:
    before = updates(server)
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(f"{HEAD}Content-Length: {len(ITEM)}\r\n\r\n{ITEM[:10]}".encode())
        # An answer on another connection: the server has read what was sent before.
        assert request(server.port, "GET", "/livez")[0] == 200
        os.kill(server.pid, signal.SIGTERM)
        eventually(lambda: refuses(server.port))
        connection.sendall(ITEM[10:].encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 200
        assert json.loads(answer.read())["updates"] == before + 1
    assert server.stop() == 0
    server.start()
    assert updates(server) == before + 1


def refuses(port: int) -> bool:
    """The server has begun to stop when it takes no more connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=120).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was waiting to be taken when that ended
        pass
    return False


def test_an_endless_request_is_cut_off_at_the_stop(server: Any) -> None:
    before = updates(server)
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(f"{HEAD}Content-Length: 9\r\n\r\n{{".encode())
        assert request(server.port, "GET", "/livez")[0] == 200
        assert server.stop() == 0
    server.start()
    assert updates(server) == before


@pytest.mark.usefixtures("programs")
def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        second = finished(
            "manylabel_service", "--port", str(port), "--data-dir", str(tmp_path / "data"), "--log-format", "console"
        )
    assert second.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in second.stderr
    assert "Traceback" not in second.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "localhost"])
@pytest.mark.parametrize("insecure", [False, True])
def test_an_open_server_logs_a_warning(host: str, insecure: bool, capsys: pytest.CaptureFixture[str]) -> None:
    warn_if_open(Settings(host=host, insecure=insecure))
    assert ("open_to_others" in capsys.readouterr().out) == (insecure and host == "0.0.0.0")


@pytest.mark.parametrize(
    ("flags", "address"), [(("--trusted-proxies", "127.0.0.1,10.0.0.0/8"), "9.9.9.9"), ((), "127.0.0.1")]
)
def test_only_a_trusted_proxy_sets_the_address_of_a_client(
    server_process: Any, flags: tuple[str, ...], address: str
) -> None:
    server = server_process(*flags).start()
    chain = {"X-Forwarded-For": "6.6.6.6, 9.9.9.9, 10.1.2.3"}  # a client can send any first address
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as connection:
        connection.request("DELETE", "/v1/models/nobody", headers=chain)
        assert connection.getresponse().status == 404
    assert server.stop() == 0
    assert json.loads((server.data_dir / "audit.jsonl").read_text())["address"] == address


@pytest.mark.usefixtures("programs")
def test_the_audit_can_be_written_to_standard_output(tmp_path: Path) -> None:
    port = free_port()
    flags = ("--port", str(port), "--data-dir", str(tmp_path / "data"), "--audit-file", "stdout")
    process = ForkedProgram([*flags], tmp_path / "log", {}, out=tmp_path / "out")
    eventually(lambda: request(port, "GET", "/readyz")[0] == 200, ignore=OSError)
    assert request(port, "POST", "/v1/models", '{"name": "m", "algorithm": "falt"}')[0] == 201
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_SECONDS) == 0
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [(line["route"], line["model"], line["status"]) for line in lines] == [
        ("/v1/models", "m", 201),
    ]
    assert not (tmp_path / "data" / "audit.jsonl").exists()
