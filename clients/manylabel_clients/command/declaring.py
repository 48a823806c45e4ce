"""Commands from functions: the annotations of their parameters declare the arguments and options of the command line.

`typing.Annotated[T, Option(...)]` or `[T, Argument(...)]` declares a parameter; T is str, int, float, bool or Path, a
list of one of these for a repeatable option, or one of these or None. `[T, Fields(...)]` declares one option for each
field of a named tuple. The first paragraph of the docstring is the help in lists of commands. click parses the command
line.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, get_args, get_origin

import click
from click.core import ParameterSource

MISSING = inspect.Parameter.empty
INTERRUPTED = 130
"""Exit status after Ctrl-C."""
MAX_SUMMARY = 200
"""Characters of a command's help in a list."""
_BOUNDS, _OF_PATHS = ("min", "max"), ("exists", "file_okay", "dir_okay")


class _Declared:
    """Declaration of one parameter for click.

    Parameters
    ----------
    *names : names of an option, such as ``--url``; default: the name of the parameter.
    callback : validates and returns a value.
    **attributes : other attributes of click; of ranges, ``min`` and ``max``; of paths, ``exists`` and others.
    """

    def __init__(self, *names: str, callback: Callable[[Any], Any] | None = None, **attributes: Any) -> None:
        self._names, self._callback, self._attributes = names, callback, attributes

    def _made(self, kind: Any, default: Any) -> dict[str, Any]:
        """Return the arguments of click's classes."""
        given = dict(self._attributes)
        bounds, path = ({name: given.pop(name) for name in names if name in given} for names in (_BOUNDS, _OF_PATHS))
        if kind is Path:
            kind = click.Path(**path, path_type=Path)
        elif bounds:
            kind = (click.IntRange if kind is int else click.FloatRange)(**bounds)
        made = {"type": kind, "required": default is MISSING, **given}
        if default is not MISSING:
            made["default"] = default
        if (check := self._callback) is not None:
            made["callback"] = lambda _context, _parameter, value: check(value)
        return made


class Option(_Declared):
    """An option of a command; a bool is a flag, a list may be repeated."""

    def parameter(self, name: str, kind: Any, default: Any) -> click.Parameter:
        """Return click's option for the parameter of this name and type."""
        names = self._names or (f"--{name.replace('_', '-')}",)
        is_list, kind = _element(kind)
        attributes: dict[str, Any] = {"show_default": default is not None and kind is not bool, "show_envvar": True}
        attributes |= self._made(kind, default)
        if kind is bool:
            attributes |= {"type": None, "is_flag": True}
        if is_list:
            attributes.pop("default", None)
            attributes |= {"multiple": True, "callback": lambda _context, _parameter, given: list(given or ()) or None}
        return click.Option([*names, name], **attributes)


class Argument(_Declared):
    """Positional argument of a command."""

    def parameter(self, name: str, kind: Any, default: Any) -> click.Parameter:
        """Return click's argument for the parameter of this name and type."""
        attributes = self._made(_element(kind)[1], default)
        metavar = attributes.pop("metavar", name.upper())
        attributes["metavar"] = metavar if default is MISSING or metavar.startswith("[") else f"[{metavar}]"
        return click.Argument([name], **attributes)


class Fields:
    """Options for fields of a named tuple; each field is declared like a parameter."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def parameters(self, kind: Any) -> list[click.Parameter]:
        """Return click's options for the fields."""
        declared = inspect.get_annotations(kind)
        return [_declared(name, declared[name], kind._field_defaults[name]) for name in self._names]


class Commands(click.Group):
    """Group of commands, listed in the order in which they were added."""

    def add(self, *commands: click.Command | Callable[..., object]) -> None:
        """Add commands; a function is added as its command."""
        for one in commands:
            self.add_command(one if isinstance(one, click.Command) else command(one))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments of the group; a usage error is printed as one line."""
        with _one_line():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke a command. Ctrl-C ends it with the status that shells expect; a usage error is printed as one line."""
        try:
            with _one_line():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, each with its wrapped summary."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(MAX_SUMMARY)) for name, one in self.commands.items()])


class _Command(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _one_line():
            return super().parse_args(ctx, args)


class _UsageError(click.UsageError):
    """Usage error printed as one line, which ends with the command to see the help."""

    def show(self, file: IO[str] | None = None) -> None:
        """Write the line to a file, or to standard error."""
        path = "manylabel" if self.ctx is None else self.ctx.command_path
        click.echo(f"{path}: {self.message} (see {path} --help)", file, err=True)


@contextmanager
def _one_line() -> Iterator[None]:
    """Convert usage errors to errors that are printed as one line; a command without arguments still shows its help."""
    try:
        yield
    except (_UsageError, click.exceptions.NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        message = " ".join(error.format_message().split()).removesuffix(".")
        raise _UsageError(message, error.ctx or click.get_current_context(silent=True)) from error


def command(function: Callable[..., object], name: str | None = None, **settings: Any) -> click.Command:
    """Return the command that calls a function; `settings` are attributes of click's commands."""
    return _Command(name or function.__name__.replace("_", "-"), **_parts(function), **settings)


def group(
    name: str,
    function: Callable[..., object],
    *commands: click.Command | Callable[..., object],
    help: str | None = None,
) -> Commands:
    """Return a group of commands, which calls the function if no command is given.

    The default help is the docstring of the function. Options of the group are rejected before a command, because the
    command would ignore them.
    """
    parts = _parts(function)
    call = parts["callback"]

    def callback(**values: Any) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            return call(**values)  # type: ignore[no-any-return]
        for parameter in context.command.params:
            if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
                raise click.BadParameter(f"put it after {context.invoked_subcommand}", param_hint=parameter.opts[0])
        return None

    parts |= {"callback": callback, "help": help or parts["help"]}
    made = Commands(name, **parts, invoke_without_command=True)
    made.add(*commands)
    return made


def _parts(function: Callable[..., object]) -> dict[str, Any]:
    """Return the callback, the parameters and the help of a command."""
    declared: list[click.Parameter] = []
    tuples: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    for one in inspect.signature(function).parameters.values():
        (fields,) = one.annotation.__metadata__
        if isinstance(fields, Fields):
            options = fields.parameters(one.annotation.__origin__)
            tuples[one.name] = one.annotation.__origin__, [str(option.name) for option in options]
            declared += options
        else:
            declared.append(_declared(one.name, one.annotation, one.default))

    def callback(**values: Any) -> object:
        for name, (kind, fields) in tuples.items():
            values[name] = kind(**{field: values.pop(field) for field in fields})
        return function(**values)

    return {"callback": callback, "params": declared, "help": inspect.getdoc(function)}


def _declared(name: str, annotation: Any, default: Any) -> click.Parameter:
    declared: Option | Argument
    (declared,) = annotation.__metadata__
    return declared.parameter(name, annotation.__origin__, default)


def _element(kind: Any) -> tuple[bool, Any]:
    """Return whether a type is a list, and the type without list and None."""
    if get_origin(kind) is UnionType:
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is list:
        return True, get_args(kind)[0]
    return False, kind
