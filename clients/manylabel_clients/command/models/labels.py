"""`manylabel models labels`, `rename-label`, `merge-label` and `retire-label`: the labels of a model, one by one."""

from typing import Annotated

import click

from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.options import DEFAULT_URL, ApiKeyFile, AsJson, ModelName, Url, connect
from manylabel_clients.command.output.measures import number
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import print_as
from manylabel_clients.http.resources.labels import LabelPage, LabelStatus

COLUMNS = ("label", "examples", "frequency", "first", "last", "F1", "window F1", "threshold", "alarms")


def labels(
    name: ModelName,
    sort: Annotated[str, Option(help="name, frequency, first_seen, last_seen, f1, window_f1, ...")] = "frequency",
    ascending: Annotated[bool, Option("--ascending", help="The lowest first.")] = False,
    offset: Annotated[int, Option(min=0, help="How many to leave out.")] = 0,
    limit: Annotated[int, Option(min=1, max=1000, help="Most labels shown.")] = 50,
    version: Annotated[
        int | None, Option(min=1, help="Which version of a model that jobs train. Default: the one served.")
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """List the labels of a model: how frequent each is, when it was seen, how well it is predicted."""
    with connect(url, api_key) as client:
        model = client.model(name)
        page = model.labels(sort=sort, descending=not ascending, offset=offset, limit=limit, version=version)
    print_as(as_json, page, _print)


def rename_label(
    name: ModelName,
    label: Annotated[str, Argument(help="Its name now.")],
    to: Annotated[str, Argument(help="Its name from now on.")],
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """Give a label of a model another name; what was learnt about it stays."""
    with connect(url, api_key) as client:
        client.model(name).rename_label(label, to)
    click.echo(f"{label} is {to} now")


def merge_label(
    name: ModelName,
    label: Annotated[str, Argument(help="The label to merge.")],
    into: Annotated[str, Argument(help="The label that its name stands for from now on.")],
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """Merge a label of a model into another: it is retired, and updates that name it teach the other label."""
    with connect(url, api_key) as client:
        client.model(name).merge_label(label, into)
    click.echo(f"{label} is merged into {into}")


def retire_label(
    name: ModelName,
    label: Annotated[str, Argument(help="The label.")],
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """Have a model learn and predict a label no more."""
    with connect(url, api_key) as client:
        client.model(name).retire_label(label)
    click.echo(f"{label} is retired")


def _print(page: LabelPage) -> None:
    print_table(COLUMNS, map(_row, page.labels))
    if page.total > len(page.labels):
        click.echo(f"{len(page.labels):,} of {page.total:,} labels; --offset and --limit show others")


def _row(one: LabelStatus) -> tuple[str, ...]:
    seen = ("" if at is None else f"{at:,}" for at in (one.first_seen, one.last_seen))
    measures = (number(measure) for measure in (one.cumulative.f1, one.window.f1, one.threshold))
    alarms = "" if one.drift is None else f"{one.drift.alarms:,}"
    name = f"{one.label} (retired)" if one.retired else one.label
    if one.learning is not None:
        name = f"{name} (learning, {one.learning.seen:,} of {one.learning.needed} examples)"
    return (name, f"{one.examples:,}", number(one.frequency), *seen, *measures, alarms)
