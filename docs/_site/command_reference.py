"""Generator of docs/command.md from the command: `python -m docs._site.command_reference FILE`."""

import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
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
| `manylabel[server]` | `serve`, `worker`, `backup`, `restore`, `move-blobs`, `upgrade-store`, `keys init` |
| `manylabel[core]` | `train`, files of CSV; with `manylabel[onnx]`, `export-model` |
| `manylabel[river]` | `feed`, `evaluate FILE`; with `manylabel[server]`, `demo` |
| `manylabel[plots]`, `manylabel[mcp]`, `manylabel[topics]` | `models plot`, `mcp`, `consume` |

Tables are as wide as the terminal, or as `COLUMNS` if it is set; in a file or pipe they are as wide as their content.
`--json` prints one object per line, for scripts. `--help` lists all options of a command; on the site they are also at
the end of this page.
"""

SHARED = ("as_json", "url", "timeout", "api_key", "yes")
"""Options of most commands, described once."""

PLAIN = {
    "- `MODEL`: Name of the model.",
    "- `LABEL`: Label.",
    "- `JOB`: Id of the job.",
    "- `NAME`: Name of the dataset.",
    "- `ID`: Id of the key: the part between its two underscores.",
    "- `ID`: Id of the webhook; `manylabel webhooks` lists them.",
    "- `VERSION`: Number of the version.",
}
"""Lines about arguments that OF_MOST explains."""

LEFT_OUT = {"[OPTIONS]", "[COMMAND] [ARGS]..."}
"""Parts of a usage that are omitted."""

OF_MOST = (
    "`MODEL`, `LABEL` and `NAME` are the names of a model, a label and a dataset; `JOB` and `ID` are the ids of a job, "
    "and of a webhook or key (the part of the key between its two underscores). Commands that call a server have these "
    "options; `--json` if they print a result, `--yes` if they ask for confirmation. A command asks before it deletes, "
    "revokes, forgets or rolls back. It does not ask before a change of labels that you name, such as a merge: "
    "`manylabel undo` takes it back, with the position that the command prints. The options of labelled files are "
    "`--labels`, `--tags`, `--separator`, `--ignore`, `--text`, `--weight` and `--zero-based`."
)

OF_FILES = ("labels", "tags", "separator", "ignore", "text", "weight", "zero_based")
"""Options of the commands that read labelled files, described once."""

OF_FILES_LINE = "- [Options of labelled files](#options-of-labelled-files)"

MORE = {
    "serve": "[its settings](settings.md)",
    "worker": "[its settings](settings.md), [training](operations.md#training)",
    "backup": "[backup and restore](backup.md)",
    "restore": "[backup and restore](backup.md)",
    "move-blobs": "[blobs outside of the store](deployment.md#blobs-outside-of-redis)",
    "upgrade-store": "[upgrades](upgrades.md)",
    "mcp": "[tools for agents](mcp.md)",
    "label": "[what to label next](http.md#get-v1modelsmpredictions)",
    "export-model": "[the files](export.md)",
    "consume": "[topics](kafka.md)",
    "evaluate": "[the measures](http.md#get-v1modelsmmetrics)",
    "train": "[training a model from a file](jobs.md#from-a-file), [which trainer for what](which-trainer.md)",
    "jobs": "[training jobs](jobs.md)",
    "keys": "[keys and scopes](keys.md)",
    "init": "[security](operations.md#security)",
}
"""Links to further pages, by the last word of a command."""


WIDTH = 120
"""Maximum characters in a line; code is not broken."""


def page() -> str:
    """Return the page: the commands, and the options that many of them have."""
    context = click.Context(app, info_name=NAME)
    models = app.commands["models"]
    assert isinstance(models, click.Group)
    described = dict(line for name in ("create", "delete") for line in _parameters(models.commands[name], context))
    rows = [
        f"| `{usage}` | {_in_short(about) if lines else about} | {_flags(lines)} |"
        for usage, about, lines in _described(context)
    ]
    parts = [
        HEAD,
        _list(line for _, line in _parameters(app, context)),
        app.epilog or "",
        "\n".join(["## Commands", "", "| command | | options |", "|---|---|---|", *rows]),
        "## Options of most commands",
        _paragraph(OF_MOST),
        _list(described[name] for name in SHARED),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def options() -> str:
    """Return what the site adds to the page: a section for each command with further options."""
    context = click.Context(app, info_name=NAME)
    feed = app.commands["feed"]
    files = [line for name, line in _parameters(feed, click.Context(feed, parent=context)) if name in OF_FILES]
    sections = [f"## Options of labelled files\n\n{_list(files)}\n"]
    sections += [
        f"## {usage}\n\n{_paragraph(about)}\n\n{_list(lines)}\n" for usage, about, lines in _described(context) if lines
    ]
    return "\n".join(sections)


def _described(context: click.Context) -> Iterator[tuple[str, str, list[str]]]:
    """Yield what `_describe` returns for each command."""
    for path, command, above in _commands(app, context):
        yield _describe(command, path, above)


def _in_short(about: str) -> str:
    """Return the first sentence of a description, and its link to another page."""
    first, _, rest = about.partition(". ")
    _, more, link = rest.partition("More: ")
    return f"{first.removesuffix('.')}." + (f" {more}{link}" if more else "")


def _flags(lines: Iterable[str]) -> str:
    """Return the options in the descriptions of parameters, without their values."""
    flags = [found[1] for line in lines if (found := re.match("- `(?:-[a-z], )?(--[a-z-]+)", line))]
    if OF_FILES_LINE in lines:
        flags.append("those of labelled files")
    return ", ".join(f"`{flag}`" if flag.startswith("-") else flag for flag in flags)


def _commands(group: click.Group, above: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(above):
        command = group.commands[name]
        yield f"{above.command_path} {name}", command, above
        if isinstance(command, click.Group):
            yield from _commands(command, click.Context(command, info_name=name, parent=above))


def _describe(command: click.Command, path: str, above: click.Context) -> tuple[str, str, list[str]]:
    """Return the usage of a command, its help, and a line for each parameter that is not described elsewhere."""
    name = path.rpartition(" ")[2]
    context = click.Context(command, info_name=name, parent=above)
    arguments = [piece for piece in command.collect_usage_pieces(context) if piece not in LEFT_OUT]
    described = list(_parameters(command, context))
    of_files = sum(parameter in OF_FILES for parameter, _ in described) > 3
    lines = [
        line
        for parameter, line in described
        if parameter not in SHARED and line not in PLAIN and not (of_files and parameter in OF_FILES)
    ]
    if of_files:
        lines.append(OF_FILES_LINE)
    about = inspect.cleandoc(command.help or "") + (f" More: {MORE[name]}." if name in MORE else "")
    return " ".join([path, *arguments]), " ".join(about.split()), lines


def _paragraph(text: str, indent: str = "") -> str:
    joined = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), " ".join(text.split()))
    filled = textwrap.fill(joined, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return filled.replace("\0", " ")


def _list(lines: Iterable[str]) -> str:
    return "\n".join(_paragraph(line, "  ") for line in lines)


def _parameters(command: click.Command, context: click.Context) -> Iterator[tuple[str | None, str]]:
    """Yield the names of the parameters of a command, with their descriptions."""
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            name, about = record[0], record[1].replace("  [", " [")
            yield parameter.name, f"- `{name.replace(' RANGE', '')}`: {about}" if about else f"- `{name}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
