"""Commands of `manylabel models` about labels: list, describe, group, rename, merge, retire, pause and resume them."""

import json
from pathlib import Path
from typing import Annotated, Any

import click

from manylabel_clients.command.data.label_details import FILE_HELP, read_label_details
from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.options import ModelName, remote
from manylabel_clients.command.output.measures import number
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import count_of
from manylabel_clients.http.client import Client
from manylabel_clients.http.responses import LabelPage, LabelStatus, Updated

GROUPS_HELP = (
    'JSON file: {"groups": [{"name": "priority", "labels": ["low", "high"], "choose": "one"}], '
    '"parents": {"refund": "billing"}}, or with "choose": "at_most_one".'
)
Label = Annotated[str, Argument(help="Label.")]
COLUMNS = ("label", "examples", "frequency", "first", "last", "F1", "window F1", "threshold", "alarms")


def _print(page: LabelPage) -> None:
    print_table(COLUMNS, map(_row, page.labels))
    if page.total > len(page.labels):
        click.echo(f"{len(page.labels):,} of {page.total:,} labels; --offset and --limit show others")


def _tell(model: str, text: str, changed: Updated) -> None:
    """Print a change of labels, and the command that undoes it."""
    click.echo(f"{text} (undo: manylabel undo {model} {changed.position})")


def _row(one: LabelStatus) -> tuple[str, ...]:
    seen = ("" if at is None else f"{at:,}" for at in (one.first_seen, one.last_seen))
    measures = (number(measure) for measure in (one.cumulative.f1, one.window.f1, one.threshold))
    alarms = "" if one.drift is None else f"{one.drift.alarms:,}"
    name = one.label if one.title is None else f"{one.label}: {one.title}"
    if one.retired:
        name = f"{name} (retired)"
    if one.paused:
        name = f"{name} (paused)"
    if one.learning is not None:
        name = f"{name} (learning, {one.learning.seen:,} of {one.learning.needed} examples)"
    return (name, f"{one.examples:,}", number(one.frequency), *seen, *measures, alarms)


@remote(_print)
def labels(
    client: Client,
    name: ModelName,
    sort: Annotated[str, Option(help="Sort key: name, frequency, first_seen, f1, window_f1, ...")] = "frequency",
    ascending: Annotated[bool, Option(help="Sort in ascending order.")] = False,
    offset: Annotated[int, Option(min=0, help="Number of labels to skip.")] = 0,
    limit: Annotated[int, Option(min=1, max=1000, help="Maximum number of labels.")] = 50,
    version: Annotated[int | None, Option(min=1, help="Version of a trained model. Default: the served one.")] = None,
) -> LabelPage:
    """List the labels of a model with their frequency and metrics."""
    return client.model(name).labels(sort=sort, descending=not ascending, offset=offset, limit=limit, version=version)


@remote()
def describe_labels(
    client: Client,
    name: ModelName,
    label: Annotated[str | None, Argument(help="Label. Default: those in --file.")] = None,
    title: Annotated[str | None, Option(help="Name of the label for people; '' removes it.")] = None,
    description: Annotated[str | None, Option(help="Meaning of the label in words; '' removes it.")] = None,
    uri: Annotated[str | None, Option(help="URI of the label; '' removes it.")] = None,
    file: Annotated[
        Path | None,
        Option(
            exists=True,
            dir_okay=False,
            help=f"{FILE_HELP} An empty cell leaves a field unchanged; null in JSON removes it.",
        ),
    ] = None,
) -> None:
    """Set titles, descriptions and URIs of labels. Unknown labels are declared.

    Example: `manylabel models describe-labels tags --file labels.csv`
    """
    given = {"title": title, "description": description, "uri": uri}
    edit = {field: text or None for field, text in given.items() if text is not None}
    if (file is None) == (label is None) or (file is None) == (not edit):
        raise click.UsageError("name a label and give --title, --description or --uri; or give --file alone")
    edits = {str(label): edit} if file is None else read_label_details(file)
    client.model(name).describe_labels(edits)
    click.echo(f"{count_of(len(edits), 'label')} described")


@remote()
def set_groups(
    client: Client,
    name: ModelName,
    file: Annotated[Path, Argument(exists=True, dir_okay=False, help=GROUPS_HELP)],
) -> None:
    """Replace the groups and parents of a model's labels. Unknown labels are declared.

    Example: `manylabel models set-groups tags groups.json`
    """
    given = read_groups(file)
    changed = client.model(name).set_groups(given["groups"], given["parents"])
    counts = f"{len(given['groups']):,} groups and {len(given['parents']):,} labels with a parent"
    _tell(name, f"{name} has {counts} now", changed)


