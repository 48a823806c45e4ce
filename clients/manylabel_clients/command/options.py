"""Common options of commands, and the client that they configure."""

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.output.text import print_as
from manylabel_clients.http.client import AsyncClient, Client
from manylabel_clients.http.errors import ApiError, ManyLabelError
from manylabel_clients.http.transport.connections import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.http.transport.exchange import compiling_in
from manylabel_clients.http.transport.retry import Retry

C = TypeVar("C", Client, AsyncClient)


def _checked_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"must start with http:// or https://, not {url!r}")
    return url


Url = Annotated[
    str, Option("--url", callback=_checked_url, envvar="MANYLABEL_URL", metavar="URL", help="Address of the server.")
]
Timeout = Annotated[
    float | None,
    Option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Seconds for which a call is retried if the server does not respond or is unavailable. Default: 60, "
        "longer while the server compiles functions; short calls are tried at most 4 times.",
    ),
]
KeyFile = Annotated[
    Path | None,
    Option(
        "--api-key-file",
        envvar="MANYLABEL_API_KEY_FILE",
        metavar="FILE",
        help="File with the API key. Default: MANYLABEL_API_KEY. There is no option for "
        "the key itself, because other users of this machine would see it.",
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
        '{"examples": [...]}, one example per line, or a CSV file (.csv).',
    ),
]
Params = Annotated[
    list[str] | None,
    Option(
        "--param", metavar="NAME=VALUE", help="Parameter of the trainer with a JSON value, such as C=0.1. Repeatable."
    ),
]
Holdout = Annotated[float | None, Option(metavar="SHARE", help="Share of rows held out for evaluation, such as 0.2.")]
Seed = Annotated[int, Option(min=0, help="Random seed.")]
BatchSize = Annotated[int, Option(min=1, max=10_000, help="Examples per request; 1 responds to each line at once.")]

_ANY_NUMBER = 10**6
_IMPATIENT = Retry(attempts=4, base_seconds=0.2, wait_compiling=True)
PATIENT = Retry(attempts=_ANY_NUMBER, base_seconds=0.2, wait_compiling=True)
"""Retry policy for long work, long enough for a restart of the server."""
NOTICED_SECONDS = 1.0
"""Minimum duration in seconds of a wait that is reported."""

_REASONS = {"storage_unavailable": "the store is unavailable", "not_ready": "the server is not ready"}


def remote(
    show: Callable[[Any], object] | None = None, retry: Retry = _IMPATIENT
) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """Make a command from a function that calls a server.

    The function receives a client as its first argument; `show` prints its result, or JSON is printed with --json.

    Parameters
    ----------
    show : prints the result for a person; None if the function prints.
    retry : retry policy; few attempts by default, because a person is waiting.
    """

    def decorate(function: Callable[..., object]) -> Callable[..., None]:
        @wraps(function)
        def command(url: str, timeout: float | None, api_key: Path | None, **values: Any) -> None:
            as_json = show is not None and values.pop("as_json")
            with connect(Client, url, timeout, api_key, retry) as client:
                found = function(client, **values)
            if show is not None:
                print_as(as_json, found, show)

        _, *own = inspect.signature(function).parameters.values()
        shared = inspect.signature(_shared).parameters
        own += [parameter for name, parameter in shared.items() if name != "as_json" or show is not None]
        command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]  # what declares the options
        return command

    return decorate


def _shared(
    *, as_json: AsJson = False, url: Url = DEFAULT_URL, timeout: Timeout = None, api_key: KeyFile = None
) -> None:
    """Declare the options of commands that call a server."""


def connect(
    kind: type[C],
    url: str,
    timeout: float | None,
    key_file: Path | None,
    retry: Retry = _IMPATIENT,
    headers: Mapping[str, str] | None = None,
    report: Callable[[ManyLabelError, float], object] | None = None,
) -> C:
    """Return a client. If there is a timeout, the client retries until then, and calls `report` before each wait."""
    if timeout is not None:
        retry = replace(retry, attempts=_ANY_NUMBER, patience_seconds=timeout, wait_compiling=False)
    seconds = min(DEFAULT_TIMEOUT_SECONDS, retry.patience_seconds)
    key = None if key_file is None else read_key(key_file)
    try:
        return kind(
            url, timeout=seconds, retry=replace(retry, on_retry=report or Report()), api_key=key, headers=headers
        )
    except ValueError as error:  # the error is about the key, because the address was checked before
        raise Failure(str(error)) from None


class Report:
    """Lines on standard error that say why a command waits. A compilation is reported once, however many retries it
    takes."""

    def __init__(self) -> None:
        self._told_compiling = False

    def __call__(self, error: ManyLabelError, seconds: float) -> None:
        compiling = compiling_in(error)
        if seconds < NOTICED_SECONDS or (compiling is not None and self._told_compiling):
            return
        if compiling is not None:
            self._told_compiling = True
            text = f"waiting for functions that the server compiles once: {compiling}"
        elif isinstance(error, ApiError):
            text = f"{_REASONS.get(error.code, error.detail)}; retrying in {seconds:.0f} s"
        else:
            text = f"the server does not respond; retrying in {seconds:.0f} s"
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # erases a progress bar
        sys.stderr.write(f"{clear}manylabel: {text}\n")


def read_key(path: Path) -> Secret:
    """Return the API key in a file. Errors are Failures that do not reveal the contents."""
    try:
        text = path.read_text().strip()
    except UnicodeDecodeError:
        raise Failure(f"--api-key-file: {path} has no key, because the file is not text") from None
    except OSError as error:
        raise Failure(f"--api-key-file cannot be read: {error}") from error
    if not text:
        raise Failure(f"--api-key-file: {path} is empty")
    return Secret(text)


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation unless `yes`; exit if the answer is no."""
    if not yes:
        click.confirm(question, abort=True)


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


def address(text: str, option: str, example: str, least: int = 1) -> tuple[str, int]:
    """Return the host and the port of HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and least <= int(port) < 2**16):
        raise click.BadParameter(f"must be HOST:PORT, such as {example}, not {text!r}", param_hint=option)
    return host.strip("[]"), int(port)
