"""`manylabel evaluate`: how well a model predicts, on its stream or on a labelled file."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import click

from manylabel_clients.command.data.files import (
    Ignore,
    LabelColumns,
    OptionalFile,
    Separator,
    TableOptions,
    Tags,
    Text,
    WeightColumn,
    ZeroBased,
    open_for,
    readable,
)
from manylabel_clients.command.declaring import Commands, Option
from manylabel_clients.command.inputs import chunks
from manylabel_clients.command.options import DEFAULT_URL, ApiKeyFile, AsJson, BatchSize, ModelName, Url, connect
from manylabel_clients.command.output.measures import measure_rows, print_history, print_metrics, print_reliability
from manylabel_clients.command.output.models import print_advice
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import print_as, print_json
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.resources.predictions import Prediction

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream
    from manylabel_core.metrics import Prequential


_ALL = 1_000_000
"""Maximum number of labels in `scores` that a server accepts in a request."""


def register(app: Commands) -> None:
    """Add the command."""
    app.add(evaluate)


def evaluate(
    model: ModelName,
    file: OptionalFile = None,
    labels: LabelColumns = None,
    zero_based: ZeroBased = False,
    tags: Tags = None,
    separator: Separator = None,
    ignore: Ignore = None,
    text: Text = None,
    weight: WeightColumn = None,
    batch_size: BatchSize = 64,
    history: Annotated[bool, Option("--history", help="Show the metrics history; --json has all points.")] = False,
    reliability: Annotated[
        bool,
        Option("--reliability", help="Show the reliability diagram."),
    ] = False,
    label: Annotated[str | None, Option("--label", metavar="NAME", help="With --reliability: only this label.")] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKeyFile = None,
) -> None:
    """Show the metrics of a model next to a baseline that predicts the most frequent labels.

    Without a file: its prequential metrics. With a file: the model predicts the rows without learning them, and the
    metrics use the labels and weights of the file.
    """
    if file is not None and (history or reliability):
        hint = "--history" if history else "--reliability"
        raise click.BadParameter("is about the stream of a model, not about a file", param_hint=hint)
    if history and reliability:
        raise click.BadParameter("cannot be asked for together with --history", param_hint="--reliability")
    if label is not None and not reliability:
        raise click.BadParameter("needs --reliability", param_hint="--label")
    with connect(url, api_key) as client:
        handle = client.model(model)
        if file is None:
            if history:
                return print_as(as_json, handle.metrics_history(), print_history)
            if reliability:
                return print_as(as_json, handle.reliability(label), print_reliability)
            metrics = handle.metrics()
            if as_json:
                return print_json(metrics)
            print_metrics(metrics)
            return print_advice(handle.status())
        stream = open_for(handle, file, labels, zero_based, TableOptions(tags, separator, ignore, text, weight))
        measures = _measured(handle, stream, batch_size)
        if as_json:
            return print_json(measures)
        counts = ("examples", f"{measures['examples']:,}")
        columns = ("metric", file.name, "baseline")
        print_table(columns, [(*counts, ""), *measure_rows(measures, measures["baseline"])])
        return print_advice(handle.status())


def _measured(model: Model, stream: "FileStream", batch_size: int) -> dict[str, Any]:
    from manylabel_core.metrics import Prequential

    prequential = Prequential(window=1)
    columns: dict[str, int] = {}
    with readable():
        for rows in chunks(stream.examples(), batch_size):
            predictions = model.predict_many([x for x, *_ in rows], batch_size=batch_size, top=_ALL)
            if not columns:
                # Labels the model knows come first: only they can be predicted. Those it learns from
                # others meanwhile do not count, so that all rows are measured alike.
                known = predictions[0].scores.keys()
                names = sorted(stream.labels, key=lambda name: name not in known)
                columns = {name: column for column, name in enumerate(names)}
                n_known = sum(name in known for name in names)
            truths = [_truth(y, stream.labels) for _, y, *_ in rows]
            weights = [float(weight[0]) if weight else 1.0 for _, _, *weight in rows]
            _measure(prequential, columns, n_known, predictions, truths, weights)
    measures: dict[str, Any] = prequential.measures()["cumulative"]
    return measures


def _measure(
    prequential: "Prequential",
    columns: dict[str, int],
    n_known: int,
    predictions: Sequence[Prediction],
    truths: Iterable[dict[str, bool]],
    weights: Sequence[float],
) -> None:
    """Measure predictions on the labels whose truth is given; the model's other labels do not count."""
    import numpy as np

    from manylabel_core.rows import as_targets, as_weights

    shape = (len(predictions), len(columns))
    scores = np.zeros((shape[0], 1 + shape[1]))
    Y, known = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for row, (prediction, y) in enumerate(zip(predictions, truths, strict=True)):
        for name, score in prediction.scores.items():
            if name in columns:
                scores[row, 1 + columns[name]] = score
        for name, truth in y.items():
            known[row, columns[name]], Y[row, columns[name]] = True, truth
    targets = as_targets(Y, known)._replace(weights=as_weights(weights, shape[0]))
    prequential.update(scores, targets, np.full(shape[0], n_known))


def _truth(y: dict[str, bool] | list[str], labels: Iterable[str]) -> dict[str, bool]:
    """Return whether each label is relevant; where a row lists the relevant ones, the others are not."""
    return y if isinstance(y, dict) else {**dict.fromkeys(labels, False), **dict.fromkeys(y, True)}