@remote()
def set_promise(
    client: Client,
    name: ModelName,
    precision: Annotated[
        float | None, Option(help="Share of right labels among those applied unseen, such as 0.95.")
    ] = None,
    settled: Annotated[float, Option(help="Share of entirely right examples among those that need no review.")] = 0.9,
    review_all: Annotated[bool, Option(help="Every example needs review.")] = False,
    missed: Annotated[
        float, Option(help="Share of all true labels that may be missed in examples without review.")
    ] = 0.02,
    audit_rate: Annotated[
        float,
        Option(help="Share of settled examples that are sent to review, or of sure ones to the teacher, for audits."),
    ] = 0.05,
    parity: Annotated[
        float | None, Option(help="Agreement with a teacher of the answers served without it, such as 0.95.")
    ] = None,
    of: Annotated[str, Option(help="Source of the teacher's labels.")] = "machine",
    agreement: Annotated[
        str,
        Option(type=click.Choice(("exact", "f1")), help="Agreement: share of equal label sets, or mean F1 of both."),
    ] = "exact",
    end: Annotated[bool, Option(help="End the promise.")] = False,
) -> None:
    """Promise a precision for a model: predictions say which labels may be applied without review.

    With --parity, stored predictions say for which examples to ask a teacher, such as a language model.

    Example: `manylabel models set-promise tags --precision 0.95`
    """
    if (precision is None and parity is None) != end:
        raise click.UsageError("Give either --precision or --parity, or both, or --end.")
    client.model(name).set_promise(
        precision,
        settled=None if review_all else settled,
        missed=missed,
        audit_rate=audit_rate,
        parity=parity,
        of=of,
        agreement=agreement,
    )
    promised = [
        f"{what} {share:g}" for what, share in (("precision", precision), ("parity", parity)) if share is not None
    ]
    click.echo(f"{name} now promises {' and '.join(promised) or 'nothing'}")


def read_groups(file: Path) -> dict[str, Any]:
    """Return the groups and parents in a file."""
    try:
        given = json.loads(file.read_bytes())
    except ValueError as error:
        raise click.UsageError(f"{file} must be JSON: {error}") from error
    if not isinstance(given, dict) or not given.keys() <= {"groups", "parents"}:
        raise click.UsageError(f"{file} must be an object with groups, parents, or both")
    groups, parents = given.get("groups", []), given.get("parents", {})
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise click.UsageError(f"{file}: groups must be a list of objects")
    if not isinstance(parents, dict):
        raise click.UsageError(f"{file}: parents must be an object")
    return {"groups": groups, "parents": parents}


@remote()
def rename_label(
    client: Client,
    name: ModelName,
    label: Annotated[str, Argument(help="Current name.")],
    to: Annotated[str, Argument(help="New name.")],
) -> None:
    """Rename a label of a model; everything learnt about it stays."""
    _tell(name, f"{label} is {to} now", client.model(name).rename_label(label, to))


@remote()
def merge_label(
    client: Client,
    name: ModelName,
    label: Annotated[str | None, Argument(help="Label to merge.")] = None,
    into: Annotated[str | None, Argument(help="Label that continues to learn, under both names.")] = None,
    alike: Annotated[
        bool,
        Option(help="Merge all labels that differ only in case, spaces or Unicode form, into the most frequent ones."),
    ] = False,
) -> None:
    """Merge a label into another: the first is retired, and updates that name it count for the second."""
    model = client.model(name)
    if alike and label is None:
        for one, other in (merged := model.merge_alike()).items():
            click.echo(f"{one!r} is merged into {other!r}")
        hint = f"; manylabel log {name} has the positions for manylabel undo" if merged else ""
        click.echo(f"{count_of(len(merged), 'label')} merged{hint}")
        return
    if alike or label is None or into is None:
        raise click.UsageError("name a label and the label that it is merged into; or give --alike alone")
    _tell(name, f"{label} is merged into {into}", model.merge_label(label, into))


@remote()
def retire_label(client: Client, name: ModelName, label: Label) -> None:
    """Retire a label: the model no longer learns or predicts it."""
    _tell(name, f"{label} is retired", client.model(name).retire_label(label))


@remote()
def pause_label(client: Client, name: ModelName, label: Label) -> None:
    """Pause a label: the model does not learn or predict it until it is resumed."""
    _tell(name, f"{label} is paused", client.model(name).pause_label(label))


@remote()
def resume_label(client: Client, name: ModelName, label: Label) -> None:
    """Resume a paused label; what was learnt before the pause is still there."""
    _tell(name, f"{label} is resumed", client.model(name).resume_label(label))
