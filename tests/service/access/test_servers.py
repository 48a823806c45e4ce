"""Servers and their keys: the first key, restarts, replicas, outages of the store, and public addresses."""

import http.client
import json
import os
import re
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.service.access.keyed import Keyed
from tests.support.server_process import ServerProcess
from tests.support.waiting import DEADLINE_SECONDS, eventually, eventually_async

from manylabel_service import programs
from manylabel_service.access import __main__ as program
from manylabel_service.access.key import KeyStore, new_key
from manylabel_service.access.keyring import Keyring
from manylabel_service.app import create_app
from manylabel_service.settings import Settings
from manylabel_service.storage import Store, collection, open_store

Serve = Callable[..., Any]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program that creates the first key; return its exit status, output and errors."""

    def running(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["manylabel_service.access", "init", *arguments])
        monkeypatch.setattr(programs, "configure_logging", lambda settings: None)
        monkeypatch.setattr(os, "umask", lambda mask: None)
        status = program.main()
        return status, *capsys.readouterr()

    return running


def answer(client: TestClient, key: str | None, path: str = "/v1/models") -> Any:
    return client.get(path, headers={} if key is None else {"api-key": key})


def test_the_first_key_is_created_in_a_data_directory(run: Run, serve: Serve, tmp_path: Path) -> None:
    status, text, told = run("--data-dir", str(tmp_path), "--name", "root")
    assert status == 0
    assert re.fullmatch(r"ml_\w{12}_\w{43}\n", text)
    assert "root" in told
    assert text.strip() not in told
    with serve(data_dir=tmp_path) as client:
        assert answer(client, None).json()["code"] == "key_required"
        (key,) = answer(client, text.strip(), "/v1/keys").json()["keys"]
        assert (key["name"], key["scopes"], key["models"], key["state"]) == ("root", ["admin"], ["*"], "active")
        refused = run("--data-dir", str(tmp_path))
        assert refused[:2] == (1, "")
        assert "another process" in refused[2] or "in use" in refused[2]


def test_the_first_key_can_be_written_to_a_file(run: Run, tmp_path: Path) -> None:
    place, file = str(tmp_path / "data"), tmp_path / "key"
    file.touch(0o644)
    assert run("--data-dir", place, "--file", str(file), "--if-none")[:2] == (0, "")
    first = file.read_text()
    assert re.fullmatch(r"ml_\w{12}_\w{43}\n", first)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("--data-dir", place, "--file", str(file), "--if-none")[:2] == (0, "")
    assert file.read_text() == first


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_another_key_is_created_only_on_request(
    run: Run, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    place = ("--store", request.getfixturevalue("shared_redis")()) if kind == "redis" else ("--data-dir", str(tmp_path))
    assert run(*place)[0] == 0
    status, text, told = run(*place)
    assert (status, "ml_" in text) == (1, False)
    assert "--another" in told
    status, text, _ = run(*place, "--if-none")
    assert (status, "ml_" in text) == (0, False)
    status, text, _ = run(*place, "--another")
    assert status == 0
    assert re.search(r"^ml_\w{12}_\w{43}$", text, re.MULTILINE)


def test_a_server_at_a_public_address_does_not_start_without_a_key(
    server_process: Callable[..., ServerProcess],
) -> None:
    server = server_process("--host", "0.0.0.0").start(wait=False)
    assert server.process is not None
    assert server.process.wait(DEADLINE_SECONDS) == 1
    server.process = None
    (line,) = [json.loads(line) for line in server.log.read_text().splitlines() if "cannot_start" in line]
    assert "manylabel keys init" in line["error"]
    assert "--insecure" in line["error"]


def test_a_server_at_a_public_address_starts_if_it_is_insecure(tmp_path: Path) -> None:
    ready = threading.Event()
    settings = Settings(host="0.0.0.0", insecure=True, data_dir=tmp_path)
    app = create_app(settings, open_store(settings), on_ready=ready.set)
    with TestClient(app, base_url="http://localhost") as client:
        assert ready.wait(DEADLINE_SECONDS)
        assert answer(client, None).status_code == 200


async def test_a_worker_that_does_not_check_is_not_open(sqlite_store: Store) -> None:
    keyring = Keyring(KeyStore(sqlite_store.documents, 10), "0.0.0.0")
    await keyring.start(check=False)
    assert not keyring.access(None).allows("read")
    await keyring.stop()


def test_keys_survive_a_restart(serve: Serve, tmp_path: Path) -> None:
    with serve(data_dir=tmp_path) as client:
        before = Keyed(client)
        keys = before.call("get", "/v1/keys").json()
    with serve(data_dir=tmp_path) as client:
        assert answer(client, None).json()["code"] == "key_required"
        assert answer(client, before.admin, "/v1/keys").json() == keys
        assert answer(client, before.keys["read"]).status_code == 200
        for text in before.wrong.values():
            assert answer(client, text).json()["code"] == "key_invalid"


def test_changes_of_keys_reach_the_other_server(serve: Serve, shared_redis: Callable[[], str]) -> None:
    url = shared_redis()
    with ExitStack() as stack:
        one, two = (stack.enter_context(serve(store=url)) for _ in range(2))
        assert answer(two, None).status_code == 200
        keyed = Keyed(one)
        eventually(lambda: answer(two, None).status_code == 401)
        made = keyed.make(scopes=["read"])
        eventually(lambda: answer(two, made["key"]).status_code == 200)
        keyed.call("delete", f"/v1/keys/{made['id']}")
        eventually(lambda: answer(two, made["key"]).status_code == 401)  # asked without a pause: under load
        assert answer(two, keyed.admin).status_code == 200


async def test_a_local_change_does_not_hide_a_remote_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "WHOLE_SECONDS", inf)  # a poll of all documents would find a hidden change
    here, there = (Keyring(KeyStore(store.documents, 10), None) for _ in range(2))
    await here.start()
    await there.start()
    try:
        (lost, lost_text), (made, made_text), (own, _) = (new_key(name, ("admin",)) for name in ("lost", "made", "own"))
        anybody = here.access(None)
        await here.add(lost, anybody)
        await eventually_async(lambda: there.access(lost_text).allows("read"))
        await there.revoke(lost.id, anybody)
        await there.add(made, anybody)
        await here.add(own, anybody)  # before the next poll of `here`
        await eventually_async(lambda: not here.access(lost_text).allows("read"))
        await eventually_async(lambda: here.access(made_text).allows("read"))
    finally:
        await here.stop()
        await there.stop()


def test_known_keys_are_valid_during_an_outage(serve: Serve, redis_server: Any) -> None:
    with serve(store=redis_server.url) as client:
        keyed = Keyed(client)
        spec = {"name": "m", "algorithm": "falt", "labels": ["a"]}
        assert keyed.call("post", "/v1/models", json=spec).status_code == 201
        redis_server.kill()

        def predicted(key: str) -> int:
            status: int = keyed.call("post", "/v1/models/m/predict", key, json={"x": [1]}).status_code
            return status

        assert predicted(keyed.keys["predict"]) == 200
        assert predicted(keyed.keys["learn"]) == 403
        assert predicted(keyed.wrong["revoked"]) == 401
        eventually(lambda: keyed.call("get", "/v1/keys").status_code == 503)
        lost = keyed.keys["predict"].split("_")[1]
        revoked = keyed.call("delete", f"/v1/keys/{lost}")
        assert (revoked.status_code, revoked.json()["state"]) == (202, "revoked")
        assert predicted(keyed.keys["predict"]) == 401
        redis_server.start()
        eventually(lambda: keyed.call("delete", f"/v1/keys/{lost}").status_code == 204)
        assert keyed.shown(lost)["revoked_at"] == revoked.json()["revoked_at"]
        id = keyed.call("get", "/v1/keys").json()["keys"][0]["id"]
        assert keyed.call("delete", f"/v1/keys/{id}").status_code == 204


def fill(ballast: Path) -> None:
    """Write to a file until its disk is full."""
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(2**12))


def test_a_full_disk_accepts_revocations_and_deletions(serve: Serve, small_disk: Path) -> None:
    with serve(data_dir=small_disk / "data") as client:
        keyed = Keyed(client)
        for name in ("filled", "other"):
            spec = {"name": name, "algorithm": "falt", "labels": ["a"]}
            assert keyed.call("post", "/v1/models", json=spec).status_code == 201
        update = {"examples": [{"x": {"indices": [1], "values": [1.0]}, "y": ["a"]}] * 2_000}
        ballast = small_disk / "ballast"
        fill(ballast)
        while (answer := keyed.call("post", "/v1/models/filled/update", json=update)).status_code == 200:
            fill(ballast)
        assert answer.json()["code"] == "storage_full"
        for scope in ("predict", "learn", "read"):
            key = keyed.keys[scope]
            assert keyed.call("delete", f"/v1/keys/{key.split('_')[1]}").status_code == 204
            assert keyed.call("get", "/v1/models", key).status_code == 401
        assert keyed.call("delete", "/v1/models/filled").status_code == 204
        ballast.unlink()
        update = {"x": {"indices": [1], "values": [1.0]}, "y": ["a"]}
        eventually(lambda: keyed.call("post", "/v1/models/other/update", json=update).status_code == 200)


def test_streams_end_when_their_key_is_revoked_and_no_log_has_a_key(
    server_process: Callable[..., ServerProcess], run: Run, tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    admin = run("--data-dir", str(directory))[1].strip()
    with server_process("--log-level", "debug", data_dir=directory).start() as server, ExitStack() as stack:

        def connect(key: str) -> Asker:
            return stack.enter_context(closing(Asker(server.port, key)))

        asker = connect(admin)
        asker.answer("POST", "/v1/models", {"name": "m", "algorithm": "falt"})
        rates = {"max_concurrent_requests": 2}
        made = asker.answer("POST", "/v1/keys", {"name": "n", "scopes": ["learn", "read"], "rates": rates})
        events, lines, third = (connect(made["key"]) for _ in range(3))
        listening = events.begin("GET", "/v1/models/m/events")
        assert b"events" in listening.readline()
        lines.begin_lines("/v1/models/m/stream")
        lines.send(b'{"x": [1.0], "y": ["a"]}\n')
        assert json.loads(lines.begun().readline())["updates"] == 1
        assert third.answer("GET", "/v1/models")["code"] == "rate_limited"
        asker.answer("DELETE", f"/v1/keys/{made['id']}")
        lines.send(b'{"x": [1.0], "y": ["a"]}\n')
        refused = json.loads(lines.begun().readline())
        assert (refused["line"], refused["error"]["code"]) == (2, "key_invalid")
        assert lines.begun().readline() == b""
        asker.answer("POST", "/v1/models/m/update", {"x": [1.0], "y": ["a"]})
        told = listening.read().decode()  # to its end
        assert "event: update" in told
        assert '"updates":2' not in told
        path = f"/v1/keys/{admin}"  # somebody's mistake
        answer = json.dumps(asker.answer("GET", path))
        logs = server.log.read_text() + (directory / "audit.jsonl").read_text() + answer + asker.text("/metrics")
    assert "/v1/keys/ml_" in logs
    for key in (admin, made["key"]):
        assert key.rsplit("_")[-1] not in logs


class Asker:
    """A connection to a server, with a key."""

    def __init__(self, port: int, key: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
        self._headers = {"Authorization": f"Bearer {key}"}
        self._answer: http.client.HTTPResponse | None = None

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._connection.close()

    def begin(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, {**self._headers, "Content-Type": "application/json"})
        self._answer = self._connection.getresponse()
        return self._answer

    def answer(self, method: str, path: str, body: Any = None) -> Any:
        text = self.begin(method, path, body).read()
        return json.loads(text) if text else None

    def text(self, path: str) -> str:
        return self.begin("GET", path).read().decode()

    def begin_lines(self, path: str) -> None:
        self._connection.putrequest("POST", path)
        for name, value in {**self._headers, "Content-Type": "application/x-ndjson"}.items():
            self._connection.putheader(name, value)
        self._connection.putheader("Transfer-Encoding", "chunked")
        self._connection.endheaders()

    def send(self, line: bytes) -> None:
        self._connection.send(b"%x\r\n%s\r\n" % (len(line), line))

    def begun(self) -> http.client.HTTPResponse:
        self._answer = self._answer or self._connection.getresponse()
        return self._answer
