"""The light part of the distribution works without extras, and errors name the extra that is missing."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import pytest

import manylabel_extras
from manylabel_extras import EXTRAS, MissingExtra

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
IN_DEV = [extra for extra in EXTRAS if extra != "topics"]
"""Extras that the extra `dev` installs; `make test-kafka` installs the other one."""
HEAVY = sorted({module for _, modules in EXTRAS.values() for module in modules} | {"rich", "typer", "backports"})
LIGHT = {
    *("manylabel_clients", "manylabel_extras", "httpx2", "httpcore2", "anyio", "h11", "idna", "truststore", "click"),
    *("typing_extensions", "sniffio", "certifi"),
}
"""Top-level modules that the light part may load beside the standard library."""

BLOCKED = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""
COMMAND = """
from manylabel_clients.command import main
sys.argv = ["manylabel", *sys.argv[1:]]
try:
    main()
finally:
    own = {name.partition(".")[0] for name in sys.modules}
    print("LOADED", *sorted(own - set(sys.stdlib_module_names)), file=sys.stderr)
"""


def python(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run code where no module of an extra can be found."""
    return subprocess.run([sys.executable, "-P", "-c", BLOCKED + code, *arguments], capture_output=True, text=True)


def loaded(done: "subprocess.CompletedProcess[str]") -> set[str]:
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("LOADED"))
    return {name for name in line.split()[1:] if not name.startswith(("_", "sitecustomize"))}


@pytest.mark.usefixtures("programs")
def test_the_version_and_the_help_load_the_light_part_only() -> None:
    done = python(COMMAND, "--version")
    assert done.stdout == f"manylabel {version('manylabel')}\n", done.stderr
    assert loaded(done) <= LIGHT
    assert loaded(python(COMMAND, "models", "--help")) <= LIGHT


@pytest.mark.usefixtures("programs")
def test_the_client_loads_the_light_part_only() -> None:
    code = "import manylabel_clients\nnames = {name.partition('.')[0] for name in sys.modules}\n"
    done = python(code + "print('LOADED', *sorted(names - set(sys.stdlib_module_names)), file=sys.stderr)")
    assert done.returncode == 0, done.stderr
    assert loaded(done) <= LIGHT - {"click"}


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["serve"], "server"),
        (["worker"], "server"),
        (["backup", "--to", "file:///a"], "server"),
        (["restore", "--from", "file:///a"], "server"),
        (["keys", "init"], "server"),
        (["move-blobs", "--to", "store"], "server"),
        (["demo"], "server"),
        (["mcp"], "mcp"),
        (["consume", "t", "m"], "topics"),
        (["train", __file__], "core"),
        (["models", "plot", "m"], "plots"),
        (["export-model", "m", "--to", "onnx", "-o", "m.onnx"], "onnx"),
        (["export-model", "m", "--to", "json", "-o", "m.json"], "core"),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_a_command_names_the_extra_that_it_needs(arguments: list[str], extra: str) -> None:
    done = python(COMMAND, *arguments)
    called = " ".join(["manylabel", *arguments[: 2 if arguments[0] in ("keys", "models") else 1]])
    needed = " and ".join(EXTRAS[one][0] for one in extra.split(","))
    message = f"manylabel: `{called}` needs {needed}: pip install 'manylabel[{extra}]'"
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, message)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("manylabel_core", "core"),
        ("manylabel_core.batch", "core"),
        ("manylabel_service", "server"),
        ("manylabel_service.app", "server"),
        ("manylabel_clients.river", "river"),
        ("manylabel_clients.plots", "plots"),
        ("manylabel_clients.export", "core"),
    ],
)
def test_an_import_names_the_extra_that_it_needs(module: str, extra: str) -> None:
    code = f"""
from manylabel_extras import MissingExtra
try:
    import {module}
except MissingExtra as error:
    print(isinstance(error, ImportError), error.extra, error)
"""
    done = python(code)
    told = rf"True {extra} manylabel_\S+ needs .+: pip install 'manylabel\[{extra}\]'\n"
    assert re.fullmatch(told, done.stdout), done


@pytest.mark.usefixtures("programs")
def test_the_commands_for_a_running_server_need_no_extra(server: Any, tmp_path: Path) -> None:
    def manylabel(*arguments: str) -> str:
        done = python(COMMAND, *arguments, "--url", server.url)
        assert done.returncode == 0, done.stderr
        assert loaded(done) <= LIGHT
        return done.stdout

    file = tmp_path / "rows.jsonl"
    file.write_text('{"x": {"a": 1}, "y": ["b"]}\n' * 20)
    manylabel("models", "create", "light", "--text", "t")
    manylabel("update", "light", str(file))
    assert json.loads(manylabel("predict", "light", '{"x": {"a": 1}}', "--json"))["labels"] == ["b"]
    assert "micro-F1" in manylabel("evaluate", "light")
    assert "light" in manylabel("models")
    assert "algorithm" in manylabel("models", "show", "light")


@pytest.mark.usefixtures("dev_extra")
def test_extras_are_those_of_the_distribution() -> None:
    listed = PROJECT["optional-dependencies"]
    distributions = packages_distributions()

    def names(extra: str) -> set[str]:
        found = set()
        for requirement in listed[extra]:
            name = re.match(r"[\w-]+", requirement)[0].lower()  # type: ignore[index]
            others = re.match(r"manylabel\[(.+)\]", requirement)
            found |= set().union(*map(names, others[1].split(","))) if others else {name}
        return found

    for extra in IN_DEV:
        _, modules = EXTRAS[extra]
        installed = {name.lower().replace("_", "-") for module in modules for name in distributions[module]}
        assert installed == names(extra) - {"backports"}, extra


@pytest.mark.usefixtures("dev_extra")
def test_missing_modules_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [manylabel_extras.missing_modules(extra) for extra in IN_DEV] == [[]] * len(IN_DEV)
    find: Callable[[str], Any] = manylabel_extras.find_spec
    monkeypatch.setattr(manylabel_extras, "find_spec", lambda name: None if name == "uvloop" else find(name))
    manylabel_extras.require("one", "core")
    with pytest.raises(MissingExtra, match=r"one needs the server: pip install 'manylabel\[server\]'"):
        manylabel_extras.require("one", "server")
