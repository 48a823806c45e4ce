"""`manylabel demo`: a server, a real stream through it, and commands to try next."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import click
import httpx2

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.inputs import chunks
from manylabel_clients.command.output.measures import number
from manylabel_clients.command.server.background import Background
from manylabel_clients.command.server.tickets import tickets
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import NotFound
from manylabel_clients.http.resources.models import Model
from manylabel_clients.progress import ProgressBar, counted
from manylabel_extras import require

Row: TypeAlias = tuple[Mapping[str, Any], dict[str, bool] | list[str]]
"""Example and its labels."""


class Stream(NamedTuple):
    """Stream of the demo.

    Attributes
    ----------
    noun : what an example is, in the plural.
    extras : extras that it needs; `make demo` installs them.
    options : options of its model.
    load : returns the rows.
    """

    noun: str
    extras: str
    options: dict[str, Any]
    load: Callable[[], list[Row]]


MODEL = "demo"
BATCH_SIZE = 16
REPORT_EVERY = 240
COLUMNS = ("examples", "micro-F1", "baseline", "macro-F1", "baseline", "Hamming", "baseline")
EXAMPLE_FEATURES = 4
N_KEPT = 20
"""Number of examples that are predicted again and stored, so that the web UI has examples to show and to label."""


def _load_tickets() -> list[Row]:
    return list(tickets())


def _load_yeast() -> list[Row]:
    from river import datasets

    return list(datasets.Yeast())  # type: ignore[no-untyped-call]


STREAMS = {
    "tickets": Stream("tickets", "server", {"text": {"fields": ["subject", "text"]}}, _load_tickets),
    "yeast": Stream("genes", "server,river", {}, _load_yeast),
}


def demo(
    host: Annotated[str, Option(help="Address for the server to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, Option(min=1, max=65535, envvar="MANYLABEL_PORT", help="Port for the server to listen on.")
    ] = 8000,
    data_dir: Annotated[Path, Option(file_okay=False, help="Directory of the server's data and log.")] = Path(
        "manylabel-data/demo"
    ),
    stream: Annotated[
        str, Option(type=click.Choice(list(STREAMS)), help="What to stream: made-up tickets, or genes of river.")
    ] = "tickets",
) -> None:
    """Start a server, stream examples through it, and leave the server running.

    Tickets are 2,400 texts of a help desk with 15 labels, made up for this demo; one label begins in the middle. Yeast
    (2,417 genes, 103 features, 14 labels) comes with river. If a server already runs at the address, it is used, and
    its model named demo is replaced.
    """
    chosen = STREAMS[stream]
    require("manylabel demo", chosen.extras)
    server = Background(host, port, data_dir)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(chosen.load)  # importing river takes as long as a start
        if server.is_running():
            click.echo(f"A server runs at {server.url} already.")
            server.wait_ready()
        else:
            click.echo(f"Starting a server at {server.url} ...")
            server.start()
        rows = loading.result()
    # A separate transport, because a proxy of the environment does not apply to a local server.
    with Client(server.url, transport=httpx2.HTTPTransport()) as client:
        x, y = _stream(rows, chosen.noun, _fresh_model(client, chosen.options))
    _print_next_steps(server, x, y)


def _fresh_model(client: Client, options: Mapping[str, Any]) -> Model:
    with suppress(NotFound):
        client.model(MODEL).delete()
    return client.create_model(MODEL, algorithm="falt", **options)


def _stream(rows: list[Row], noun: str, model: Model) -> Row:
    """Predict, then learn, every row; return the last row for the example commands."""
    click.echo(f"Streaming {len(rows):,} {noun} through it; each is predicted before it is learnt.")
    click.echo(f"The baseline predicts the most frequent labels so far, without looking at the {noun}.\n")
    click.echo("".join(f"{title:>11}" for title in COLUMNS))
    done = 0
    with ProgressBar() as bar:
        for chunk in chunks(rows, BATCH_SIZE):
            model.predict_update_many(chunk)
            done += len(chunk)
            bar.draw(*counted(done, len(rows)))
            if done % REPORT_EVERY == 0 or done == len(rows):
                bar.print(_line(model))
    model.predict_many((x for x, _ in rows[:N_KEPT]), keep="record")
    return rows[-1]


def _line(model: Model) -> str:
    so_far = model.metrics().cumulative
    measured = ((of.micro_f1, of.macro_f1, of.hamming_loss) for of in (so_far, so_far.baseline))
    cells = [number(one, decimals=3) for pair in zip(*measured, strict=True) for one in pair]
    return f"{so_far.examples:>11,}" + "".join(f"{cell:>11}" for cell in cells)


def _shown(x: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an example to print: its largest numbers, or a whole record of texts."""
    numbers = {name: round(value, 2) for name, value in x.items() if isinstance(value, float)}
    return dict(sorted(numbers.items(), key=lambda item: -abs(item[1]))[:EXAMPLE_FEATURES]) or dict(x)


def _print_next_steps(server: Background, x: Mapping[str, Any], y: dict[str, bool] | list[str]) -> None:
    example: dict[str, Any] = {"x": _shown(x)}
    relevant = y if isinstance(y, list) else [name for name, is_relevant in y.items() if is_relevant]
    labelled = {**example, "y": relevant}
    command = _this_command()
    pid = server.pid()
    stop = f"kill {pid}" if pid else "where you started it"
    click.echo(f"""
The server keeps running; its models survive a kill and a restart.

look     {server.url}/

predict  {_curl(server.url, "predict", example)}

learn    {_curl(server.url, "update", labelled)}

docs     {server.url}/docs
measure  {command} evaluate {MODEL} --url {server.url}
train    {command} jobs submit --stream {MODEL} --holdout 0.2 --trainer m3l --model {MODEL}-m3l --url {server.url}
stop     {stop}
restart  {command} serve --host {server.host} --port {server.port} --data-dir {shlex.quote(str(server.data_dir))}
log      {server.log}""")


def _this_command() -> str:
    """Return the name of this command, or its path if the command is not on the PATH."""
    return "manylabel" if shutil.which("manylabel") else shlex.quote(os.path.relpath(sys.argv[0]))


def _curl(url: str, call: str, body: dict[str, Any]) -> str:
    header = shlex.quote("Content-Type: application/json")
    return f"curl -s {url}/v1/models/{MODEL}/{call} -H {header} -d {shlex.quote(json.dumps(body))}"
