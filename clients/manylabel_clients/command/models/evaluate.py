"""`manylabel evaluate`: how well a model predicts, on its stream or on a labelled file."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import click

from manylabel_clients.command.data.files import PLAIN, LabelColumns, OptionalFile, RowOptions, ZeroBased, open_for
from manylabel_clients.command.declaring import Option
from manylabel_clients.command.inputs import predicted
from manylabel_clients.command.options import AsJson, BatchSize, ModelName, remote
from manylabel_clients.command.output.measures import (
    measure_rows,
    print_history,
    print_metrics,
    print_promise,
    print_promises,
    print_reliability,
)
from manylabel_clients.command.output.models import print_advice
from manylabel_clients.command.output.reports import note_warnings
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import print_as, print_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import Prediction

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream
    from manylabel_core.metrics import Prequential
    from manylabel_core.promise import Promise


_ALL = 1_000_000
"""Maximum number of labels in `scores` that a server accepts in a request."""


@remote()
def evaluate(
    client: Client,
    model: ModelName,
    file: OptionalFile = None,
    labels: LabelColumns = None,
    zero_based: ZeroBased = False,
    table: RowOptions = PLAIN,
    batch_size: BatchSize = 64,
    history: Annotated[bool, Option(help="Show the metrics history; --json has all points.")] = False,
    reliability: Annotated[bool, Option(help="Show the reliability diagram.")] = False,
    label: Annotated[str | None, Option(metavar="NAME", help="With --reliability: only this label.")] = None,
    precision: Annotated[
        float | None,
        Option(
            help="Show how many labels could be applied without review at this precision: from the account of the "
            "model's promise or, with a file, from a promise that begins with the first row.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the metrics of a model next to a baseline that predicts the most frequent labels.

    Without a file, these are its prequential metrics. With a file, the model predicts the rows without learning them,
    and the metrics compare the predictions with the labels of the file, weighted by its weights.
    """
    if file is not None and (history or reliability):
        hint = "--history" if history else "--reliability"
        raise click.BadParameter("applies to the stream of a model, not to a file", param_hint=hint)
    if history and reliability:
        raise click.BadParameter("cannot be combined with --history", param_hint="--reliability")
    if label is not None and not reliability:
        raise click.BadParameter("needs --reliability", param_hint="--label")
    if precision is not None and (history or reliability):
        raise click.BadParameter("cannot be combined with --history or --reliability", param_hint="--precision")
    if precision is not None and not 0.0 < precision < 1.0:
        raise click.BadParameter("must be above 0 and below 1", param_hint="--precision")
    handle = client.model(model)
    if file is None:
        if precision is not None:
            return print_as(as_json, _account(handle, precision), print_promise)
        if history:
            return print_as(as_json, handle.metrics_history(), print_history)
        if reliability:
            return print_as(as_json, handle.reliability(label), print_reliability)
        metrics = handle.metrics()
        if as_json:
            return print_json(metrics)
        print_metrics(metrics)
        if metrics.promise is not None:
            print_promises(metrics.promise)
        return print_advice(handle.status())
    stream = open_for(handle, file, labels, zero_based, table)
    note_warnings(getattr(stream, "warnings", ()))
    if precision is not None:
        return print_as(as_json, _simulated(handle, stream, batch_size, precision), print_promise)
    measures = _measured(handle, stream, batch_size)
    if as_json:
        return print_json(measures)
    counts = ("examples", f"{measures['examples']:,}")
    columns = ("metric", file.name, "baseline")
    print_table(columns, [(*counts, ""), *measure_rows(measures, measures["baseline"])])
    return print_advice(handle.status())


def _account(model: Model, precision: float) -> dict[str, Any]:
    """Return the account of the model's promise; raise a usage error if the model does not promise `precision`."""
    account = model.metrics().promise
    promised_precision = None if account is None else account.get("precision")
    if account is None or promised_precision != precision:
        promised = "promises no precision" if promised_precision is None else f"promises {promised_precision:g}"
        raise click.UsageError(
            f"The model {promised}. Give a file of labelled examples, or promise {precision:g} by "
            f"`manylabel models set-promise MODEL --precision {precision:g}`."
        )
    return account


def _simulated(model: Model, stream: "FileStream", batch_size: int, precision: float) -> dict[str, Any]:
    """Return the account of a promise over the rows of a file, which the model does not learn."""
    from manylabel_core.promise import Promise, Target, report

    promise, columns = Promise(Target(precision)), dict[str, int]()
    predict = partial(model.predict_many, batch_size=batch_size, top=_ALL, probabilities=True)
    for truths, _, (predictions,) in predicted(stream, batch_size, predict):
        for name in (*predictions[0].scores, *stream.labels):
            columns.setdefault(name, len(columns))
        _promised(promise, columns, predictions, truths, stream.labels)
    return report(promise, list(columns))


def _promised(
    promise: "Promise",
    columns: dict[str, int],
    predictions: Sequence[Prediction],
    truths: Sequence[dict[str, bool] | list[str]],
    labels: Iterable[str],
) -> None:
    """Add predictions to the account of a promise. For tables, labels without a column do not count."""
    import numpy as np

    from manylabel_core.rows import NO_WEIGHTS, Targets

    shape = len(predictions), len(columns)
    scores, likely, truth = np.zeros((shape[0], 1 + shape[1])), np.zeros(shape), np.zeros(shape, dtype=np.int8)
    for row, (prediction, y) in enumerate(zip(predictions, truths, strict=True)):
        for name, score in prediction.scores.items():
            scores[row, 1 + columns[name]] = score
        for name, share in (prediction.probabilities or {}).items():
            likely[row, columns[name]] = share
        for name, holds in _truth(y, columns).items():
            truth[row, columns[name]] = 1 if holds else -1
    told = set(columns) if any(isinstance(y, list) for y in truths) else set(labels)
    hidden = [column for name, column in columns.items() if name not in told]
    likely[:, hidden] = 0.0
    visible = [column for name, column in columns.items() if name in told]
    complete = (truth[:, visible] != 0).all(axis=1)
    at, listed = np.nonzero(truth)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=shape[0]))])
    n_labels = np.full(*shape)
    known = Targets(indptr, listed.astype(np.int32), truth[at, listed], complete, n_labels, NO_WEIGHTS)
    promise.learn(likely, scores, known, complete, hidden=hidden)


def _measured(model: Model, stream: "FileStream", batch_size: int) -> dict[str, Any]:
    from manylabel_core.metrics import Prequential

    prequential = Prequential(window=1)
    columns: dict[str, int] = {}
    predict = partial(model.predict_many, batch_size=batch_size, top=_ALL)
    for truths, weights, (predictions,) in predicted(stream, batch_size, predict):
        if not columns:
            # Labels of the model come first, because only they can be predicted. Labels that the model learns meanwhile
            # do not count, so that all rows are evaluated alike.
            known = predictions[0].scores.keys()
            names = sorted(stream.labels, key=lambda name: name not in known)
            columns = {name: column for column, name in enumerate(names)}
            n_known = sum(name in known for name in names)
        _measure(prequential, columns, n_known, predictions, [_truth(y, stream.labels) for y in truths], weights)
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
    """Evaluate predictions on labels with known truth; other labels do not count."""
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
    """Return which labels are true; if a row lists its true labels, all others are false."""
    return y if isinstance(y, dict) else {**dict.fromkeys(labels, False), **dict.fromkeys(y, True)}
