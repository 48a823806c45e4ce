"""Help of the command: complete, quick, and the server's own for the server's programs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.cases import for_each

from manylabel_clients import plots, river
from manylabel_clients.command.app import app
from manylabel_clients.command.data import files
from manylabel_clients.command.models.plot import KINDS
from manylabel_clients.http.responses import EXTENSIONS, FORMATS

SCRIPT = Path(sys.executable).with_name("manylabel")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, sub in getattr(command, "commands", {}).items():
        yield from commands(sub, (*path, name))


ALL = dict(commands(app))
HANDED_ON = (("serve",), ("worker",), ("backup",), ("restore",), ("move-blobs",), ("upgrade-store",), ("keys", "init"))
"""Programs of the server, which print their own help."""


@for_each("path", [path for path in ALL if path not in HANDED_ON], ids=" ".join)
def test_every_command_and_parameter_is_described(path: tuple[str, ...]) -> None:
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, [*path, "--help"], terminal_width=300)
    assert result.exit_code == 0
    command = ALL[path]
    text = " ".join(result.output.split())
    assert command.help
    for parameter in command.params:
        assert parameter.help, f"{path}: {parameter.name}"
        if parameter.param_type_name == "option":
            assert parameter.opts[0] in text
    for name, sub in getattr(command, "commands", {}).items():
        assert name in text
        assert sub.help


@for_each("path", ALL, ids=" ".join)
def test_every_command_with_a_url_takes_a_key(path: tuple[str, ...]) -> None:
    options = {option for parameter in ALL[path].params for option in parameter.opts}
    assert "--api-key-file" in options or "--url" not in options


def test_names_of_modules_that_the_command_does_not_load() -> None:
    assert tuple(plots.KINDS) == KINDS
    assert river.files.FORMATS.keys() == {*FORMATS}
    assert {*re.findall(r"\.\w+", files.FORMATS_HELP)} == {*EXTENSIONS, ".gz"}


@pytest.mark.usefixtures("programs")
@for_each(("path", "flag"), [(("serve",), "--data-dir"), (("worker",), "--store"), (("keys", "init"), "--file")])
def test_help_of_the_servers_programs_is_theirs(path: tuple[str, ...], flag: str) -> None:
    helped = subprocess.run([SCRIPT, *path, "--help"], capture_output=True, text=True, timeout=600)
    assert helped.returncode == 0, helped.stderr
    assert flag in helped.stdout


@pytest.mark.usefixtures("programs")
def test_serve_hands_unknown_flags_on_to_the_server() -> None:
    refused = subprocess.run([SCRIPT, "serve", "--no-such-flag", "1"], capture_output=True, text=True, timeout=600)
    assert refused.returncode == 2
    assert "no-such-flag" in refused.stderr.replace("_", "-")


def test_the_demo_takes_the_port_of_the_environment() -> None:
    (port,) = (parameter for parameter in ALL["demo",].params if parameter.name == "port")
    assert port.envvar == "MANYLABEL_PORT"
    refused = CliRunner().invoke(app, ["demo"], env={"MANYLABEL_PORT": "0"})
    assert (refused.exit_code, "MANYLABEL_PORT" in refused.output or "--port" in refused.output) == (2, True)
