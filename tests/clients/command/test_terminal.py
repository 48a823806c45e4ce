"""The command in a terminal of 80 columns, its reference page, its version and its completion."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
from docs._site import command_reference as reference

from manylabel_clients import Client
from manylabel_clients.command.app import app
from manylabel_clients.command.output.tables import print_facts, print_table
from manylabel_clients.command.output.terminal import display_width

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(sys.executable).with_name("manylabel")
Command = Callable[..., Any]


@pytest.fixture
def narrow(command: Command, server: Any, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command in a terminal of 80 columns, which no line may exceed."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("MANYLABEL_URL", server.url)

    def run(*arguments: str) -> str:
        done = command(*arguments).checked()
        too_wide = [line for line in done.out.splitlines() if display_width(line) > 80]
        assert not too_wide, too_wide
        out: str = done.out
        return out

    return run


@pytest.fixture(scope="module")
def trained(server: Any) -> str:
    """A model trained by a job from a stream."""
    with Client(server.url) as client:
        stream = client.create_model("tsongs", text={"fields": ["title"]}, params={"drift": "adwin"})
        labels = ("rock", "quiet-and-sad", "amazed-or-surprised", "relaxing-calm")
        stream.update_many([({"title": f"song {n}", "loud": n % 7}, [labels[n % 4]]) for n in range(60)])
        stream.take_snapshot()
        stream.predict({"title": "a song", "loud": 3}, keep="record")
        job = client.train("m3l", {"stream": stream.name, "last": 60}, "tsongs-m3l", holdout=0.2)
        assert job.wait().state == "succeeded"
    return "tsongs-m3l"


def test_every_list_fits_80_columns(narrow: Command, trained: str, tmp_path: Path) -> None:
    jobs = narrow("jobs")
    assert "succeeded" in jobs.split()
    ids = re.findall(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", jobs, re.IGNORECASE)
    assert any("succeeded" in narrow("jobs", "show", job).split() for job in ids)
    file = tmp_path / "rows.jsonl"
    file.write_text('{"x": {"title": "a song"}, "y": ["rock"]}\n{"x": {"title": "b"}, "y": ["calm"]}\n')
    narrow("datasets", "add", "rows-with-quite-a-long-name", str(file), "--text", "title")
    assert "checksum" in narrow("datasets", "show", "rows-with-quite-a-long-name")
    stream = "tsongs"
    for arguments in (
        ["models"], ["models", "show", stream], ["models", "show", trained], ["models", "versions", trained],
        ["models", "labels", stream], ["models", "predictions", stream], ["snapshots", stream], ["evaluate", stream],
        ["jobs", "trainers"], ["replicas"], ["keys"], ["datasets"],
        ["predict", stream, '{"x": {"title": "song 3", "loud": 3}}', "--probabilities", "--explain", "3"],
    ):  # fmt: skip
        assert narrow(*arguments).strip(), arguments


@pytest.mark.parametrize("path", ["", "predict", "feed", "datasets add", "train", "keys create", "jobs submit"])
def test_help_fits_80_columns(path: str, narrow: Command) -> None:
    assert narrow(*path.split(), "--help").startswith("Usage: manylabel")


def test_wide_cells_take_several_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    print_table(("model", "text", "n"), [("m-1", "one two three four five six", "12")], words=2)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "model  text                  n",
        "──────────────────────────────",
        "m-1    one two three four   12",
        "       five six",
    ]
    monkeypatch.setenv("COLUMNS", "12")
    print_table(("model", "text", "n"), [("m-1", "one two", "12")], words=2)
    assert capsys.readouterr().out.splitlines() == ["", "model  m-1", "text   one", "       two", "n      12"]


def test_columns_are_aligned_by_the_width_of_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(("label", "n"), [("日本", "1"), ("cafe\u0301", "2"), ("a\x1b[2J\nb", "3")])
    lines = capsys.readouterr().out.splitlines()[3:]
    assert [display_width(line) for line in lines] == [10, 10, 10]
    assert "\x1b" not in "".join(lines)


def test_long_facts_are_continued_below_their_first_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    print_facts({"model": "m", "algorithm": "falt (eta=0.5, passes=1)", "none": ""})
    assert capsys.readouterr().out == "model       m\nalgorithm   falt\n            (eta=0.5,\n            passes=1)\n"


def test_a_long_name_stays_apart_from_its_fact(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"account": "a", "longest of names": "b"})
    assert capsys.readouterr().out.splitlines() == ["account           a", "longest of names  b"]


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version").out == f"manylabel {version('manylabel')}\n"


def test_the_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "command.md").read_text()
    assert page == reference.page(), "run: make command-docs"


def test_the_reference_page_has_every_command_and_parameter() -> None:
    page = reference.page() + reference.options()

    def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
        for name, command in group.commands.items():
            yield f"{path} {name}", command
            if isinstance(command, click.Group):
                yield from commands(command, f"{path} {name}")

    def section_of(title: str) -> str:
        usage = rf"{title}(?: [^a-z\n]*)?"
        section = re.search(rf"^## {usage}\n.*?(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
        found = section or re.search(rf"^\| `{usage}` \|.*$", page, re.MULTILINE)
        assert found, title
        return found[0]

    for path, command in commands(app, "manylabel"):
        assert re.search(rf"^\| `{path}[ `]", page, re.MULTILINE)
        section = section_of(path)
        if "(#options-of-labelled-files)" in section:
            section += section_of("Options of labelled files")
        section += section_of("Options of most commands")
        for parameter in command.params:
            assert (parameter.opts[0] if isinstance(parameter, click.Option) else parameter.metavar) in section, path


def complete(*words: str) -> list[str]:
    environment = {**os.environ, "_MANYLABEL_COMPLETE": "fish_complete", "COMP_WORDS": " ".join(["manylabel", *words])}
    environment["COMP_CWORD"] = words[-1]
    done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.usefixtures("programs")
def test_commands_and_options_are_completed() -> None:
    assert "plain,predict" in " ".join(complete("pre"))
    assert "plain,--dataset" in " ".join(complete("jobs", "submit", "--data"))


def test_completion_is_shown_and_installed(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    places = {
        "bash": "bash-completion/completions/manylabel",
        "zsh": "zsh/site-functions/_manylabel",
        "fish": "fish/completions/manylabel.fish",
    }
    for shell, place in places.items():
        shown = command("--show-completion", shell)
        assert "_MANYLABEL_COMPLETE" in shown.out
        assert str(tmp_path / place) in command("--install-completion", shell).out
        assert (tmp_path / place).read_text().strip() == shown.out.strip()
    assert command("--show-completion").out == command("--show-completion", "fish").out
    monkeypatch.setenv("SHELL", "/bin/sh")
    assert command("--show-completion").status == 2
