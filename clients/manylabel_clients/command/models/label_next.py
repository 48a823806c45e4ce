"""`manylabel models predictions`, and the loop of `manylabel label`: stored predictions without labels."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import click

from manylabel_clients.command.declaring import Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.models.one_by_one import OneByOne
from manylabel_clients.command.options import ModelName, remote
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import as_json as in_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.errors import TooLarge
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import UnlabelledPage, UnlabelledPrediction

ORDER = "uncertainty"
MAX_ASKED = 100
"""Maximum number of predictions that the server lists."""

MAX_LIKELY = 5
"""Maximum number of labels shown that are likely but not predicted."""

MAX_CHARACTERS = 2_000
"""Maximum characters shown of each field of a record."""

HELP = """\
Enter accepts the predicted labels; or type the true ones, separated by commas, or a single - for none.
s skips this one, u goes back to the one before, q sends the labels so far and quits.
A label that is one of these letters, or has a comma, is typed as JSON: ["s"]
"""


def _print_page(page: UnlabelledPage) -> None:
    if not page.predictions:
        return click.echo("no stored predictions without labels; manylabel predict --keep-record stores some")
    rows = [(one.id, ", ".join(_predicted(one)), f"{one.uncertainty:.3f}") for one in page.predictions]
    return print_table(("id", "predicted", "uncertainty"), rows, words=2)


def _predicted(shown: UnlabelledPrediction) -> list[str]:
    likely = shown.probabilities
    return shown.labels if likely is None else [f"{label} ({likely[label]:.2f})" for label in shown.labels]


@remote(_print_page)
def predictions(
    client: Client,
    name: ModelName,
    order: Annotated[str, Option(help="Order: newest or uncertainty; review: only those that need review.")] = ORDER,
    limit: Annotated[int, Option(min=1, max=MAX_ASKED, help="Maximum number of predictions.")] = 20,
) -> UnlabelledPage:
    """List stored predictions without labels, most uncertain first."""
    return client.model(name).predictions(order=order, limit=limit)


class LabelLoop(OneByOne[UnlabelledPrediction, list[str]]):
    """Loop that shows stored predictions to a person, asks for their labels, and sends them in batches.

    Parameters
    ----------
    order : order of the predictions, as in `Model.predictions`.
    send_every : number of predictions labelled in one request. Answers that were not sent yet can be undone.
    """

    prompt = "labels> "

    def __init__(self, model: Model, order: str, send_every: int) -> None:
        super().__init__()
        self._model, self._order, self._send_every = model, order, send_every
        self._done = set[str]()  # ids labelled or skipped
        self._most = MAX_ASKED  # maximum number of predictions per request
        self._is_full = False  # whether the last response had this maximum number

    def run(self) -> None:
        """Ask until no predictions are left, or the person quits."""
        click.echo(HELP)
        if self.ask_all():
            if self._is_full:
                click.echo(
                    f"you skipped {self._most}, and the server lists at most {self._most}: "
                    "label some of them to see others"
                )
            else:
                click.echo("no other predictions wait for labels")
        click.echo(f"{self.n_sent:,} labelled")

    def batch(self) -> list[UnlabelledPrediction]:
        """Return the first predictions that were neither labelled nor skipped."""
        page = self._page()
        self._is_full = len(page.predictions) == self._most
        return [one for one in page.predictions if one.id not in self._done][: self._send_every]

    def done(self, batch: Sequence[UnlabelledPrediction]) -> None:
        """Note that predictions were labelled or skipped."""
        self._done.update(one.id for one in batch)

    def described(self, item: UnlabelledPrediction) -> Iterator[str]:
        """Yield the record, the predicted labels and other likely ones."""
        return _described(item)

    def parsed(self, typed: str, item: UnlabelledPrediction) -> list[str]:
        """Return the typed labels."""
        return _labels(typed, item)

    def send(self, item: UnlabelledPrediction, answer: list[str]) -> None:
        """Submit the labels of a prediction."""
        self._model.label(item.id, answer)

    def _page(self) -> UnlabelledPage:
        """Return the next predictions; the server returns fewer if records are large or labels are many."""
        while True:
            limit = min(self._most, self._send_every + len(self._done))
            try:
                return self._predictions(limit)
            except TooLarge:
                if limit == 1:
                    raise
                self._most = limit // 2

    def _predictions(self, limit: int) -> UnlabelledPage:
        return self._model.predictions(order=self._order, limit=limit)


def _labels(typed: str, shown: UnlabelledPrediction) -> list[str]:
    """Return the typed labels without duplicates; report those that the model does not know."""
    if not typed:
        return shown.labels
    if typed == "-":
        return []
    labels = list(dict.fromkeys(_listed(typed)))
    new = [label for label in labels if shown.probabilities is not None and label not in shown.probabilities]
    if new:
        click.echo(f"new: {', '.join(new)} (u goes back)")
    return labels


def _listed(typed: str) -> list[str]:
    if typed.startswith("["):
        try:
            labels = json.loads(typed)
        except ValueError:
            labels = None
        if not (isinstance(labels, list) and all(isinstance(label, str) and label for label in labels)):
            raise Failure('not a list of labels in JSON, like ["a", "b"]')
        return labels
    return [label.strip() for label in typed.split(",") if label.strip()]


def _described(shown: UnlabelledPrediction) -> Iterator[str]:
    record = shown.record
    if record is None:
        yield f"{shown.id} (its record was not stored: predict with --keep-record)"
    elif isinstance(record, dict):
        for name, value in record.items():
            yield f"{name}: {_shortened(value)}"
    else:
        yield _shortened(record)
    yield f"predicted: {', '.join(_predicted(shown)) or '(no label)'}"
    others = {label: p for label, p in (shown.probabilities or {}).items() if label not in shown.labels}
    likely = sorted(others.items(), key=lambda one: -one[1])[:MAX_LIKELY]
    if likely:
        yield f"others:    {', '.join(f'{label} ({p:.2f})' for label, p in likely)}"


def _shortened(value: object) -> str:
    text = value if isinstance(value, str) else in_json(value)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."
