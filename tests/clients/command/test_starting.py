"""Waiting for a server that compiles functions: what is shown, and when it ends."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.http_server import http_server

from manylabel_clients.command import options
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.server import background
from manylabel_clients.command.server.background import START_SECONDS, Background

READY = None
LOADING = (0, 0, None)
"""A server that is not ready and compiles nothing."""


class Scripted(BaseHTTPRequestHandler):
    """A server with prepared progress; the last one stays."""

    script: list[tuple[int, int, float | None] | None]

    def do_GET(self) -> None:
        progress = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        body: dict[str, Any] = {"models": []}
        if progress is not READY:
            done, total, seconds_left = progress
            body = {"status": 503, "code": "not_ready", "detail": "it compiles; retry"}
            if total:
                body["compiling"] = {"done": done, "total": total, "seconds_left": seconds_left}
        content = json.dumps(body).encode()
        self.send_response(200 if progress is READY else 503)
        self.send_header("Content-Type", "application/json" if progress is READY else "application/problem+json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def scripted(*script: tuple[int, int, float | None] | None) -> Iterator[str]:
    class Server(Scripted):
        pass

    Server.script = list(script)
    with http_server(Server) as url:
        yield url


def of(url: str, directory: Path) -> Background:
    return Background("127.0.0.1", int(url.rpartition(":")[2]), directory)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time that only pauses advance, each by two thirds of the time that a start may take without progress."""
    clock = SimpleNamespace(now=0.0)

    def sleep(_: float) -> None:
        clock.now += START_SECONDS * 2 / 3

    monkeypatch.setattr(background, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    return clock


def test_one_line_says_that_functions_are_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted(LOADING, (0, 110, None), (37, 110, 20.0), (90, 110, 5.0), LOADING, READY) as url:
        of(url, tmp_path).wait_ready()
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert "110 functions" in out
    assert err == ""


def test_a_terminal_shows_a_bar_that_is_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr("manylabel_clients.progress.REDRAW_SECONDS", 0.0)
    with scripted((0, 110, None), (37, 110, 20.3), READY) as url:
        of(url, tmp_path).wait_ready()
    drawn = terminal.getvalue().split("\r\x1b[K")
    assert [text.partition("compiling")[2] for text in drawn if "compiling" in text] == [
        " 0 of 110",
        " 37 of 110, about 20 s",
    ]
    assert any("━" in text and "╌" in text for text in drawn)
    assert drawn[-1] == ""


def test_no_start_ends_while_more_is_compiled(tmp_path: Path, clock: SimpleNamespace) -> None:
    with scripted(*[(done, 20, 9.0) for done in range(20)], READY) as url:
        of(url, tmp_path).wait_ready()
    assert clock.now > 10 * START_SECONDS


@pytest.mark.parametrize(("last", "told"), [((3, 20, 9.0), "compiling 3 of 20"), (LOADING, "it compiles; retry")])
def test_a_start_without_progress_ends(last: Any, told: str, tmp_path: Path, clock: SimpleNamespace) -> None:
    with scripted((1, 20, None), (2, 20, 9.0), last) as url, pytest.raises(Failure, match=told):
        of(url, tmp_path).wait_ready()
    assert clock.now < 5 * START_SECONDS


@pytest.mark.usefixtures("programs")
def test_a_server_that_exits_while_it_compiles_is_a_failure(tmp_path: Path) -> None:
    server = subprocess.Popen([sys.executable, "-c", ""])
    server.wait()
    with scripted((1, 20, None)) as url:
        described = of(url, tmp_path)
        described.log.write_text('{"event": "cannot_start", "error": "the disk is full"}\n')
        with pytest.raises(Failure, match="the disk is full"):
            described.wait_ready(server)


def test_a_command_waits_and_says_once_for_what(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "NOTICED_SECONDS", 0.0)
    with scripted(*[(done, 8, 4.0) for done in range(1, 8)], READY) as url:
        done = command("models", "--url", url).checked()
    assert "no models" in done.out
    assert done.err.count("\n") == 1
    assert "compiles" in done.err
    assert "1 of 8, about 4 s" in done.err


def test_a_command_whose_server_compiles_no_more_gives_up(command: Any) -> None:
    with scripted((1, 8, 4.0)) as url:
        done = command("models", "--url", url)
    assert done.status == 3
    assert "it compiles" in done.err.splitlines()[-1]
