"""`manylabel keys`: API keys of a server."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import click

from manylabel_clients.command.declaring import Argument, Fields, Option, command, group
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import AsJson, Yes, confirm, remote
from manylabel_clients.command.output.tables import listing, print_facts
from manylabel_clients.command.output.text import print_json, short_time
from manylabel_clients.command.server.program import init
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import SCOPES, ApiKey, NewApiKey, RateLimits

KeyId = Annotated[str, Argument(metavar="ID", help="Id of the key: the part between its two underscores.")]
_Note = Annotated[str | None, Option(help="Note for people.")]
_Expires = Annotated[
    str | None,
    Option(
        "--expires",
        metavar="TIME",
        help="Expiry: a duration (90d, 12h, 30m) or a time such as 2027-01-31T12:00:00Z. Default: never.",
    ),
]


class RateOptions(NamedTuple):
    """Options for the rate limits of a key."""

    requests_per_second: Annotated[float | None, Option(min=0, help="Maximum average rate of requests.")] = None
    examples_per_second: Annotated[float | None, Option(min=0, help="Maximum average rate of examples.")] = None
    max_concurrent_requests: Annotated[int | None, Option(min=1, help="Maximum number of concurrent requests.")] = None


NO_RATES = RateOptions()
_Rates = Annotated[RateOptions, Fields(*RateOptions._fields)]
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


_print_all = listing(
    {
        "key": "id",
        "name": "name",
        "scopes": "scopes",
        "models": "models",
        "state": "state",
        "expires": lambda key: short_time(key.expires_at) or "never",
    },
    words=6,
    empty="no keys: the server accepts every client that reaches it",
)


def _print(key: ApiKey) -> None:
    limits = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in _limits(key.rates).items())
    facts = {"key": key.id, "name": key.name, "note": key.note or "none", "scopes": key.scopes, "models": key.models}
    facts |= {"state": key.state, "created": key.created_at, "expires": key.expires_at or "never"}
    print_facts({**facts, "revoked": key.revoked_at, "rates": limits or "no limits"})


def _limits(rates: RateLimits) -> dict[str, Any]:
    return {name: value for name in RateLimits.__dataclass_fields__ if (value := getattr(rates, name)) is not None}


@remote(_print_all)
def list_keys(client: Client) -> list[ApiKey]:
    """List the keys whose permissions do not exceed those of your key, including expired and revoked keys."""
    return client.keys.list()


@remote()
def create(
    client: Client,
    name: Annotated[str, Argument(metavar="NAME", help="Owner or purpose of the key.")],
    scope: Annotated[
        list[str], Option(metavar="SCOPE", help=f"{', '.join(SCOPES)} (which includes all others). Repeatable.")
    ],
    model: Annotated[
        list[str] | None,
        Option(
            metavar="PATTERN",
            help="Model, dataset or job target that the key includes, or a prefix of names followed by *. "
            "Repeatable. Default: all.",
        ),
    ] = None,
    expires: _Expires = None,
    note: _Note = None,
    rates: _Rates = NO_RATES,
    file: Annotated[
        Path | None,
        Option(
            dir_okay=False,
            metavar="FILE",
            help="Write the key to this file, readable by its owner only, and do not print it.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. It is shown only once, because the server stores a hash.

    Example: `manylabel keys create "the tagging page" --scope predict --model 'tags-*' --expires 90d --file page.key`
    """
    expires_at, limits = _time(expires), RateLimits(**rates._asdict())
    with _new_file(file):
        made = client.keys.create(
            name, scopes=scope, models=model or ["*"], expires_at=expires_at, note=note, rates=limits
        )
        if file is not None:
            file.write_text(f"{made.key}\n")
    if as_json:
        return print_json(made if file is None else _without_text(made))
    where = "" if file is None else f", in {file}"
    click.echo(f"created the key {made.id} ({made.name}){where}; it will not be shown again: store it now", err=True)
    if file is None:
        click.echo(made.key)
    return None


@remote(_print)
def show(client: Client, id: KeyId) -> ApiKey:
    """Show the permissions of a key, never the key."""
    return client.keys.get(id)


@remote(_print)
def change(
    client: Client,
    id: KeyId,
    name: Annotated[str | None, Option(help="New name.")] = None,
    note: Annotated[str | None, Option(help="New note; '' removes it.")] = None,
    expires: Annotated[str | None, Option(metavar="TIME", help="Expiry, as in create; or never.")] = None,
    rates: _Rates = NO_RATES,
    no_rates: Annotated[bool, Option(help="Remove all rate limits first.")] = False,
) -> ApiKey:
    """Change the name, note, expiry or rates of a key. Its scopes and models cannot change: create another key."""
    changes: dict[str, Any] = {} if name is None else {"name": name}
    if note is not None:
        changes["note"] = note or None
    if expires is not None:
        changes["expires_at"] = None if expires == "never" else _time(expires)
    limits = {rate: value for rate, value in rates._asdict().items() if value is not None}
    if not (changes or limits or no_rates):
        raise click.BadParameter("nothing to change: give --name, --note, --expires or a rate")
    if limits or no_rates:
        before = {} if no_rates else _limits(client.keys.get(id).rates)
        changes["rates"] = before | limits
    return client.keys.update(id, **changes)


@remote()
def revoke(client: Client, id: KeyId, yes: Yes = False) -> None:
    """Revoke a key permanently. All servers reject it within 1 s."""
    confirm(f"Revoke {id}?", yes)
    client.keys.revoke(id)
    click.echo(f"revoked {id}")


@contextmanager
def _new_file(path: Path | None) -> Iterator[None]:
    """Create the file before the key, so that a key is never lost for lack of a file. The file is removed if no key is
    created."""
    if path is None:
        yield
        return
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise Failure(f"{path} exists already: choose a new file for the key") from None
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _time(text: str | None) -> str | datetime | None:
    """Return the expiry of a key; the server validates it."""
    found = re.fullmatch(r"([0-9]{1,6})([mhd])", text or "")
    return text if found is None else datetime.now(UTC) + timedelta(**{_UNITS[found[2]]: int(found[1])})


def _without_text(made: NewApiKey) -> ApiKey:
    return ApiKey(**{name: getattr(made, name) for name in ApiKey.__dataclass_fields__})


keys = group(
    "keys",
    list_keys,
    command(list_keys, "list"),
    create,
    show,
    change,
    revoke,
    init,
    help="Create, list, change and revoke the keys of a server; without a command, list them.",
)
