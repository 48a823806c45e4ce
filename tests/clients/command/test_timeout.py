"""Waiting commands say for what and give up after --timeout; wrong usage is reported in one line."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.clients.command.test_help import commands
from tests.support.cases import for_each
from tests.support.http_server import http_server

from manylabel_clients import Client
from manylabel_clients.command.app import app
from manylabel_clients.command.declaring import Commands
from manylabel_clients.command.options import remote


class Unavailable(BaseHTTPRequestHandler):
    """A server whose store is unavailable."""

    def do_GET(self) -> None:
        body = json.dumps({"status": 503, "code": "storage_unavailable", "detail": "it"}).encode()
        self.send_response(503)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def away() -> Iterator[str]:
    with http_server(Unavailable) as url:
        yield url


def test_a_command_says_what_it_waits_for_and_gives_up(command: Any, away: str) -> None:
    done = command("models", "--url", away, "--timeout", "1.5")
    assert (done.status, done.out) == (3, "")
    *waits, last = done.err.splitlines()
    assert waits
    assert all(line.startswith("manylabel: ") and "store" in line and "retrying in" in line for line in waits)
    assert last.startswith("manylabel: ")


def test_every_command_with_a_url_has_a_timeout() -> None:
    found = 0
    for path, each in commands(app):
        names = {parameter.name for parameter in each.params}
        assert ("url" in names) == ("timeout" in names), path
        found += "url" in names
    assert found > 20


@pytest.mark.parametrize(("seconds", "patience", "timeout"), [("5", 5, 5), ("600", 600, 30), (None, 60, 30)])
def test_the_timeout_applies_to_a_call_with_its_retries(seconds: str | None, patience: float, timeout: float) -> None:
    made = []

    @remote()
    def call(client: Client) -> None:
        made.append(client)

    group = Commands()
    group.add(call)
    group.main(["call", *(["--timeout", seconds] if seconds else [])], standalone_mode=False)
    connections = made[0]._connections
    assert connections.retry.patience_seconds == patience
    assert (connections.retry.attempts > 1_000) == (seconds is not None)
    assert connections._http.timeout.read == timeout


@for_each(
    ("words", "told"),
    [
        (["modells"], "models"),
        (["models", "--jsn"], "--json"),
        (["predict"], "MODEL"),
        (["predict", "m", "{}", "--url", "ftp://x"], "--url"),
        (["predict", "m", "--batch-size", "0"], "--batch-size"),
        (["feed", "m", "no-such-file.svm"], "no-such-file.svm"),
        (["train", "no-such-file.csv"], "no-such-file.csv"),
        (["models", "--timeout", "0"], "--timeout"),
        (["models", "--json", "show", "m"], "put it after show"),
        (["keys", "--timeout", "3", "list"], "put it after list"),
        (["jobs", "--state", "queued", "show", "j"], "put it after show"),
        (["models", "create", "m", "--algorithm"], "requires an argument (see manylabel models create --help)"),
        (["models", "plot", "m", "--kind", "pie"], "not 'pie'"),
        (["models", "plot", "m", "--out", "scores.gif"], "must end in .png, .svg, .pdf, not 'scores.gif'"),
        (["export-model", "m", "--to", "pickle", "-o", "x"], "must be one of onnx, python, json, not 'pickle'"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], told: str, command: Any) -> None:
    done = command(*words)
    assert (done.status, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("manylabel")
    assert told in line
    assert "--help" in line


def test_without_a_command_the_help_is_shown(command: Any) -> None:
    assert "Commands:" in command().err
