"""`manylabel models`: list, create, show, delete."""

import io
import tarfile
from pathlib import Path
from typing import Annotated, Any

import click

from manylabel_clients.command.data.files import field_names
from manylabel_clients.command.declaring import Argument, Option, group
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.models import labels as of_labels
from manylabel_clients.command.models.label_next import predictions
from manylabel_clients.command.models.plot import plot
from manylabel_clients.command.models.versions import promote, versions
from manylabel_clients.command.options import AsJson, ModelName, Yes, confirm, named_values, remote
from manylabel_clients.command.output.models import print_models, print_status
from manylabel_clients.command.output.text import alternatives, print_as
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.model_status import AnyStatus
from manylabel_clients.http.responses import ALGORITHMS


@remote()
def list_models(
    client: Client,
    prefix: Annotated[str | None, Option(help="Beginning of the names to list.")] = None,
    sort: Annotated[
        str, Option(type=click.Choice(("name", "used")), help="Order: name, or used, latest first. Default: name.")
    ] = "name",
    as_json: AsJson = False,
) -> None:
    """List the models of a server; create, show or delete one."""
    found = client.models(prefix, sort="used" if sort == "used" else "name")
    print_as(as_json, found, lambda found: print_models(found, prefix))


@remote()
def create(
    client: Client,
    name: ModelName,
    algorithm: Annotated[
        str,
        Option(help=f"Learner: {alternatives(ALGORITHMS)}."),
    ] = "falt",
    param: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="Parameter of the algorithm, such as eta=0.5. Repeatable.")
    ] = None,
    scaling: Annotated[str | None, Option(help="Scaling: auto, none or unit.")] = None,
    missing: Annotated[
        str | None, Option(help="Replacement of a missing quantity: mean (with scaling auto) or zero.")
    ] = None,
    labels: Annotated[str | None, Option(metavar="A,B,...", help="Allowed labels. Default: any.")] = None,
    groups: Annotated[Path | None, Option(exists=True, dir_okay=False, help=of_labels.GROUPS_HELP)] = None,
    features: Annotated[
        str | None, Option(metavar="N|A,B,...", help="Number or names of the allowed features. Default: any.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        Option(
            metavar="KIND=MOST,POLICY",
            help="Maximum number of features or labels, and the policy beyond it: reject, ignore or, for features, "
            "hash. Example: features=10000,hash. Repeatable.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        Option(
            metavar="A,B,...",
            help="The fields of records that are text. Repeatable, one each. Default: long strings.",
        ),
    ] = None,
    old_names: Annotated[
        str | None,
        Option(
            type=click.Choice(("follow", "refuse")),
            help="Handling of old names of labels: follow learns them under the current name, refuse rejects them.",
        ),
    ] = None,
    window: Annotated[int | None, Option(help="Number of examples in windowed metrics.")] = None,
    follow: Annotated[
        str | None, Option(metavar="MODEL", help="Learn from the log of another model; reject updates.")
    ] = None,
    start: Annotated[
        str,
        Option(
            "--from",
            type=click.Choice(("start", "now")),
            help="With --follow: from the start of the history, or from now. Default: start.",
        ),
    ] = "start",
    until: Annotated[
        str | None,
        Option(metavar="TIME|POSITION", help="With --follow: last time or position to learn. Default: none."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a model.

    Example: `manylabel models create tags --algorithm salt --param eta=0.5 --scaling unit`
    """
    model = client.create_model(
        name,
        algorithm=algorithm,
        params=named_values(param),
        features=_features(features),
        labels=labels and _names(labels),
        scaling=scaling,
        missing=missing,
        text=None if text is None else {"fields": field_names(text)},
        old_names=old_names,
        window=window,
        limits=_limits(limit),
        follow=_follow(follow, start, until),
        **({} if groups is None else of_labels.read_groups(groups)),
    )
    if follow is not None and not as_json:  # catching up can take long
        click.echo(f"created {name}, which follows {follow}")
        return
    status = model.status()
    print_as(as_json, status, lambda _: click.echo(f"created {name}"))


def _follow(model: str | None, start: str, until: str | None) -> dict[str, str] | None:
    if model is None:
        if until is not None or start != "start":
            raise click.UsageError("--from and --until need --follow")
        return None
    return {"model": model, "from": start} | ({} if until is None else {"until": until})


@remote()
def fork(
    client: Client,
    name: ModelName,
    source: Annotated[str, Argument(metavar="SOURCE", help="Model to start from.")],
    at: Annotated[
        str | None,
        Option(metavar="TIME|POSITION", help="A time with an offset, or a position of the log. Default: now."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a model from the state of another model at a time or position.

    Example: `manylabel models fork tags-before tags --at 2026-11-27T10:03:00Z`
    """
    status = client.fork_model(name, source, at).status()
    print_as(as_json, status, lambda _: click.echo(f"created {name} from the state of {source}"))


@remote()
def like(
    client: Client,
    name: ModelName,
    template: Annotated[str, Argument(metavar="TEMPLATE", help="Model with the settings.")],
    as_json: AsJson = False,
) -> None:
    """Create a model that has learnt nothing, with the spec, labels, groups and promise of another.

    Example: `manylabel models like customer-17-tags customer-tags`
    """
    status = client.create_model_like(name, template).status()
    print_as(as_json, status, lambda _: click.echo(f"created {name} like {template}"))


@remote(print_status)
def show(client: Client, name: ModelName) -> AnyStatus:
    """Show the settings, size and metrics of a model."""
    return client.model(name).status()


@remote()
def delete(
    client: Client,
    name: ModelName,
    followers: Annotated[bool, Option(help="Delete its followers too.")] = False,
    yes: Yes = False,
) -> None:
    """Delete a model and its log. This cannot be undone."""
    confirm(f"Delete {name} and all it has learnt?", yes)
    client.model(name).delete(followers=followers)
    click.echo(f"deleted {name}")


@remote()
def delete_all(
    client: Client,
    prefix: Annotated[str, Argument(metavar="PREFIX", help="Beginning of the names.")],
    followers: Annotated[bool, Option(help="Delete their followers with other names too.")] = False,
    yes: Yes = False,
) -> None:
    """Delete all models whose names begin with a prefix, and their logs. This cannot be undone.

    Example: `manylabel models delete-all customer-17-`
    """
    confirm(f"Delete all models whose names begin with {prefix}, and all they have learnt?", yes)
    deleted = client.delete_models(prefix, followers=followers)
    if not deleted:
        click.echo(f"no model's name begins with {prefix}")
    for name in deleted:
        click.echo(f"deleted {name}")


@remote()
def export_all(
    client: Client,
    prefix: Annotated[str, Argument(metavar="PREFIX", help="Beginning of the names.")],
    file: Annotated[Path, Argument(metavar="FILE", help="New tar file.")],
) -> None:
    """Write all models whose names begin with a prefix to a tar file.

    Example: `manylabel models export-all customer-17- customer-17.tar`
    """
    data = client.export_models(prefix)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = archive.getnames()
    if not names:
        raise Failure(f"no model's name begins with {prefix}")
    file.write_bytes(data)
    click.echo(f"wrote {file} ({len(data):,} bytes)")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _limits(given: list[str] | None) -> dict[str, Any] | None:
    limits = {kind: _limit(str(text)) for kind, text in named_values(given, "--limit").items()}
    return limits or None


def _limit(text: str) -> dict[str, Any]:
    maximum, _, policy = text.partition(",")
    if not maximum.isdecimal() or not policy:
        raise click.BadParameter(
            f"must be KIND=MOST,POLICY, such as features=10000,hash, not ...={text}", param_hint="--limit"
        )
    return {"most": int(maximum), "policy": policy.strip()}


def _features(text: str | None) -> int | list[str] | None:
    if text is None:
        return None
    return int(text) if text.isdecimal() else _names(text)


models = group(
    "models",
    list_models,
    create,
    fork,
    like,
    show,
    delete,
    delete_all,
    export_all,
    of_labels.labels,
    of_labels.describe_labels,
    of_labels.set_groups,
    of_labels.set_promise,
    of_labels.rename_label,
    of_labels.merge_label,
    of_labels.retire_label,
    of_labels.pause_label,
    of_labels.resume_label,
    predictions,
    versions,
    promote,
    plot,
)
