"""`manylabel doubts`: doubtful labels of learnt examples."""

from typing import Annotated, get_args

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.options import AsJson, ModelName, remote
from manylabel_clients.command.output.tables import print_table, print_text
from manylabel_clients.command.output.text import count_of, print_as
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.doubts import KindOfDoubt
from manylabel_clients.http.responses import Doubt, DoubtedPlace, DoubtList


def _print(found: DoubtList) -> None:
    left = found.left_out
    print_text(
        f"{count_of(len(found.doubts), 'doubt')} of {count_of(found.examined, 'example')} up to position "
        f"{found.position}; not judged: {count_of(left.too_rare, 'rare label')}, "
        f"{count_of(left.not_human, 'example')} not labelled by people"
    )
    if found.doubts:
        columns = ("example", "label", "features", "similar", "probability", "neighbours")
        print_table(columns, map(_row, found.doubts), words=4)


def _row(doubt: Doubt) -> tuple[str, ...]:
    features = ", ".join(str(part.feature) for part in doubt.for_[:3])
    similar = ", ".join(map(_shown, doubt.similar))
    numbers = f"{doubt.probability:.3f}", f"{doubt.neighbours:.2f}"
    return (_shown(doubt), doubt.label, features, similar, *numbers)


def _shown(place: DoubtedPlace) -> str:
    return place.ref or f"{place.position}/{place.index}"


@remote()
def doubts(
    client: Client,
    model: ModelName,
    kind: Annotated[
        KindOfDoubt, Option(type=click.Choice(get_args(KindOfDoubt)), help="Labels that are missing, or wrong ones.")
    ] = "missing",
    label: Annotated[str | None, Option(help="The only label.")] = None,
    top: Annotated[int, Option(min=1, max=1_000, help="Maximum number of doubts.")] = 20,
    search: Annotated[bool, Option(help="Search first, and wait until the search has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """List labels of learnt examples that the rest of the stream contradicts, the most doubtful first.

    Read an example before you correct it: many labels in the list of wrong ones are right.

    Example: `manylabel doubts tags --search`
    """
    handle = client.model(model)
    if search:
        job = handle.search_doubts(label=label, top=max(top, 100))
        click.echo(f"job {job.id} searches", err=True)
        job.wait()
    print_as(as_json, handle.doubts(kind, label=label, top=top), _print)
