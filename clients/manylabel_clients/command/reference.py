"""The page docs/command.md, made from the command itself: `python -m manylabel_clients.command.reference FILE`."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from manylabel_clients.command.app import NAME, app

HEAD = """\
# The command

<!-- Made by `make command-docs` from the command itself: change the help there. -->

`pip install manylabel` brings the command for a server that runs somewhere, under `--url` or `MANYLABEL_URL`.
Commands that work on this machine need an extra, and name it if it is missing: `serve`, `worker`, `export`, `import`
and `keys init` need `manylabel[server]`, `train` and files of CSV need `manylabel[core]`, `feed` and `evaluate FILE`
need `manylabel[river]`, `export-model` needs `manylabel[core]` or `manylabel[onnx]`, `models plot` needs
`manylabel[plots]`, `mcp` needs `manylabel[mcp]`, `demo` needs `manylabel[river,server]`.

Tables are as wide as the terminal, or as `COLUMNS` says; to a file or another program they are as wide as they must be.
`--json` prints one object a line, for scripts.

Commands and options are completed in the shell after `manylabel --install-completion` (bash, zsh, fish).
"""

SHARED = ("as_json", "url", "timeout", "api_key")
"""Options of most commands, described once."""

MORE = {
    "serve": "[its settings](settings.md)",
    "worker": "[its settings](settings.md), [training](operations.md#training)",
    "export": "[moving to another store](operations.md#moving-to-another-store)",
    "import": "[moving to another store](operations.md#moving-to-another-store)",
    "mcp": "[tools for agents](mcp.md)",
    "label": "[what to label next](http.md#get-v1modelsmpredictions)",
    "export-model": "[the files](export.md)",
    "evaluate": "[the measures](http.md#get-v1modelsmmetrics)",
    "train": "[training a model from a file](jobs.md#from-a-file), [which trainer for what](which-trainer.md)",
    "jobs": "[training jobs](jobs.md)",
    "audit": "[the audit](monitoring.md#audit)",
    "keys": "[keys and scopes](concepts.md#keys)",
    "init": "[security](operations.md#security)",
}
"""Where to read on, by the last word of a command."""


def page() -> str:
    """Return the page."""
    context = click.Context(app, info_name=NAME)
    models = click.Context(app.commands["models"], info_name="models", parent=context)
    shared = [line for name, line in _parameters(models.command, models) if name in SHARED]
    parts = [HEAD, "\n".join(_list_of(app, context)), "## Options of most commands", "\n".join(shared)]
    parts += ["\n".join(_section(command, path, above)) for path, command, above in _commands(app, context)]
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join(part.strip("\n") for part in parts)) + "\n"


def _commands(group: click.Group, above: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(above):
        command = group.commands[name]
        yield f"{above.command_path} {name}", command, above
        if isinstance(command, click.Group):
            yield from _commands(command, click.Context(command, info_name=name, parent=above))


def _list_of(group: click.Group, context: click.Context) -> Iterator[str]:
    """Yield what the group says of itself, and the list of its commands."""
    for name in group.list_commands(context):
        title = f"{context.command_path} {name}"
        summary = inspect.cleandoc(group.commands[name].help or "").partition("\n\n")[0].replace("\n", " ")
        yield f"- [`{title}`](#{title.replace(' ', '-')}): {summary}"
    yield ""
    yield from (line for _, line in _parameters(group, context))
    yield ""
    yield group.epilog or ""


def _section(command: click.Command, path: str, above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=above)
    yield f"## {path}"
    yield ""
    yield inspect.cleandoc(command.help or "")
    yield ""
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"    {path} {usage}".rstrip()
    yield ""
    described = list(_parameters(command, context))
    yield from (line for name, line in described if name not in SHARED)
    if shared := [line.partition(" ")[2].split("`")[1].split()[0] for name, line in described if name in SHARED]:
        yield f"- `{'`, `'.join(shared)}`: [as of most commands](#options-of-most-commands)"
    if more := MORE.get(path.rpartition(" ")[2]):
        yield ""
        yield f"More: {more}."


def _parameters(command: click.Command, context: click.Context) -> Iterator[tuple[str | None, str]]:
    """Yield the names of the parameters of a command, with what the page says of them."""
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield parameter.name, f"- `{record[0]}`: {record[1]}" if record[1] else f"- `{record[0]}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
