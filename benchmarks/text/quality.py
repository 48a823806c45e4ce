"""Quality on debtags, Debian packages as records of a title, a text, categories and numbers.

Online learners are evaluated prequentially in file order, without declared tags. Batch trainers learn the first half
and predict the second, for which the online learners have figures too. Ours have their defaults. Macro-F1 is over all
469 tags; a tag that is neither true nor predicted counts 0.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import load_records, named_columns
from benchmarks.text import peers
from benchmarks.text.plot import plot_curves
from manylabel_clients.river import FALT, SALT
from manylabel_core.batch import M3L
from manylabel_core.metrics import macro_f1, micro_f1
from manylabel_core.records import RecordEncoder, TextSettings

Record = dict[str, Any]
FIELDS = ("title", "text")
TAGS = "tags"
OURS = 3
"""Number of our learners, the first contenders."""


class Predicted(NamedTuple):
    """Predictions of the rows from `first` on, as an indicator matrix, and their CPU seconds."""

    first: int
    rows: NDArray[np.int8]
    seconds: float


def run(args: argparse.Namespace) -> None:
    """Print the table, and draw micro-F1 along the stream."""
    records = load_records(args.data, "debtags")
    truth = [frozenset(record.pop(TAGS)) for record in records]
    names = sorted(frozenset().union(*truth))
    Y = indicators(truth, names)
    print(f"\ndebtags: {len(records):,} packages, {len(names)} tags, {Y.sum() / len(Y):.2f} a package")
    print(f"{'':48}{'all rows':>18}{'second half':>20}{'rows':>9}{'seconds':>10}")
    print(f"{'':48}{'micro    macro':>18}{'micro    macro':>20}")
    compare = partial(contenders, names=names, limit=args.peer_seconds)
    for predict in list(compare(records[:1_000], truth[:1_000], Y=Y[:1_000]).values())[:OURS]:
        predict()  # compile before timing
    found: dict[str, Predicted] = {}
    for name, predict in compare(records, truth, Y=Y).items():
        found[name] = predict()
        _print_row(name, found[name], Y)
    if args.out is not None:
        plot_curves(args.out, Y, {name: p.rows for name, p in found.items() if p.first == 0})


def contenders(
    records: list[Record], truth: list[frozenset[str]], names: list[str], Y: NDArray[np.int8], limit: float
) -> dict[str, Callable[[], Predicted]]:
    """Return the contenders by name, ours first."""
    online = partial(prequential, records, truth, names)
    text = {"fields": list(FIELDS)}
    return {
        "FALT": partial(online, FALT(text=text)),
        "SALT": partial(online, SALT(text=text)),
        "M3L, linear, scaling auto": partial(_second_half, _fit_m3l, records, Y),
        "Vowpal Wabbit, --multilabel_oaa": partial(_all_rows, peers.vowpal_wabbit, records, Y),
        "river BagOfWords, PerOutputClassifier, logistic": partial(
            online, peers.river_bag_of_words(FIELDS), limit=limit
        ),
        "scikit-learn TF-IDF, LinearSVC a tag": partial(_second_half, peers.linear_svc, records, Y),
    }


def prequential(
    records: list[Record], truth: list[frozenset[str]], names: list[str], model: Any, limit: float = np.inf
) -> Predicted:
    """Predict and learn each record by a river classifier; labels not seen yet are unknown."""
    known: dict[str, bool] = {}
    predicted, taken = [], 0.0
    for record, tags in zip(records, truth, strict=True):
        began = time.process_time()
        answer = model.predict_one(record) or {}
        known.update(dict.fromkeys(tags, False))
        model.learn_one(record, {**known, **dict.fromkeys(tags, True)})
        taken += time.process_time() - began
        predicted.append([label for label, relevant in answer.items() if relevant])
        if taken > limit:
            break
    return Predicted(0, indicators(predicted, names), taken)


def indicators(labels: Any, names: list[str]) -> NDArray[np.int8]:
    """Return label sets as an indicator matrix with a column per name."""
    columns = {name: column for column, name in enumerate(names)}
    Y = np.zeros((len(labels), len(names)), dtype=np.int8)
    for row, its in enumerate(labels):
        Y[row, [columns[label] for label in its]] = 1
    return Y


def _all_rows(predict: Callable[..., NDArray[np.int8]], records: list[Record], Y: NDArray[np.int8]) -> Predicted:
    began = time.process_time()
    return Predicted(0, predict(records, Y, FIELDS), time.process_time() - began)


def _second_half(fit: Callable[..., NDArray[np.int8]], records: list[Record], Y: NDArray[np.int8]) -> Predicted:
    half, began = len(records) // 2, time.process_time()
    return Predicted(half, fit(records[:half], Y[:half], records[half:]), time.process_time() - began)


def _fit_m3l(records: list[Record], Y: NDArray[np.int8], asked: list[Record]) -> NDArray[np.int8]:
    encoder = RecordEncoder(TextSettings(fields=FIELDS))
    X = named_columns(_encoded(encoder, records + asked))
    return np.asarray(M3L(scaling="auto").fit(X[: len(Y)], Y).predict(X[len(Y) :]), dtype=np.int8)


def _encoded(encoder: RecordEncoder, records: list[Record]) -> Iterator[dict[str, float]]:
    return map(encoder.encode, records)


def _print_row(name: str, predicted: Predicted, Y: NDArray[np.int8]) -> None:
    half, end = len(Y) // 2, predicted.first + len(predicted.rows)
    whole = _measures(Y, predicted, 0) if predicted.first == 0 and end == len(Y) else ""
    second = _measures(Y, predicted, half) if end == len(Y) else _measures(Y, predicted, 0) + " there"
    print(f"{name:48}{whole:>18}{second:>20}{len(predicted.rows):9,}{predicted.seconds:10.1f}", flush=True)


def _measures(Y: NDArray[np.int8], predicted: Predicted, first: int) -> str:
    rows = predicted.rows[max(0, first - predicted.first) :]
    last = predicted.first + len(predicted.rows)
    T = Y[last - len(rows) : last]
    return f"{micro_f1(T, rows):.4f}   {macro_f1(T, rows):.4f}"
