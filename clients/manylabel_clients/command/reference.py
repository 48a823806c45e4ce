"""Generator of docs/command.md from the command: `python -m manylabel_clients.command.reference FILE`."""

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

`pip install manylabel` installs the command for a remote server (`--url` or `MANYLABEL_URL`). Commands that work on
this machine need an extra, and name it if it is missing:

| extra | needed by |
|---|---|
| `manylabel[server]` | `serve`, `worker`, `backup`, `restore`, `keys init` |
| `manylabel[core]` | `train`, files of CSV; with `manylabel[onnx]`, `export-model` |
| `manylabel[river]` | `feed`, `evaluate FILE`; with `manylabel[server]`, `demo` |
| `manylabel[plots]`, `manylabel[mcp]` | `models plot`, `mcp` |

Tables are as wide as the terminal, or as `COLUMNS` says; in a file or pipe, as wide as necessary. `--json` prints one
object per line, for scripts. `manylabel --install-completion` completes commands and options (bash, zsh, fish).
"""

SHARED = ("as_json", "url", "timeout", "api_key", "yes")
"""Options of most commands, described once."""

MODEL = "- `MODEL`: Name of the model."
"""Line about the argument of most commands, which their usage shows."""

OF_MOST = (
    "`MODEL` is the name of a model. Commands that call a server have these options; `--json` if they print a result, "
    "`--yes` if they ask for confirmation."
)

OF_FILES = ("labels", "tags", "separator", "ignore", "text", "weight", "zero_based")
"""Options of the commands that read labelled files, described once."""

MORE = {
    "serve": "[its settings](settings.md)",
    "worker": "[its settings](settings.md), [training](operations.md#training)",
    "backup": "[backup and restore](backup.md)",
    "restore": "[backup and restore](backup.md)",
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
"""Links to further pages, by the last word of a command."""


def page() -> str:
    """Return the page."""
    context = click.Context(app, info_name=NAME)
    models = app.commands["models"]
    assert isinstance(models, click.Group)
    described = dict(line for name in ("create", "delete") for line in _parameters(models.commands[name], context))
    shared = [described[name] for name in SHARED]
    feed = app.commands["feed"]
    files = [line for name, line in _parameters(feed, click.Context(feed, parent=context)) if name in OF_FILES]
    parts = [HEAD, "\n".join(line for _, line in _parameters(app, context)), app.epilog or ""]
    parts += ["## Options of most commands", OF_MOST]
    parts += ["\n".join(shared), "## Options of labelled files", "\n".join(files)]
    parts += ["\n".join(_section(command, path, above)) for path, command, above in _commands(app, context)]
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join(part.strip("\n") for part in parts)) + "\n"


def _commands(group: click.Group, above: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(above):
        command = group.commands[name]
        yield f"{above.command_path} {name}", command, above
        if isinstance(command, click.Group):
            yield from _commands(command, click.Context(command, info_name=name, parent=above))


def _section(command: click.Command, path: str, above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=above)
    usage = " ".join(command.collect_usage_pieces(context))
    described = list(_parameters(command, context))
    shared = {name for name, _ in described}
    of_files = sum(name in shared for name in OF_FILES) > 3
    yield f"## {path}"
    yield ""
    if usage != "[OPTIONS]":
        yield f"`{path} {usage}`"
        yield ""
    more = MORE.get(path.rpartition(" ")[2])
    yield inspect.cleandoc(command.help or "") + (f" More: {more}." if more else "")
    yield ""
    yield from (
        line for name, line in described if name not in SHARED and line != MODEL and not (of_files and name in OF_FILES)
    )
    if of_files:
        yield "- [Options of labelled files](#options-of-labelled-files)"


def _parameters(command: click.Command, context: click.Context) -> Iterator[tuple[str | None, str]]:
    """Yield the names of the parameters of a command, with their descriptions."""
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield parameter.name, f"- `{record[0]}`: {record[1]}" if record[1] else f"- `{record[0]}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
