"""`manylabel demo`: a server, a real stream through it, and commands to try next."""

import json
import os
import shlex
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import click
import httpx2

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.inputs import chunks
from manylabel_clients.command.output.measures import number
from manylabel_clients.command.server.background import Background
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import NotFound
from manylabel_clients.http.resources.models import Model
from manylabel_clients.progress import ProgressBar, counted
from manylabel_extras import require

Row: TypeAlias = tuple[dict[str, float], dict[str, bool]]
"""Features and labels of a gene."""

MODEL = "demo"
BATCH_SIZE = 16
REPORT_EVERY = 240
COLUMNS = ("examples", "micro-F1", "baseline", "macro-F1", "baseline", "Hamming", "baseline")
EXAMPLE_FEATURES = 4
EXTRAS = "server,river"
"""Extras that the demo needs; `make demo` installs these."""
N_KEPT = 20
"""Number of genes predicted once more, so that the web UI has examples to show and to label."""


def demo(
    host: Annotated[str, Option(help="Address for the server to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, Option(min=1, max=65535, envvar="MANYLABEL_PORT", help="Port for the server to listen on.")
    ] = 8000,
    data_dir: Annotated[Path, Option(file_okay=False, help="Directory of the server's data and log.")] = Path(
        "manylabel-data/demo"
    ),
) -> None:
    """Start a server, stream a dataset through it, and leave the server running.

    The dataset, yeast (2,417 genes, 103 features, 14 labels), comes with river. A server that already runs there is
    used; its model named demo is created again.
    """
    require("manylabel demo", EXTRAS)
    server = Background(host, port, data_dir)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(_load_yeast)  # importing river takes as long as a start
        if server.is_running():
            click.echo(f"A server runs at {server.url} already.")
            server.wait_ready()
        else:
            click.echo(f"Starting a server at {server.url} ...")
            server.start()
        rows = loading.result()
    # A separate transport, because a proxy of the environment does not apply to a local server.
    with Client(server.url, transport=httpx2.HTTPTransport()) as client:
        x, y = _stream(rows, _fresh_model(client))
    _print_next_steps(server, x, y)


def _fresh_model(client: Client) -> Model:
    with suppress(NotFound):
        client.model(MODEL).delete()
    return client.create_model(MODEL, algorithm="falt")


def _load_yeast() -> list[Row]:
    from river import datasets

    return list(datasets.Yeast())  # type: ignore[no-untyped-call]


def _stream(rows: list[Row], model: Model) -> Row:
    """Let the model predict, then learn, every row; return the last one, for the examples to paste."""
    click.echo(f"Streaming {len(rows):,} genes through it; each is predicted before it is learnt.")
    click.echo("The baseline predicts the most frequent labels so far, without looking at the genes.\n")
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


def _print_next_steps(server: Background, x: dict[str, float], y: dict[str, bool]) -> None:
    strongest = sorted(x, key=lambda name: -abs(x[name]))[:EXAMPLE_FEATURES]
    example: dict[str, Any] = {"x": {name: round(x[name], 2) for name in strongest}}
    labelled = {**example, "y": [name for name, relevant in y.items() if relevant]}
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
