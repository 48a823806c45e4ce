"""Options that several commands have, and the client they make."""

import json
from pathlib import Path
from typing import Annotated, Any

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.http.client import Client
from manylabel_clients.http.transport.connections import DEFAULT_URL as DEFAULT_URL
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.http.transport.retry import Retry


def _checked_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"must start with http:// or https://, not {url!r}")
    return url


Url = Annotated[
    str,
    Option("--url", envvar="MANYLABEL_URL", metavar="URL", help="Address of the server.", callback=_checked_url),
]


ApiKeyFile = Annotated[
    Path | None,
    Option(
        "--api-key-file",
        envvar="MANYLABEL_API_KEY_FILE",
        metavar="FILE",
        help="File with the key that the server asks for. Default: what MANYLABEL_API_KEY says. There is no option for "
        "the key itself, which others on this machine would see.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, Option("--json", help="Answer in JSON, for scripts.")]
ModelName = Annotated[str, Argument(metavar="MODEL", help="Name of the model.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
Input = Annotated[
    str,
    Argument(
        metavar="INPUT",
        help="JSON itself, a file of it, or - for standard input: one example, "
        '{"examples": [...]}, or an example on each line. Or a file that ends with .csv.',
    ),
]
BatchSize = Annotated[int, Option(min=1, max=10_000, help="Examples in one request; 1 answers each line at once.")]

_IMPATIENT = Retry(attempts=4, base_seconds=0.2)
PATIENT = Retry(attempts=15, base_seconds=0.2)
"""For long work: rides out a restart of the server, about a minute."""


def connect(url: str, api_key_file: Path | None = None, retry: Retry = _IMPATIENT) -> Client:
    """Return a client that soon gives up: a person is waiting."""
    try:
        return Client(url, retry=retry, api_key=None if api_key_file is None else read_key(api_key_file))
    except ValueError as error:  # of the key: the address has been looked at
        raise Failure(str(error)) from None


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
    """Ask a person, unless the answer was given; end the command if it is no."""
    if not yes:
        click.confirm(question, abort=True)


def refuse_options_of(context: click.Context, command: str) -> None:
    """Refuse options before the subcommand: they would be those of the list, and silently be ignored."""
    for name, option in (("url", "--url"), ("api_key", "--api-key-file"), ("as_json", "--json"), ("state", "--state")):
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
