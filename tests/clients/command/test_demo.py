"""`manylabel demo` as a newcomer runs it: the server that it starts, and the commands that it prints."""

import hashlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.support.http_server import http_server
from tests.support.waiting import eventually

import manylabel_extras
from manylabel_clients import Client
from manylabel_clients.command.server.demo import STREAMS
from manylabel_clients.command.server.tickets import GIFT_CARDS_FROM, N_TICKETS, SHARES, tickets

SCRIPT = Path(sys.executable).with_name("manylabel")


class Demo:
    """A directory and a port to run the demo with; servers that it leaves running are killed."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.pids: set[int] = set()

    def run(self, *options: str) -> "subprocess.CompletedProcess[str]":
        # The demo must not ask a proxy for a local server.
        proxied = {**environment(), "HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
        done = subprocess.run(
            [SCRIPT, "demo", "--port", str(self.port), *options],
            cwd=self.directory,
            env=proxied,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.pids |= {int(pid) for pid in re.findall(r"^stop +kill (\d+)$", done.stdout, re.M)}
        return done

    def close(self) -> None:
        for pid in self.pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        return b"manylabel_service" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    demo = Demo(tmp_path, port)
    yield demo
    demo.close()


@pytest.mark.usefixtures("programs")
def test_the_demo_from_start_to_stop(demo: Demo, server_process: Callable[..., Any]) -> None:
    done = demo.run()
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (pid,) = demo.pids
    check_figures(done.stdout, demo.port)
    check_pasted_lines(done.stdout)
    again = demo.run()
    assert again.returncode == 0, again.stderr
    assert "runs at" in again.stdout
    assert demo.pids == {pid}
    check_figures(again.stdout, demo.port)
    paste(line_of(again.stdout, "stop"))
    eventually(lambda: not is_running(pid))
    log = demo.directory / "manylabel-data" / "demo" / "server.log"
    assert json.loads(log.read_text().splitlines()[-1])["event"] == "stopped"
    command, serve, *flags = shlex.split(line_of(again.stdout, "restart"))
    assert (command, serve) == ("manylabel", "serve")
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    assert given.keys() == {"--host", "--port", "--data-dir"}
    data_dir = demo.directory / given["--data-dir"]
    with server_process("--host", given["--host"], data_dir=data_dir, port=int(given["--port"])) as server:
        check_restarted(server.start(wait=False).url, line_of(again.stdout, "train"))


def check_restarted(url: str, train: str) -> None:
    """Check that a server with the flags of the printed command has the model, and trains from its stream.

    The server is forked, so that its jobs start faster than those of the demo's own server.
    """
    with Client(url) as client:
        client.wait_ready(120)
        assert client.model("demo").status().updates == N_TICKETS
    trained = paste(train)
    assert "from 1,920 rows" in trained
    assert "held out" in trained


def check_figures(out: str, port: int) -> None:
    """Check the printed measures against those of the server."""
    rows = re.findall(r"^ *([\d,]+)" + r" +(0\.\d+)" * 6 + "$", out, re.M)
    assert 8 <= len(rows) <= 12
    counts = [int(row[0].replace(",", "")) for row in rows]
    assert counts == sorted(set(counts))
    assert counts[-1] == N_TICKETS
    assert float(rows[-1][1]) > 0.8
    with Client(f"http://127.0.0.1:{port}") as client:
        status = client.model("demo").status()
        kept = client.model("demo").predictions()
    assert status.updates == N_TICKETS
    assert kept.candidates == 20
    assert all(prediction.record for prediction in kept.predictions)
    so_far = status.metrics.cumulative
    names = ("micro_f1", "macro_f1", "hamming_loss")
    due = [getattr(of, name) for name in names for of in (so_far, so_far.baseline)]
    assert rows[-1][1:] == tuple(f"{measure:.3f}" for measure in due)


def check_pasted_lines(out: str) -> None:
    """Check that each printed command works."""
    predicted = json.loads(paste(line_of(out, "predict")))
    assert predicted["labels"]
    learnt = json.loads(paste(line_of(out, "learn")))
    assert learnt["updates"] == N_TICKETS + 1
    assert "micro-F1" in paste(line_of(out, "measure"))
    for page in ("docs", "look"):
        assert "<html" in paste(f"curl -s {line_of(out, page)}")


def line_of(out: str, what: str) -> str:
    (line,) = re.findall(rf"^{what} +(.*)$", out, re.M)
    return str(line)


def environment() -> dict[str, str]:
    """Return the variables of a shell in which the virtual environment is active."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MANYLABEL_")}
    return {**ours, "PATH": f"{SCRIPT.parent}:{os.environ['PATH']}"}


def paste(line: str) -> str:
    done = subprocess.run(["sh", "-c", line], env=environment(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("programs")
def test_another_program_on_the_port_is_left_alone(demo: Demo) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"live": "yes"}')

    with http_server(Other, demo.port):
        done = demo.run()
    assert done.returncode == 1
    assert f"another program has 127.0.0.1 port {demo.port}" in done.stderr
    assert "--port" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(demo.directory.iterdir())


@pytest.mark.usefixtures("programs")
def test_a_server_that_cannot_start_says_why(demo: Demo, server: Any) -> None:
    done = demo.run("--data-dir", str(server.data_dir))
    assert done.returncode == 1
    assert "the server could not start" in done.stderr
    assert str(server.data_dir) in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_make_demo_installs_what_the_demo_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    makefile = Path(__file__).parents[3].joinpath("Makefile").read_text()
    (extras,) = re.findall(r"\$\(RUNS\):.*?--editable '\.\[([a-z,]+)\]'", makefile, re.DOTALL)
    installed = {module for extra in extras.split(",") for module in manylabel_extras.EXTRAS[extra][1]}
    monkeypatch.setattr(manylabel_extras, "_is_there", installed.__contains__)
    for stream in STREAMS.values():
        manylabel_extras.require("manylabel demo", stream.extras)


@pytest.mark.usefixtures("programs")
def test_the_stream_of_genes(demo: Demo) -> None:
    done = demo.run("--stream", "yeast")
    assert done.returncode == 0, done.stderr
    (last,) = re.findall(r"^ *2,417 +(0\.\d+) +(0\.\d+)", done.stdout, re.M)
    assert float(last[0]) > 0.6
    assert last[1] == "0.587", "what the labels that most genes have reach"
    assert json.loads(paste(line_of(done.stdout, "predict")))["labels"]


def test_tickets_are_the_same_everywhere() -> None:
    """A digest of all of them: the figures of the pages depend on each."""
    stream = tickets()
    assert len(stream) == N_TICKETS
    assert {label for _, labels in stream for label in labels} == SHARES.keys()
    first = next(i for i, (_, labels) in enumerate(stream) if "gift-card" in labels)
    assert first >= GIFT_CARDS_FROM
    digest = hashlib.sha256(json.dumps(stream).encode()).hexdigest()
    assert digest.startswith("3c70762aeaa30139")
