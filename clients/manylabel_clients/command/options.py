"""Common options of commands, and the client that they configure."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.http.client import AsyncClient, Client
from manylabel_clients.http.errors import ApiError, ManyLabelError
from manylabel_clients.http.transport.connections import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.http.transport.retry import Retry

C = TypeVar("C", Client, AsyncClient)


def _checked_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"must start with http:// or https://, not {url!r}")
    return url


def _setting(*declarations: str, check: Callable[[Any], Any] | None = None, **attributes: Any) -> click.Option:
    """Return an option whose value is stored in the context of the command, not passed to its function."""

    def note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        context.meta[f"manylabel.{parameter.name}"] = value if check is None else check(value)

    return click.Option(
        list(declarations), expose_value=False, callback=note, show_envvar="envvar" in attributes, **attributes
    )


KEY_FILE = _setting(
    "--api-key-file",
    "api_key",
    type=click.Path(path_type=Path),
    envvar="MANYLABEL_API_KEY_FILE",
    metavar="FILE",
    help="File with the API key. Default: MANYLABEL_API_KEY. There is no option for "
    "the key itself, which others on this machine would see.",
)
REMOTE = (
    _setting(
        "--url",
        check=_checked_url,
        default=DEFAULT_URL,
        show_default=True,
        envvar="MANYLABEL_URL",
        metavar="URL",
        help="Address of the server.",
    ),
    _setting(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Timeout of one call if the server does not respond or is unavailable: the command "
        "retries until then. Default: 60, and at most 4 attempts for short calls.",
    ),
    KEY_FILE,
)
"""Options of the commands that call a server, which `connect` reads."""


def _value(name: str) -> Any:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"manylabel.{name}")


def server_url() -> str:
    """Return the address of the server that the command calls."""
    url: str | None = _value("url")
    return DEFAULT_URL if url is None else url


def key_file() -> Path | None:
    """Return the file with the API key; None without the option."""
    path: Path | None = _value("api_key")
    return path


AsJson = Annotated[bool, Option("--json", help="Print JSON, for scripts.")]
ModelName = Annotated[str, Argument(metavar="MODEL", help="Name of the model.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")]
Input = Annotated[
    str,
    Argument(
        metavar="INPUT",
        help="JSON, a file, or - for standard input: one example, "
        '{"examples": [...]}, or an example on each line. Or a file that ends with .csv.',
    ),
]
BatchSize = Annotated[int, Option(min=1, max=10_000, help="Examples per request; 1 responds to each line at once.")]

_ANY_NUMBER = 10**6
_IMPATIENT = Retry(attempts=4, base_seconds=0.2)
PATIENT = Retry(attempts=_ANY_NUMBER, base_seconds=0.2)
"""Retry policy for long work, long enough for a restart of the server."""
NOTICED_SECONDS = 1.0
"""Minimum seconds of a wait that is reported."""

_REASONS = {"storage_unavailable": "the store is unavailable", "not_ready": "the server is not ready"}


def connect(retry: Retry = _IMPATIENT) -> Client:
    """Return a client with few retries, because a person is waiting, or with the ``--timeout`` of the command."""
    return _connect(Client, retry, key_file())


def connect_async(headers: Mapping[str, str] | None = None) -> AsyncClient:
    """Return an asynchronous client like `connect`; with `headers`, it sends these instead of a key."""
    return _connect(AsyncClient, _IMPATIENT, key_file() if headers is None else None, headers)


def _connect(kind: type[C], retry: Retry, path: Path | None, headers: Mapping[str, str] | None = None) -> C:
    seconds = _value("timeout")
    if seconds is not None:
        retry = replace(retry, attempts=_ANY_NUMBER, patience_seconds=seconds)
    timeout = min(DEFAULT_TIMEOUT_SECONDS, retry.patience_seconds)
    key = None if path is None else read_key(path)
    try:
        return kind(server_url(), timeout=timeout, retry=replace(retry, on_retry=_report), api_key=key, headers=headers)
    except ValueError as error:  # the error is about the key, because the address was checked before
        raise Failure(str(error)) from None


def _report(error: ManyLabelError, seconds: float) -> None:
    """Print on standard error why the command waits."""
    if seconds < NOTICED_SECONDS:
        return
    reason = _REASONS.get(error.code, error.detail) if isinstance(error, ApiError) else "the server does not respond"
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # erases a progress bar
    sys.stderr.write(f"{clear}manylabel: {reason}; retrying in {seconds:.0f} s\n")


def read_key(path: Path) -> Secret:
    """Return the key in a file; raise a Failure that does not reveal the contents."""
    try:
        text = path.read_text().strip()
    except UnicodeDecodeError:
        raise Failure(f"--api-key-file: {path} has no key, it is no text") from None
    except OSError as error:
        raise Failure(f"--api-key-file cannot be read: {error}") from error
    if not text:
        raise Failure(f"--api-key-file: {path} is empty")
    return Secret(text)


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation unless `yes`; exit if the answer is no."""
    if not yes:
        click.confirm(question, abort=True)


def refuse_options_of(context: click.Context, command: str) -> None:
    """Reject options before the subcommand, which would silently be ignored."""
    names = (
        ("url", "--url"),
        ("timeout", "--timeout"),
        ("api_key", "--api-key-file"),
        ("as_json", "--json"),
        ("state", "--state"),
    )
    for name, option in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise click.BadParameter(f"give it after {command}", param_hint=option)


def named_values(pairs: list[str] | None, option: str = "--param") -> dict[str, Any]:
    """Return NAME=VALUE pairs as a dict; a value that is not JSON is a string."""
    return dict(_named_value(pair, option) for pair in pairs or [])


def _named_value(text: str, option: str) -> tuple[str, Any]:
    name, given, value = text.partition("=")
    if not given:
        raise click.BadParameter(f"must be NAME=VALUE, not {text!r}", param_hint=option)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
