"""Every command in the docs, the README and the examples exists, with its options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.support.cases import for_each

from manylabel_clients.command.app import app
from manylabel_service.access.__main__ import parser as init_parser
from manylabel_service.archive.__main__ import parser as archive_parser
from manylabel_service.models.__main__ import parser as upgrade_parser
from manylabel_service.move_blobs import parser as move_parser
from manylabel_service.settings import option_names

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for place in (ROOT / "docs", ROOT / "examples", ROOT / "deploy", ROOT / "README.md", ROOT / "docker-compose.yml")
    for path in ([place] if place.is_file() else place.rglob("*"))
    if path.suffix in (".md", ".py", ".sh", ".yml", ".yaml", ".txt") and path.is_file()
)
SHOWN = re.compile(
    r"(?:`|^[ \t]*(?:\$ )?(?:[A-Z_]+=\S+ )*|&& |docker compose run [^\n]*?)manylabel[ \t]([^`\n]+)", re.MULTILINE
)
AFTER = re.compile(r"\s(?:\||>|<|&&|&|#|\.\.\.)(?:\s|$)|;")
"""A pipe, a redirection, another command, or a comment."""
PROSE = re.compile(r"[a-z][a-z-]*$")

HANDED_ON = {
    ("serve",): set(option_names()),
    ("worker",): set(option_names()),
    ("backup",): set(archive_parser("backup")._option_string_actions),
    ("restore",): set(archive_parser("restore")._option_string_actions),
    ("move-blobs",): set(move_parser()._option_string_actions),
    ("upgrade-store",): set(upgrade_parser()._option_string_actions),
    ("keys", "init"): set(init_parser()._option_string_actions),
}
"""Options of the commands that are programs of the server."""


def shown(text: str) -> Iterator[str]:
    for found in SHOWN.finditer(text.replace("\\\n", " ")):
        yield AFTER.split(found[1])[0]


def unknown(line: str) -> str | None:
    """Return the first word of a line after `manylabel` that does not exist, or None."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    command: click.Command = app
    path: tuple[str, ...] = ()
    while words and isinstance(command, click.Group) and words[0] in command.commands:
        path = (*path, words.pop(0))
        command = command.commands[path[-1]]
    if command is app and words and not words[0].startswith("-"):
        return words[0]
    if isinstance(command, click.Group) and words and PROSE.match(words[0]):
        return words[0]
    options = HANDED_ON.get(path) or {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    for word in words:
        name = word.partition("=")[0]
        if re.match(r"--?[a-z]", name) and name not in options | {"--help", "-h"}:
            return name
    return None


@for_each("page", PAGES)
def test_every_shown_command_exists(page: Path) -> None:
    wrong = {line: name for line in shown(page.read_text(errors="replace")) if (name := unknown(line)) is not None}
    assert wrong == {}


def test_commands_are_found_in_the_pages() -> None:
    lines = [line for page in PAGES for line in shown(page.read_text(errors="replace"))]
    assert len(lines) > 100
    assert {line.split()[0] for line in lines} >= {"serve", "backup", "predict", "jobs", "keys", "models"}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("train --search C=1 rows.csv", "--search"),
        ("tarin rows.csv", "tarin"),
        ("jobs lst", "lst"),
        ("serve --prot 1", "--prot"),
        ("backup --too a", "--too"),
        ("keys init --data-dir=x --fil y", "--fil"),
        ("keys init --data-dir=x --file y", None),
        ("jobs submit --search default --stream m", None),
        ('predict tags \'{"x": {"--a": 1}}\'', None),
    ],
)
def test_unknown_commands_and_options_are_found(line: str, name: str | None) -> None:
    assert unknown(line) == name
