"""`manylabel audit`: the audit log."""

from collections.abc import Sequence
from typing import Annotated

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.options import remote
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import short_time
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.audit import AuditedCall


def _print_calls(calls: Sequence[AuditedCall]) -> None:
    if not calls:
        return click.echo("no such calls")
    columns = ("time", "by", "call", "about", "status")
    return print_table(columns, map(_row, calls), words=len(columns))


def _row(call: AuditedCall) -> tuple[str, ...]:
    about = " ".join(part for part in (call.model, call.dataset, call.target) if part)
    status = str(call.status) if call.code is None else f"{call.status} {call.code}"
    by = " ".join(part for part in (call.key_id, call.address) if part)
    return short_time(call.time), by, _called(call), about, status


def _called(call: AuditedCall) -> str:
    """Return a call without its common prefix."""
    route = (call.route or "").removeprefix("/v1/").replace("/{name}", "")
    return f"{call.method} {route}".strip()


@remote(_print_calls)
def audit(
    client: Client,
    key: Annotated[str | None, Option(metavar="ID", help="Only calls made with this key.")] = None,
    model: Annotated[str | None, Option(metavar="NAME", help="Only calls about this model.")] = None,
    since: Annotated[
        str | None, Option(metavar="TIME", help="Earliest end of a call, such as 2026-11-23T12:00:00Z.")
    ] = None,
    limit: Annotated[int, Option(min=1, max=1000, help="Maximum number of calls.")] = 100,
) -> list[AuditedCall]:
    """List the calls that changed or exported something, and those that were rejected, newest first."""
    calls: list[AuditedCall] = []
    before: str | None = None
    while len(calls) < limit:  # the server returns a long audit log in parts
        page = client.audit(limit=limit - len(calls), key=key, model=model, since=since, before=before)
        calls += page.calls
        if (before := page.before) is None:
            break
    return calls
