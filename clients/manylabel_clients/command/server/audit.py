"""`manylabel audit`: who changed, exported or was refused what."""

from collections.abc import Sequence
from typing import Annotated

import typer

from manylabel_clients.command.options import DEFAULT_URL, ApiKeyFile, AsJson, Url, connect
from manylabel_clients.command.output.text import print_as, print_table
from manylabel_clients.http.resources.audit import AuditedCall


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)


def audit(
    key: Annotated[str | None, typer.Option(metavar="ID", help="Only calls with the key of this id.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Only calls about this model.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only calls that ended then or later, as 2026-11-23T12:00:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many calls.")] = 100,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """List the calls that changed or exported something, and those that were refused, the newest first."""
    calls: list[AuditedCall] = []
    before: str | None = None
    with connect(url, api_key) as client:
        while len(calls) < limit:  # of a long audit a server looks at a part at a time
            page = client.audit(limit=limit - len(calls), key=key, model=model, since=since, before=before)
            calls += page.calls
            if (before := page.before) is None:
                break
    print_as(as_json, calls, _print_calls)


def _print_calls(calls: Sequence[AuditedCall]) -> None:
    if not calls:
        return typer.echo("no such calls")
    columns = ("time", "key", "address", "call", "about", "status", "position")
    return print_table(columns, map(_row, calls), words=len(columns))


def _row(call: AuditedCall) -> tuple[str, ...]:
    about = " ".join(part for part in (call.model, call.dataset, call.target) if part)
    status = str(call.status) if call.code is None else f"{call.status} {call.code}"
    what = f"{call.method} {call.route or ''}".strip()
    return call.time, call.key_id or "", call.address or "", what, about, status, call.position or ""
