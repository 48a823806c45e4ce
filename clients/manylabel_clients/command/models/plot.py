"""`manylabel models plot`: a plot of a version of a trained model."""

from pathlib import Path
from typing import Annotated

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import ModelName, remote
from manylabel_clients.command.output.text import alternatives
from manylabel_clients.http.client import Client

KINDS = ("label-scores", "label-correlation", "view-weights", "convergence")
"""Kinds of plots in `manylabel_clients.plots`, copied because importing it loads NumPy."""


@remote()
def plot(
    client: Client,
    name: ModelName,
    kind: Annotated[str, Option(help=f"{alternatives(KINDS)}.")] = KINDS[0],
    version: Annotated[int | None, Option(min=1, help="Number of the version. Default: the served one.")] = None,
    out: Annotated[
        Path | None,
        Option(
            dir_okay=False,
            metavar="FILE",
            help="File to write: PNG, SVG or PDF by its extension. Default: MODEL-KIND.png.",
        ),
    ] = None,
) -> None:
    """Plot a trained model. Needs matplotlib: the extra plots.

    Example: `manylabel models plot songs --kind convergence --out songs.svg`
    """
    from manylabel_clients import plots

    if kind not in plots.KINDS:
        raise click.BadParameter(f"must be one of {', '.join(plots.KINDS)}, not {kind!r}", param_hint="--kind")
    out = out or Path(f"{name}-{kind}.png")
    if out.suffix.lower().removeprefix(".") not in plots.FORMATS:
        raise click.BadParameter(f"must end in .{', .'.join(plots.FORMATS)}, not {str(out)!r}", param_hint="--out")
    detail = client.model(name).detail(version)
    try:
        plots.save(plots.KINDS[kind](detail, name), out)
    except ValueError as error:
        raise Failure(str(error)) from error
    click.echo(f"{kind} of {name}, version {detail.version}, drawn in {out}")
