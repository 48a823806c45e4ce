"""`manylabel models versions` and `promote`: list versions of a trained model; promote a version or a follower."""

from typing import Annotated

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.options import AsJson, ModelName, remote
from manylabel_clients.command.output.jobs import data_text
from manylabel_clients.command.output.tables import listing, print_text
from manylabel_clients.command.output.text import human_size, print_as, short_time
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import Promoted, Version

MEASURE = "micro_f1"
"""Metric shown in the list."""


def _converged(one: Version) -> str:
    return "yes" if one.converged else "no" if one.gap is None else f"no, gap {one.gap:.2g}"


_print_table = listing(
    {
        "version": lambda one: f"{one.version} (served)" if one.served else str(one.version),
        "trainer": "trainer",
        "data": lambda one: one.data and data_text(one.data),
        "scaling": "scaling",
        "created": lambda one: short_time(one.created),
        "converged": _converged,
        "rows": "rows",
        "size": lambda one: human_size(one.bytes),
        "micro-F1": lambda one: "not measured" if one.measures is None else f"{one.measures[MEASURE]:.4f}",
    },
    words=6,
)


def _print(found: list[Version]) -> None:
    _print_table(found)
    for one in found:
        if one.sampled is not None and one.sampled["rows"] < one.sampled["asked"]:
            print_text(f"version {one.version}: {one.sampled['text']}")
        if one.worse is not None:
            print_text(f"version {one.version}: {one.worse}")


@remote(_print)
def versions(client: Client, name: ModelName) -> list[Version]:
    """List the versions of a trained model."""
    return client.model(name).versions()


@remote()
def promote(
    client: Client,
    name: ModelName,
    version: Annotated[int | None, Argument(min=1, help="Number of the version of a trained model.")] = None,
    force: Annotated[bool, Option(help="Serve it even if its features or scaling differ.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a version of a trained model, or promote a follower. To switch back, promote the earlier version or model.

    Example: `manylabel models promote tags-salt`
    """
    done = client.model(name).promote(version, force=force)
    print_as(as_json, done, lambda done: click.echo(f"{name} {_served(done)}"))


def _served(done: Promoted) -> str:
    """Return the text about a promoted follower, or about the served and the previous version."""
    if done.follower is not None:
        return f"leads now, as {done.model}, with {done.algorithm}: {done.updates:,} examples learnt"
    if done.previous == done.version:
        return f"already serves version {done.version}"
    return f"serves version {done.version}" + ("" if done.previous is None else f"; before: version {done.previous}")
