"""`manylabel doubts`: doubtful labels of learnt examples."""

from collections.abc import Iterator, Sequence
from typing import Annotated, get_args

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.models.one_by_one import OneByOne
from manylabel_clients.command.options import AsJson, ModelName, remote
from manylabel_clients.command.output.tables import print_table, print_text
from manylabel_clients.command.output.text import count_of, print_as
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.doubts import KindOfDoubt
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import Doubt, DoubtedPlace, DoubtList

SEND_EVERY = 10

HELP = """\
y: the example has the label. n: it has not. An answer that agrees with the example confirms its label.
s skips this one, u goes back to the one before, q sends the answers so far and quits.
"""


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
    numbers = f"{doubt.probability:.3f}", f"{doubt.neighbours:.2f}"
    return (_shown(doubt), doubt.label, _features(doubt), _similar(doubt), *numbers)


def _features(doubt: Doubt) -> str:
    return ", ".join(str(part.feature) for part in doubt.for_[:3])


def _similar(doubt: Doubt) -> str:
    return ", ".join(map(_shown, doubt.similar))


def _shown(place: DoubtedPlace) -> str:
    return place.ref or f"{place.position}/{place.index}"


class CheckLoop(OneByOne[Doubt, bool]):
    """Loop that asks a person about doubtful labels, and corrects or confirms the labels."""

    prompt = "has it? [y/n/s/u/q] "

    def __init__(self, model: Model, doubts: Sequence[Doubt]) -> None:
        super().__init__()
        self._model, self._left = model, list(doubts)

    def batch(self) -> Sequence[Doubt]:
        """Return the next doubts."""
        return self._left[:SEND_EVERY]

    def done(self, batch: Sequence[Doubt]) -> None:
        """Mark doubts as shown."""
        del self._left[: len(batch)]

    def described(self, item: Doubt) -> Iterator[str]:
        """Yield the reference of the example, the label and the evidence."""
        yield f"example:  {_shown(item)}"
        yield f"label:    {item.label}, which was {'given' if item.given else 'not given'}"
        contrast = ("against it", "without it") if item.given else ("for it", "with it")
        yield f"evidence: probability {item.probability:.3f}, {item.neighbours:.0%} of the most similar examples"
        if item.for_:
            yield f"          {contrast[0]}: {_features(item)}"
        if item.similar:
            yield f"          similar, {contrast[1]}: {_similar(item)}"

    def parsed(self, typed: str, item: Doubt) -> bool:
        """Return whether the example has the label."""
        if typed not in ("y", "n"):
            raise Failure("type y or n, or s, u or q")
        return typed == "y"

    def send(self, item: Doubt, answer: bool) -> None:
        """Correct or confirm the label."""
        self._model.correct(item.position, {item.label: answer}, index=item.index)


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
    correct: Annotated[bool, Option(help="Ask about one after another, and correct or confirm the labels.")] = False,
    as_json: AsJson = False,
) -> None:
    """List labels of learnt examples that the rest of the stream contradicts, the most doubtful first.

    Read an example before you correct it: many labels in the list of wrong ones are right.

    Example: `manylabel doubts tags --search`
    """
    if correct and as_json:
        raise click.BadParameter("is not possible with --correct, which asks a person", param_hint="--json")
    handle = client.model(model)
    if search:
        job = handle.search_doubts(label=label, top=max(top, 100))
        click.echo(f"job {job.id} searches", err=True)
        job.wait()
    found = handle.doubts(kind, label=label, top=top)
    if not correct:
        return print_as(as_json, found, _print)
    click.echo(HELP)
    loop = CheckLoop(handle, found.doubts)
    if loop.ask_all():
        click.echo("no other doubts are listed")
    return click.echo(f"{loop.n_sent:,} checked")
