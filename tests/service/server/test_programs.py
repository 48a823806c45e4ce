"""The start of all programs of the service: permissions of their files, and errors for wrong usage."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

import httpx2
import pytest
from tests.support.cases import for_each
from tests.support.forked_server import finished
from tests.support.server_process import ServerProcess
from tests.support.snapshot_files import snapshot_files
from tests.support.waiting import DEADLINE_SECONDS, eventually

from manylabel_service.programs import Parser
from manylabel_service.settings import Settings, option_names

MODULES = {
    ("serve",): "manylabel_service",
    ("worker",): "manylabel_service.jobs.worker",
    ("backup",): "manylabel_service.archive",
    ("restore",): "manylabel_service.archive",
    ("keys", "init"): "manylabel_service.access",
}
PROGRAMS = [" ".join(words) for words in MODULES]
ARGUMENTS = {"restore": ["--from", "file:///archive"]}
"""Further arguments that a program needs."""


def run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program of the service as the command does."""
    words = tuple(program.split())
    given = () if program in ("serve", "worker") else words[-1:]
    return finished(MODULES[words], *given, *arguments)


@contextmanager
def open_umask() -> Iterator[None]:
    """Programs that are started meanwhile make files that all may read and write, unless they say otherwise."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """The permissions of a directory and of all in it; a file may go meanwhile."""
    found = {}
    for path in [root, *root.rglob("*")]:
        with suppress(FileNotFoundError):
            found[str(path.relative_to(root))] = stat.S_IMODE(path.stat().st_mode)
    return found


def open_to_others(found: dict[str, int]) -> dict[str, str]:
    return {name: f"{bits:04o}" for name, bits in found.items() if bits & 0o077}


@pytest.mark.usefixtures("programs")
def test_all_files_of_a_server_and_its_archive_are_private(tmp_path: Path) -> None:
    data, found = tmp_path / "data", {}

    def is_done(http: httpx2.Client, job: str) -> bool:
        found.update(modes(data))
        return bool(http.get(job).json()["state"] == "succeeded" and bool(snapshot_files(data)))

    with open_umask():
        server = ServerProcess(data, ("--snapshot-every-updates", "1")).start()
    with server, httpx2.Client(base_url=server.url, timeout=DEADLINE_SECONDS) as http:
        http.post("/v1/models", json={"name": "m", "algorithm": "falt"}).raise_for_status()
        http.post("/v1/models/m/update", json={"x": {"a": 1}, "y": ["p"]}).raise_for_status()
        rows, ndjson = b'{"a": 1, "y": ["p"]}\n{"b": 1, "y": ["q"]}\n' * 20, {"Content-Type": "application/x-ndjson"}
        http.post("/v1/datasets?name=d&format=ndjson&label_columns=y", content=rows, headers=ndjson).raise_for_status()
        job = http.post("/v1/jobs", json={"trainer": "m3l", "data": {"dataset": "d"}, "model": "t"}).raise_for_status()
        eventually(lambda: is_done(http, job.headers["Location"]), 300)  # a first training compiles
        assert server.stop() == 0
    assert {"audit.jsonl", "lock", "manylabel.sqlite3", "manylabel.sqlite3-wal", "blobs"} <= found.keys()
    assert any(name.startswith("jobs/task-") and name.endswith(".json") for name in found)
    assert open_to_others(found) == {}
    with open_umask():
        done = run("backup", "--data-dir", str(data), "--to", (tmp_path / "archive").as_uri())
    assert (done.returncode, done.stderr) == (0, "")
    archived = modes(tmp_path / "archive")
    assert archived
    assert open_to_others(archived) == {}


def refused(
    program: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """The one line that a program says before it leaves with the status of wrong usage."""
    words = tuple(program.split())
    given = [] if program in ("serve", "worker") else words[-1:]
    monkeypatch.setattr(sys, "argv", ["program", *given, *arguments])
    with pytest.raises(SystemExit) as end:
        import_module(f"{MODULES[words]}.__main__").main()
    assert end.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith(f"manylabel {program}: ")
    return line


@pytest.mark.parametrize("program", PROGRAMS)
def test_wrong_usage_is_one_line_with_the_nearest_option(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(program, [*ARGUMENTS.get(program, ()), "--data-dirr", "x"], monkeypatch, capsys)
    assert "--data-dir?" in line
    assert f"manylabel {program} --help" in line


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("MANYLABEL_TLS_CERT", "MANYLABEL_TLS_CERT_FILE?"),
        ("MANYLABEL_MAX_BODY_BYTE", "MANYLABEL_MAX_BODY_BYTES?"),
        ("manylabel_auditfile", "MANYLABEL_AUDIT_FILE?"),
        ("MANYLABEL_API_KEYFILE", "MANYLABEL_API_KEY_FILE?"),
        ("MANYLABEL_QWERTYUIOP", "unknown setting"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_setting(
    program: str, variable: str, nearest: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "secret")
    for known in ("MANYLABEL_URL", "MANYLABEL_API_KEY", "MANYLABEL_API_KEY_FILE", "MANYLABEL_TEST_BROWSER"):
        monkeypatch.setenv(known, "x")
    line = refused(program, [*ARGUMENTS.get(program, ())], monkeypatch, capsys)
    assert f"{variable}: " in line
    assert nearest in line
    assert "secret" not in line


@for_each("joined", [True, False])
@for_each("first", [True, False])
def test_every_setting_is_a_flag_of_every_program(joined: bool, first: bool) -> None:
    parser = Parser("p")
    parser.add_argument("archive")
    switches = [name for name, takes_value in option_names().items() if not takes_value]
    assert switches == ["--insecure", "--no-insecure"]
    names = [f"--{name.replace('_', '-')}" for name in Settings.model_fields if name != "insecure"]
    flags = [part for name in names for part in ([f"{name}=1"] if joined else [name, "1"])]
    given = parser.parse_args(["a.zip", *flags, *switches] if first else [*flags, *switches, "a.zip"])
    assert given.archive == "a.zip"
    assert given.flags == (*(f"{name}=1" for name in names), *switches)
