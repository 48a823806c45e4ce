"""Shell completion: show the script or install it."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from manylabel_clients.command.failures import Failure

_DATA, _CONFIG = ("XDG_DATA_HOME", ".local/share"), ("XDG_CONFIG_HOME", ".config")
_PLACES = {
    "bash": (_DATA, "bash-completion/completions/manylabel"),
    "zsh": (_DATA, "zsh/site-functions/_manylabel"),
    "fish": (_CONFIG, "fish/completions/manylabel.fish"),
}
_ZSH = "; for zsh, add to ~/.zshrc, before compinit: fpath+=({folder})"


def _script(shell: str) -> str:
    kind = get_completion_class(shell)
    if kind is None:  # unreachable: the option accepts only the known shells
        raise Failure(f"no completion for {shell}")
    return kind(click.get_current_context().command, {}, "manylabel", "_MANYLABEL_COMPLETE").source()


def _show(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is not None:
        click.echo(_script(_known(shell)))
        context.exit()


def _install(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is None:
        return
    shell = _known(shell)
    (variable, usual), place = _PLACES[shell]
    path = Path(os.environ.get(variable) or Path.home() / usual) / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_script(shell))
    hint = _ZSH.format(folder=path.parent) if shell == "zsh" else ""
    click.echo(f"completion for {shell} is in {path}{hint}; it works in the next shell")
    context.exit()


def _known(shell: str) -> str:
    if shell == _OF_USER:
        shell = Path(os.environ.get("SHELL", "")).name
    if shell not in _PLACES:
        raise click.BadParameter(f"must be one of {', '.join(_PLACES)}, not {shell!r}")
    return shell


_OF_USER = "auto"


def _option(name: str, callback: object, help: str) -> click.Option:
    """Return an option whose value is a shell. The default is the shell of the environment."""
    return click.Option(
        [f"--{name}-completion"],
        is_flag=False,
        flag_value=_OF_USER,
        metavar="[SHELL]",
        expose_value=False,
        is_eager=True,
        callback=callback,
        help=help,
    )


show_completion = _option("show", _show, "Print the script that completes commands and options in bash, zsh or fish.")
install_completion = _option("install", _install, "Install that script where the shell finds it.")
