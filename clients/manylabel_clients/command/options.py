"""Common options of commands, and the client that they configure."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.http.client import AsyncClient, Client
from manylabel_clients.http.errors import ApiError, ManyLabelError
from manylabel_clients.http.transport.connections import DEFAULT_TIMEOUT_SECONDS
from manylabel_clients.http.transport.connections import DEFAULT_URL as DEFAULT_URL
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.http.transport.retry import Retry

C = TypeVar("C", Client, AsyncClient)


def _checked_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"must start with http:// or https://, not {url!r}")
    return url


_TIMEOUT = "manylabel.timeout"


def _note_timeout(context: click.Context, _parameter: click.Parameter, seconds: float | None) -> None:
    if seconds is not None:
        context.meta[_TIMEOUT] = seconds


Url = Annotated[
    str,
    Option(
        "--url",
        envvar="MANYLABEL_URL",
        metavar="URL",
        help="Address of the server.",
        callback=_checked_url,
        also=[
            click.Option(
                ["--timeout"],
                type=click.FloatRange(min=0, min_open=True),
                metavar="SECONDS",
                help="Timeout of one call if the server does not respond or is unavailable: the command "
                "retries until then. Default: 60, and at most 4 attempts for short calls.",
                expose_value=False,
                callback=_note_timeout,
            )
        ],
    ),
]
"""Address of the server; commands that have it have ``--timeout`` too, which `connect` reads."""


ApiKeyFile = Annotated[
    Path | None,
    Option(
        "--api-key-file",
        envvar="MANYLABEL_API_KEY_FILE",
        metavar="FILE",
        help="File with the API key. Default: MANYLABEL_API_KEY. There is no option for "
        "the key itself, which others on this machine would see.",
        show_default=False,
    ),
]
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
"""Retry policy for long work, which outlasts a restart of the server."""
NOTICED_SECONDS = 1.0
"""Minimum seconds of a wait that is reported."""

_REASONS = {"storage_unavailable": "the store is unavailable", "not_ready": "the server is not ready"}


def connect(url: str, api_key_file: Path | None = None, retry: Retry = _IMPATIENT) -> Client:
    """Return a client that soon gives up, since a person is waiting, or after the ``--timeout`` of the command."""
    return _connect(Client, url, api_key_file, retry)


def connect_async(url: str, api_key_file: Path | None = None, headers: Mapping[str, str] | None = None) -> AsyncClient:
    """Return an asynchronous client, as `connect`, which sends these headers too."""
    return _connect(AsyncClient, url, api_key_file, _IMPATIENT, headers)


def _connect(
    kind: type[C], url: str, api_key_file: Path | None, retry: Retry, headers: Mapping[str, str] | None = None
) -> C:
    context = click.get_current_context(silent=True)
    seconds = None if context is None else context.meta.get(_TIMEOUT)
    if seconds is not None:
        retry = replace(retry, attempts=_ANY_NUMBER, patience_seconds=seconds)
    timeout = min(DEFAULT_TIMEOUT_SECONDS, retry.patience_seconds)
    api_key = None if api_key_file is None else read_key(api_key_file)
    try:
        return kind(url, timeout=timeout, retry=replace(retry, on_retry=_report), api_key=api_key, headers=headers)
    except ValueError as error:  # of the key: the address has been looked at
        raise Failure(str(error)) from None


def _report(error: ManyLabelError, seconds: float) -> None:
    """Print on standard error what the command waits for."""
    if seconds < NOTICED_SECONDS:
        return
    reason = _REASONS.get(error.code, error.detail) if isinstance(error, ApiError) else "the server does not answer"
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # a progress bar
    sys.stderr.write(f"{clear}manylabel: {reason}; retrying in {seconds:.0f} s\n")


def read_key(path: Path) -> Secret:
    """Return the key in a file; raise a Failure, which does not have what is in it."""
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
    """Ask for confirmation, unless it was given; end the command if the answer is no."""
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
    """Return what was given as NAME=VALUE; a value that is no JSON is a word."""
    return dict(_named_value(pair, option) for pair in pairs or [])


def _named_value(text: str, option: str) -> tuple[str, Any]:
    name, given, value = text.partition("=")
    if not given:
        raise click.BadParameter(f"must be NAME=VALUE, not {text!r}", param_hint=option)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
