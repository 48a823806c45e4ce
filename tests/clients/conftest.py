"""One real server for all tests of the clients; each test has its own model names."""

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from manylabel_clients import Client


@pytest.fixture(scope="session")
def server(session_server_process: Callable[..., Any]) -> Iterator[Any]:
    """A running, ready server."""
    process = session_server_process().start()
    yield process
    process.stop()


@pytest.fixture(scope="session")
def keyed(session_server_process: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """The address of a server that requires keys, with the models tags and other, and an admin key."""
    process = session_server_process().start()
    with Client(process.url) as client:
        client.create_model("tags")
        client.create_model("other")
        key = client.keys.create("first", scopes=["admin"]).key
    with Client(process.url, api_key=key) as client:
        client.model("tags").update({"a": 1}, ["x"])
    yield process.url, key
    process.stop()


@pytest.fixture
def client(server: Any) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A model name that no other test uses."""
    return re.sub(r"[^a-z0-9]+", "-", f"{request.node.module.__name__}-{request.node.name}".lower())[-60:].strip("-")


class Terminal(io.TextIOWrapper):
    """Input that is typed at a terminal."""

    def isatty(self) -> bool:
        return True


class Done(NamedTuple):
    """Result of a command."""

    status: int
    out: str
    err: str

    def checked(self) -> Self:
        """Return the result; AssertionError with the error output if the command failed."""
        assert self.status == 0, self.err
        return self


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Done]:
    """Run the command in this process, like its console script."""
    from manylabel_clients.command import main

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, stdin: str = "", typed: bool = False) -> Done:
        monkeypatch.setattr("sys.argv", ["manylabel", *arguments])
        kind = Terminal if typed else io.TextIOWrapper
        monkeypatch.setattr("sys.stdin", kind(io.BytesIO(stdin.encode()), encoding="utf-8"))
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def manylabel(server: Any, command: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run the command in this process, against the server of the tests."""
    monkeypatch.setenv("MANYLABEL_URL", server.url)
    return command
