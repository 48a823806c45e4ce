"""`manylabel replay`: learn the log of a model with other parameters or another learner."""

import time
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from typing import Annotated, Any

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.options import AsJson, named_values, remote
from manylabel_clients.command.output.measures import number
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import print_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import NotFound, Unavailable
from manylabel_clients.http.responses import TITLES, ModelStatus

MAX_FOLLOWERS = 8
"""Maximum followers of one model on a server."""

SHOWN = ("micro_f1", "macro_f1", "f1", "precision", "recall", "hamming_loss", "precision_at_1")
"""Cumulative metrics in the table."""

POLL_SECONDS = 0.2
"""Seconds between two requests for a follower that is catching up."""


@remote()
def replay(
    client: Client,
    model: Annotated[str, Argument(metavar="MODEL", help="The model whose log is replayed.")],
    algorithm: Annotated[str | None, Option(help="The learner. Default: that of the model.")] = None,
    param: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE,...",
            help="Parameter of the learner with the values to try, such as eta=0.5,1. Repeatable; every combination is "
            "tried, at most 8.",
        ),
    ] = None,
    scaling: Annotated[str | None, Option(help="Scaling: auto, none or unit.")] = None,
    until: Annotated[
        str | None, Option(metavar="TIME|POSITION", help="Last time or position to learn. Default: now.")
    ] = None,
    keep: Annotated[bool, Option(help="Keep the followers, which learn nothing after --until.")] = False,
    wait: Annotated[float, Option(metavar="SECONDS", min=0, help="Maximum seconds to wait for all of them.")] = 3600.0,
    as_json: AsJson = False,
) -> None:
    """Learn the history of a model with other parameters, and compare the metrics.

    Example: `manylabel replay tags --algorithm salt --param eta=0.5,1`
    """
    combinations = _combinations(param)
    status = client.model(model).status()
    if not isinstance(status, ModelStatus):
        raise Failure(f"{model} is trained by jobs, and has no log to replay")
    learner = algorithm or status.algorithm
    kept = status.params if algorithm in (None, status.algorithm) and not combinations[0] else {}
    follow = {"model": model, "from": "start", "until": until or status.position}
    names = [f"{model[:48]}-replay-{number}" for number in range(1, len(combinations) + 1)]
    made: list[str] = []
    try:
        for name, params in zip(names, combinations, strict=True):
            client.create_model(name, algorithm=learner, params={**kept, **params}, scaling=scaling, follow=follow)
            made.append(name)
        deadline = time.monotonic() + wait
        found = [_caught_up(client, name, deadline) for name in made]
    finally:
        for name in () if keep else made:
            _delete(client, name)
    titles = [", ".join(f"{name}={value}" for name, value in each.items()) or learner for each in combinations]
    if as_json:
        for title, each in zip([model, *titles], [status, *found], strict=True):
            print_json(
                {"spec": title, "algorithm": each.algorithm, "params": each.params, "metrics": asdict(each.metrics)}
            )
        return
    rows = zip([f"{model} ({status.algorithm})", *titles], [status, *found], strict=True)
    print_table(("model", "examples", *map(TITLES.__getitem__, SHOWN)), [_row(*row) for row in rows])
    if keep:
        click.echo(f"kept: {', '.join(made)}")


def _row(title: str, status: ModelStatus) -> tuple[str, ...]:
    metrics = status.metrics.cumulative
    return title, f"{metrics.examples:,}", *(number(getattr(metrics, name)) for name in SHOWN)


def _combinations(pairs: list[str] | None) -> list[dict[str, Any]]:
    """Return the parameters of each combination of NAME=VALUE,VALUE."""
    values: dict[str, list[Any]] = {}
    for pair in pairs or []:
        name, _, listed = pair.partition("=")
        if name in values:
            raise click.BadParameter(f"{name} is set twice: list its values with commas", param_hint="--param")
        values[name] = [named_values([f"{name}={value}"])[name] for value in listed.split(",")]
        if not listed:
            named_values([pair])
    combinations = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    if len(combinations) > MAX_FOLLOWERS:
        detail = f"must have at most {MAX_FOLLOWERS} combinations of values, not {len(combinations)}"
        raise click.BadParameter(detail, param_hint="--param")
    return combinations


def _caught_up(client: Client, name: str, deadline: float) -> ModelStatus:
    """Wait until a follower has learnt its part of the log, and return its status."""
    while True:
        try:
            status = client.model(name).status()
        except Unavailable as error:
            if time.monotonic() >= deadline:
                raise Failure(f"{name} has not caught up in time: {error}; raise --wait, or use --keep") from error
            time.sleep(POLL_SECONDS)
        else:
            assert isinstance(status, ModelStatus)
            return status


def _delete(client: Client, name: str) -> None:
    with suppress(NotFound):
        client.model(name).delete()
