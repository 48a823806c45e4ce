"""`manylabel keys`, and the key of every command: from a file or the environment, and never shown."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manylabel_clients import Client

SCRIPT = Path(sys.executable).with_name("manylabel")

Run = Callable[..., Any]


@pytest.fixture
def run(keyed: tuple[str, str], command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command against a server with keys, without a key in the environment."""
    monkeypatch.setenv("MANYLABEL_URL", keyed[0])
    for variable in ("MANYLABEL_API_KEY", "MANYLABEL_API_KEY_FILE"):
        monkeypatch.delenv(variable, raising=False)
    return command


@pytest.fixture
def key_file(keyed: tuple[str, str], tmp_path: Path) -> Path:
    path = tmp_path / "admin.key"
    path.write_text(f"{keyed[1]}\n")
    return path


def test_a_key_comes_from_an_option_or_the_environment(
    run: Run, keyed: tuple[str, str], key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run("models", "show", "tags")
    assert (refused.status, refused.err) == (1, refused.err.splitlines()[0] + "\n")
    assert "401 key_required" in refused.err
    assert refused.err.endswith("; give --api-key-file, or MANYLABEL_API_KEY\n")
    assert run("models", "show", "tags", "--api-key-file", str(key_file)).status == 0
    assert run("predict", "tags", '{"x": {"a": 1}}', "--api-key-file", str(key_file)).out
    with monkeypatch.context() as there:
        there.setenv("MANYLABEL_API_KEY", keyed[1])
        assert run("models").status == 0
    with monkeypatch.context() as there:
        there.setenv("MANYLABEL_API_KEY_FILE", str(key_file))
        assert run("models").status == 0
    wrong = run("models", "--api-key-file", str(key_file), "show", "tags")
    assert wrong.status == 2
    assert "put it after show" in wrong.err


@pytest.mark.parametrize("content", [None, "", " \n", "two words-xyz", "\xe4-xyz"])
def test_a_file_without_a_key_is_refused_without_showing_it(run: Run, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "wrong.key"
    if content is not None:
        path.write_text(content)
    refused = run("models", "--api-key-file", str(path))
    assert refused.status == 1
    assert refused.out == ""
    assert "xyz" not in refused.err
    assert "Traceback" not in refused.err
    assert re.search("cannot be read|is empty|visible ASCII", refused.err), refused.err


def test_a_key_is_created_changed_and_revoked(run: Run, keyed: tuple[str, str], key_file: Path, tmp_path: Path) -> None:
    made_file, options = tmp_path / "page.key", ("--api-key-file", str(key_file))
    made = run(
        "keys", "create", "the page", "--scope", "predict", "--scope", "read", "--model", "tags*", "--expires", "90d",
        "--note", "ask Ann", "--requests-per-second", "1000", "--file", str(made_file), *options,
    ).checked()  # fmt: skip
    assert made.out == ""
    key = made_file.read_text().strip()
    id = key.split("_")[1]
    assert f"created the key {id} (the page), in {made_file}" in made.err
    assert key not in made.err
    assert stat.S_IMODE(made_file.stat().st_mode) == 0o600
    shown = json.loads(run("keys", "show", id, "--json", *options).out)
    assert (shown["scopes"], shown["models"], shown["note"]) == (["predict", "read"], ["tags*"], "ask Ann")
    assert shown["rates"] == {
        "requests_per_second": 1000.0, "examples_per_second": None, "max_concurrent_requests": None,
    }  # fmt: skip
    assert "requests per second 1000" in run("keys", "show", id, *options).out
    for listed in (run("keys", *options), run("keys", "list", *options)):
        assert re.search(rf"{id} +the page +predict read +tags\* +active", listed.out)
    changed = run(
        "keys", "change", id, "--name", "pages", "--note", "", "--expires", "never", "--max-concurrent-requests", "9",
        "--json", *options,
    )  # fmt: skip
    found = json.loads(changed.out)
    assert (found["name"], found["note"], found["expires_at"]) == ("pages", None, None)
    assert found["rates"] == {
        "requests_per_second": 1000.0, "examples_per_second": None, "max_concurrent_requests": 9,
    }  # fmt: skip
    free = run("keys", "change", id, "--no-rates", "--json", *options)
    assert set(json.loads(free.out)["rates"].values()) == {None}
    assert "nothing to change" in run("keys", "change", id, *options).err
    assert run("predict", "tags", '{"x": {"a": 1}}', "--api-key-file", str(made_file)).status == 0
    forbidden = run("update", "tags", '{"x": {"a": 1}, "y": ["x"]}', "--api-key-file", str(made_file))
    assert "403 scope_missing" in forbidden.err
    assert run("keys", "revoke", id, "--yes", *options).out == f"revoked {id}\n"
    assert "401 key_invalid" in run("predict", "tags", '{"x": {"a": 1}}', "--api-key-file", str(made_file)).err
    assert "revoked" in run("keys", "show", id, *options).out


def test_a_new_key_is_printed_once(run: Run, key_file: Path, tmp_path: Path) -> None:
    options = ("--api-key-file", str(key_file))
    made = run("keys", "create", "shown", "--scope", "read", *options)
    assert re.fullmatch(r"ml_[a-z0-9]{12}_[A-Za-z0-9]{43}\n", made.out)
    assert made.out.strip() not in made.err
    assert re.fullmatch(
        r"ml_\w{56}", json.loads(run("keys", "create", "j", "--scope", "read", "--json", *options).out)["key"]
    )
    taken = run("keys", "create", "x", "--scope", "read", "--file", str(key_file), *options)
    assert "exists already" in taken.err
    absent = tmp_path / "absent.key"
    assert run("keys", "create", "x", "--scope", "all", "--file", str(absent), *options).status == 1
    assert not absent.exists()
    told = json.loads(run("keys", "create", "x", "--scope", "read", "--file", str(absent), "--json", *options).out)
    assert "key" not in told


@pytest.mark.usefixtures("programs")
def test_the_first_key_is_made_without_a_server(server_process: Run, tmp_path: Path) -> None:
    server, file = server_process(), tmp_path / "first.key"
    init = [str(SCRIPT), "keys", "init", "--data-dir", str(server.data_dir), "--file", str(file)]
    environment = {**os.environ, "MANYLABEL_API_KEY_FILE": str(file)}  # where it is not yet
    made = subprocess.run(init, capture_output=True, text=True, timeout=120, env=environment)
    assert made.returncode == 0, made.stderr
    assert made.stdout == ""
    with server.start(), Client(server.url, api_key=file.read_text().strip()) as client:
        assert [key.state for key in client.keys.list()] == ["active"]
