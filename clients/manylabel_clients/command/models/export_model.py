"""`manylabel export-model`: save a linear model as a file."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import ModelName, remote
from manylabel_clients.command.output.tables import print_text
from manylabel_clients.command.output.text import human_size
from manylabel_clients.command.private import private
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import TrainedStatus
from manylabel_extras import require

FORMS = ("onnx", "python", "json")


@remote()
def export_model(
    client: Client,
    model: ModelName,
    to: Annotated[str, Option(metavar="FORM", help=f"{', '.join(FORMS[:-1])} or {FORMS[-1]}.")],
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            dir_okay=False,
            metavar="FILE",
            help="File to write, such as model.onnx; - for standard output.",
        ),
    ],
    version: Annotated[int | None, Option(min=1, help="Version of a trained model. Default: the served one.")] = None,
    snapshot: Annotated[
        str | None, Option(help="Position of a snapshot of an online model. Default: the current state.")
    ] = None,
) -> None:
    """Write a linear model, with its record parsing, scaling and thresholds, to a file that predicts without a server.

    The key needs the scopes read and export. For an online model without --snapshot it also needs admin, because the
    command takes a snapshot. docs/export.md describes the files.

    Example: `manylabel export-model tags --to python -o tags.py`
    """
    if to not in FORMS:
        raise click.BadParameter(f"must be one of {', '.join(FORMS)}, not {to!r}", param_hint="--to")
    require("manylabel export-model", "onnx" if to == "onnx" else "core")
    from manylabel_clients.export.portable import CannotExport

    handle = client.model(model)
    try:
        data = _written(_portable(handle, version, snapshot), to)
    except CannotExport as error:
        raise Failure(str(error)) from error
    if str(output) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    with open(output, "wb", opener=private) as file:
        file.write(data)
    print_text(f"{model} as {to}: {output}, {human_size(len(data))}")


def _portable(model: Model, version: int | None, snapshot: str | None) -> dict[str, Any]:
    from manylabel_clients.export.portable import portable_online, portable_trained

    status = model.status()
    if isinstance(status, TrainedStatus):
        if snapshot is not None:
            raise Failure(f"{model.name} is trained by jobs: it has versions, not snapshots")
        version = version or status.version
        if version is None:
            raise Failure(f"{model.name} has no version yet")
        return portable_trained(model.name, version, model.download_version(version, names=True))
    if version is not None:
        raise Failure(f"{model.name} learns online: it has snapshots, not versions")
    return portable_online(model.name, _state(model, snapshot, status.position))


def _state(model: Model, snapshot: str | None, position: str) -> bytes:
    """Return a snapshot; by default one of the current state, taken if necessary."""
    if snapshot is not None:
        return model.download_snapshot(snapshot)
    if any(one.position == position for one in model.snapshots()):
        return model.download_snapshot(position)
    return model.download_snapshot(model.take_snapshot().position)


def _written(portable: dict[str, Any], to: str) -> bytes:
    if to == "json":
        return json.dumps(portable, ensure_ascii=False).encode()
    if to == "python":
        from manylabel_clients.export.as_python import python_file

        return python_file(portable).encode()
    from manylabel_clients.export.as_onnx import onnx_file

    return onnx_file(portable)
