"""`manylabel compare`: two models, or two versions of one, on the same rows."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import click

from manylabel_clients.command.data.files import PLAIN, LabelColumns, RowOptions, ZeroBased, open_for
from manylabel_clients.command.declaring import Argument, Option
from manylabel_clients.command.failures import Failure
from manylabel_clients.command.inputs import predicted
from manylabel_clients.command.options import AsJson, BatchSize, remote
from manylabel_clients.command.output.measures import number
from manylabel_clients.command.output.tables import print_table
from manylabel_clients.command.output.text import print_json
from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.models import Model
from manylabel_clients.http.responses import TITLES, MetricsHistory
from manylabel_extras import require

if TYPE_CHECKING:
    from manylabel_clients.river.files import FileStream

PREQUENTIAL = ("micro_f1", "macro_f1", "f1", "precision", "recall", "subset_accuracy", "hamming_loss", "ranking_loss")
LEAST_WINDOWS = 5
"""Minimum number of windows for an interval."""
_T_975 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantiles of Student's t distribution at .975, for 1 to 10 degrees of freedom; for n > 10: 1.96 + 2.6 / n."""


class Compared(NamedTuple):
    """Model, or version of a model, to compare."""

    model: Model
    version: int | None


@remote()
def compare(
    client: Client,
    first: Annotated[str, Argument(metavar="A", help="A model, or a version of it: NAME or NAME@VERSION.")],
    second: Annotated[str, Argument(metavar="B", help="Another model or version.")],
    data: Annotated[
        Path | None,
        Option(exists=True, dir_okay=False, metavar="FILE", help="Labelled file that both predict; nothing is learnt."),
    ] = None,
    labels: LabelColumns = None,
    zero_based: ZeroBased = False,
    table: RowOptions = PLAIN,
    batch_size: BatchSize = 64,
    as_json: AsJson = False,
) -> None:
    """Compare two models, or two versions of one, on the same rows: metrics, and differences with 95 % intervals.

    With --data, both predict the rows of a labelled file, and the intervals are those of a paired bootstrap over the
    rows. Without it, the prequential metrics of two models that learnt the same stream are compared, over windows that
    do not overlap.

    Example: `manylabel compare songs@1 songs@2 --data test.csv`
    """
    both = [_compared(client.model, text) for text in (first, second)]
    if data is None:
        facts = _of_the_stream(both)
    else:
        require("manylabel compare", "core")
        stream = open_for(both[0].model, data, labels, zero_based, table)
        facts = _of_rows(both, stream, batch_size)
    if as_json:
        print_json({"first": first, "second": second, **facts})
        return
    rows = [
        (TITLES[name], number(one["first"]), number(one["second"]), number(one["difference"]), _interval(one))
        for name, one in facts["metrics"].items()
    ]
    print_table((f"{facts['examples']:,} {facts['unit']}", first, second, "B - A", "95 % interval"), rows)
    if facts["note"]:
        click.echo(facts["note"])


def _compared(model: Any, text: str) -> Compared:
    name, _, version = text.partition("@")
    if version and not version.isdecimal():
        raise Failure(f"{text}: expected NAME or NAME@VERSION, where VERSION is a number")
    return Compared(model(name), int(version) if version else None)


def _interval(one: dict[str, Any]) -> str:
    return "" if one["low"] is None else f"{one['low']:+.4f} to {one['high']:+.4f}"


def _of_rows(both: Sequence[Compared], stream: "FileStream", batch_size: int) -> dict[str, Any]:
    """Compare predictions of a labelled file."""
    import numpy as np
    import scipy.sparse as sp

    from manylabel_core.metrics.comparison import compare as differences

    columns: dict[str, int] = {name: column for column, name in enumerate(stream.labels)}
    found: list[list[list[int]]] = [[], [], []]
    known: list[int] = []
    weights: list[float] = []
    predict = [partial(one.model.predict_many, batch_size=batch_size, version=one.version) for one in both]
    for truths, batch_weights, predictions in predicted(stream, batch_size, *predict):
        weights += batch_weights
        for y, *answers in zip(truths, *predictions, strict=True):
            told = set(y) if isinstance(y, dict) else None
            true = {name for name, holds in y.items() if holds} if isinstance(y, dict) else set(y)
            known.append(len(columns) if told is None else len(told))
            for matrix, names in zip(found, (true, *(set(one.labels) for one in answers)), strict=True):
                kept = names if told is None else names & told
                matrix.append([columns.setdefault(name, len(columns)) for name in sorted(kept)])
    if not known:
        raise Failure("the file has no rows")
    shape = (len(known), len(columns))
    matrices = [
        sp.csr_array(
            (
                np.ones(sum(map(len, matrix)), dtype=bool),
                np.array([column for row in matrix for column in row], dtype=np.int32),
                np.cumsum([0, *map(len, matrix)]),
            ),
            shape=shape,
        )
        for matrix in found
    ]
    metrics = differences(*matrices, n_known=known, sample_weight=weights)
    return {
        "examples": len(known),
        "unit": "rows",
        "metrics": {name: one._asdict() for name, one in metrics.items()},
        "note": None,
    }


def _of_the_stream(both: Sequence[Compared]) -> dict[str, Any]:
    """Compare prequential metrics over the windows that end at the same number of examples in both histories."""
    if any(one.version is not None for one in both):
        raise Failure("a comparison of versions needs a file of labelled rows: --data FILE")
    first, second = (one.model.metrics_history() for one in both)
    size = first.window.size
    if second.window.size != size:
        raise Failure(
            f"the windows differ, {size:,} and {second.window.size:,} examples: compare the models with --data FILE"
        )
    ends = _apart(sorted(set(first.examples) & set(second.examples)), size)
    if not ends:
        raise Failure("the metrics histories do not overlap: compare the models with --data FILE")
    metrics = {name: _over_windows(name, first, second, ends) for name in PREQUENTIAL}
    note = None
    if len(ends) < LEAST_WINDOWS:
        note = f"no confidence intervals: they need {LEAST_WINDOWS * size:,} examples, or a file (--data)"
    return {"examples": ends[-1], "unit": "examples of their streams", "metrics": metrics, "note": note}


def _apart(points: Sequence[int], size: int) -> list[int]:
    """Return points that are at least one window apart, including the last point."""
    kept: list[int] = []
    for point in reversed([point for point in points if point >= size] or points[-1:]):
        if not kept or kept[-1] - point >= size:
            kept.append(point)
    return kept[::-1]


def _over_windows(name: str, first: MetricsHistory, second: MetricsHistory, ends: Sequence[int]) -> dict[str, Any]:
    """Return the mean metrics of both models over windows, and their difference with the interval of a paired t
    test."""
    values = []
    for history in (first, second):
        column = dict(zip(history.examples, getattr(history.window, name), strict=True))
        values.append([column[end] for end in ends])
    pairs = [(a, b) for a, b in zip(*values, strict=True) if a is not None and b is not None]
    if not pairs:
        return dict.fromkeys(("first", "second", "difference", "low", "high"))
    differences = [b - a for a, b in pairs]
    difference, low, high = fmean(differences), None, None
    if len(pairs) >= LEAST_WINDOWS:
        freedom = len(pairs) - 1
        quantile = _T_975[freedom - 1] if freedom <= len(_T_975) else 1.96 + 2.6 / freedom
        half = quantile * stdev(differences) / math.sqrt(len(pairs))
        low, high = difference - half, difference + half
    means = (fmean(side) for side in zip(*pairs, strict=True))
    return {**dict(zip(("first", "second"), means, strict=True)), "difference": difference, "low": low, "high": high}
