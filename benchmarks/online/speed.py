"""Microseconds per example to predict and learn: the online learners compared with river and Vowpal Wabbit.

Everything runs in one process on one thread. Contenders take turns, so that slow phases of the machine affect all of
them. Each run starts with a new model, learns a first part of the stream untimed, and measures the CPU time of the
next.

Timed are the calls with which a user of each library predicts every example before it is learnt:

- core: `learn`, which returns the scores before learning, on index arrays; a batch or one example per call. With M: the
  paper's learners without scaling and probabilities. "Defaults": no parameters, that is, two models, scaling,
  probabilities and tuned thresholds. The others are without scaling and probabilities, to compare the steps.
- "two loops": the minimum of FALT with M = 1, the sum of scores over the weights of an example and the change of these
  weights, by the same compiled functions on the same examples.
- Vowpal Wabbit: `predict` and `learn` on examples parsed beforehand. "Learn only" omits `predict` and uses the
  prediction of `learn`. Parsing of its text format is timed separately and not part of a ratio. With its default of 18
  bits, 18 weights of the sparse stream share a slot; with 23 bits, as in core, none do.
- river: `predict_one` and `learn_one` on prepared dictionaries.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.online.river_peers import logistic, multioutput
from benchmarks.online.stream_data import Stream, sparse, yeast
from manylabel_core import FALT, SALT
from manylabel_core.compiled import compiled
from manylabel_core.online.models.linear._table import PADDING, add_outer, score_plane
from manylabel_core.rows import as_rows, as_targets

Learn = Callable[[int, int], None]
"""Function that predicts and learns the examples first to last - 1."""


class Contender(NamedTuple):
    """Learner in the comparison: how to start it on a stream, and its number of examples."""

    name: str
    start: Callable[[Stream], Learn]
    warm_up: int
    timed: int


def core(make: Callable[[], Any], one_by_one: bool = False) -> Callable[[Stream], Learn]:
    def start(stream: Stream) -> Learn:
        (rows, n_features), targets = as_rows(stream.X), as_targets(stream.Y)
        model = make()
        model.pipeline.grow(n_features, stream.Y.shape[1])
        if not one_by_one:
            return lambda first, last: model.pipeline.learn(rows.part(first, last), targets.part(first, last))
        singles = [(rows.part(i, i + 1), targets.part(i, i + 1)) for i in range(stream.X.shape[0])]

        def learn(first: int, last: int) -> None:
            for row, target in singles[first:last]:
                model.pipeline.learn(row, target)

        return learn

    return start


def two_loops(stream: Stream) -> Learn:
    """Read and write the weights of an example, and do nothing else."""
    rows, n_features = as_rows(stream.X)
    table = np.zeros((1 + n_features, 1, -(-(1 + stream.Y.shape[1]) // PADDING) * PADDING), dtype=np.float32)
    scores, tau = np.empty(table.shape[2]), np.full(table.shape[2], 1e-3, dtype=np.float32)
    touched = 1 + rows.indices.astype(np.int64)
    return lambda first, last: _two_loops(table, rows.indptr[first : last + 1], *rows[1:], touched, scores, tau)


@compiled
def _two_loops(table, indptr, indices, values, touched, scores, tau):  # type: ignore[no-untyped-def]
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        score_plane(table, 0, 0.3, indices[row], values[row], scores)
        add_outer(table, touched[row], values[row], tau)


def as_text(stream: Stream, last: int) -> list[str]:
    """Return examples in Vowpal Wabbit's text format."""
    lines = []
    for i in range(last):
        x, y = stream.X[[i]], stream.Y[[i]]
        features = " ".join(f"{j}:{v:.6g}" for j, v in zip(x.indices, x.data, strict=True))
        lines.append(f"{','.join(map(str, y.indices))} | {features}")
    return lines


def vowpal_wabbit(n_examples: int, bits: int, predict: bool = True) -> Callable[[Stream], Learn]:
    def start(stream: Stream) -> Learn:
        model = _workspace(stream, bits)
        examples = [model.parse(line) for line in as_text(stream, n_examples)]
        kind = model.get_prediction_type()

        def predict_and_learn(first: int, last: int) -> None:
            for example in examples[first:last]:
                model.predict(example)
                model.learn(example)

        def learn(first: int, last: int) -> None:
            for example in examples[first:last]:
                model.learn(example)
                example.get_prediction(kind)

        return predict_and_learn if predict else learn

    return start


def vowpal_wabbit_parser(n_examples: int) -> Callable[[Stream], Learn]:
    def start(stream: Stream) -> Learn:
        model, lines = _workspace(stream, bits=18), as_text(stream, n_examples)

        def parse(first: int, last: int) -> None:
            for line in lines[first:last]:
                model.finish_example(model.parse(line))

        return parse

    return start


def _workspace(stream: Stream, bits: int) -> Any:
    from vowpalwabbit import pyvw

    options = f"--multilabel_oaa {stream.Y.shape[1]} --loss_function logistic --bit_precision {bits} --quiet"
    return pyvw.Workspace(options)


def river(make: Callable[[], Any], n_examples: int) -> Callable[[Stream], Learn]:
    def start(stream: Stream) -> Learn:
        X, Y, labels = stream.X, stream.Y.toarray().astype(bool).tolist(), range(stream.Y.shape[1])
        rows = [X[[i]] for i in range(n_examples)]
        examples = [
            (dict(zip(x.indices.tolist(), x.data.tolist(), strict=True)), dict(zip(labels, y, strict=True)))
            for x, y in zip(rows, Y[:n_examples], strict=True)
        ]
        model = make()

        def learn(first: int, last: int) -> None:
            for x, y in examples[first:last]:
                model.predict_one(x)
                model.learn_one(x, y)

        return learn

    return start


FALT_1, FALT_100, FALT_L = "FALT, M = 1", "FALT, M = 100", "FALT, M = L"
SALT_1, SALT_L = "SALT, M = 1", "SALT, M = L"
FALT_STACKED, SALT_STACKED = "FALT, stacked", "SALT, stacked"
FALT_DEFAULT, SALT_DEFAULT = "FALT, defaults", "SALT, defaults"
LOOPS = "two loops over the weights, alone"
VW = "Vowpal Wabbit, 18 bits"
VW_23 = "Vowpal Wabbit, 23 bits"
RIVER = "river PerOutputClassifier"

STEPS: dict[str, Callable[[], Any]] = {
    FALT_1: lambda: FALT(passes=1, calibrate=False),
    FALT_100: lambda: FALT(passes=100, calibrate=False),
    FALT_L: lambda: FALT(step="gradient", scaling="none", calibrate=False),
    "FALT, implicit": lambda: FALT(step="implicit", scaling="none", calibrate=False),
    "FALT, adaptive": lambda: FALT(step="adaptive", scaling="none", calibrate=False),
    FALT_STACKED: lambda: FALT(scaling="none", calibrate=False),
    FALT_DEFAULT: FALT,
    SALT_1: lambda: SALT(passes=1, calibrate=False),
    SALT_L: lambda: SALT(step="gradient", scaling="none", calibrate=False),
    "SALT, implicit": lambda: SALT(step="implicit", scaling="none", calibrate=False),
    SALT_STACKED: lambda: SALT(scaling="none", calibrate=False),
    SALT_DEFAULT: SALT,
}


def contenders(n_warm: int, n_vw: int, n_river: int) -> list[Contender]:
    """Return all contenders. Slow ones are timed on fewer examples, and river, the slowest, has fewer untimed ones."""
    return [
        Contender(LOOPS, two_loops, n_warm, 1000),
        *(Contender(name, core(make), n_warm, 1000) for name, make in STEPS.items()),
        *(Contender(f"{name}, one example a call", core(STEPS[name], True), n_warm, 1000) for name in (FALT_1, SALT_1)),
        Contender(VW, vowpal_wabbit(n_warm + n_vw, 18), n_warm, n_vw),
        Contender(f"{VW}, learn only", vowpal_wabbit(n_warm + n_vw, 18, predict=False), n_warm, n_vw),
        Contender(VW_23, vowpal_wabbit(n_warm + n_vw, 23), n_warm, n_vw),
        Contender(f"{VW_23}, learn only", vowpal_wabbit(n_warm + n_vw, 23, predict=False), n_warm, n_vw),
        Contender("Vowpal Wabbit, parsing alone", vowpal_wabbit_parser(n_warm + n_vw), n_warm, n_vw),
        Contender(RIVER, river(multioutput("PerOutputClassifier", logistic), 2 * n_river), n_river, n_river),
        Contender(
            "river ClassifierChain", river(multioutput("ClassifierChain", logistic), 2 * n_river), n_river, n_river
        ),
    ]


def measure(stream: Stream, entries: Sequence[Contender], repeats: int) -> dict[str, list[float]]:
    """Return the microseconds per example of every run."""
    runs: dict[str, list[float]] = {entry.name: [] for entry in entries}
    for _ in range(repeats):
        for entry in entries:
            learn = entry.start(stream)
            learn(0, entry.warm_up)
            began = time.process_time()
            learn(entry.warm_up, entry.warm_up + entry.timed)
            runs[entry.name].append(1e6 * (time.process_time() - began) / entry.timed)
    return runs


def print_table(stream: Stream, runs: dict[str, list[float]]) -> None:
    base = statistics.median(runs[FALT_1])
    print(f"\n{stream.name}\n{'predict + learn':34} {'us an example':>14} {'(min..max)':>24} {'of FALT, M = 1':>16}")
    for name, times in runs.items():
        middle = statistics.median(times)
        spread = f"({min(times):,.1f}..{max(times):,.1f})"
        print(f"{name:34} {middle:14,.1f} {spread:>24} {middle / base:15.1f}x")


def print_aims(where: str, runs: dict[str, list[float]], aims: Sequence[tuple[str, str, str, float, float]]) -> None:
    """Print the targets: a slow and a fast contender, and the minimum and maximum of their ratio."""
    middle = {name: statistics.median(times) for name, times in runs.items()}
    print(f"\naims on the {where} stream")
    for text, slow, fast, least, most in aims:
        ratio = middle[slow] / middle[fast]
        print(f"  {text:58} {ratio:10,.1f}   {'met' if least <= ratio <= most else 'MISSED'}")


BOTH = (
    ("SALT defaults / FALT defaults, at most 3", SALT_DEFAULT, FALT_DEFAULT, 0.0, 3.0),
    ("SALT stacked / FALT stacked, at most 3", SALT_STACKED, FALT_STACKED, 0.0, 3.0),
    ("SALT defaults / SALT M = L, at most 1", SALT_DEFAULT, SALT_L, 0.0, 1.0),
    ("SALT stacked / SALT M = L, at most 1", SALT_STACKED, SALT_L, 0.0, 1.0),
    ("FALT defaults / FALT M = L, at most 2", FALT_DEFAULT, FALT_L, 0.0, 2.0),
    ("FALT implicit / FALT M = L, at most 1", "FALT, implicit", FALT_L, 0.0, 1.0),
)
SPARSE = (
    (f"{VW} / FALT M = 1, at least 30", VW, FALT_1, 30.0, np.inf),
    (f"{VW_23} / FALT M = 1, at least 30", VW_23, FALT_1, 30.0, np.inf),
    ("river / FALT M = 1, at least 500", RIVER, FALT_1, 500.0, np.inf),
    ("FALT M = 1 / its two loops over the weights, at most 1.3", FALT_1, LOOPS, 0.0, 1.3),
    ("FALT M = 100 / FALT M = 1, at most 4", FALT_100, FALT_1, 0.0, 4.0),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=7, help="runs of each contender, taken in turns")
    parser.add_argument("--seed", type=int, default=0, help="of the sparse stream")


def run(args: argparse.Namespace) -> None:
    dense = yeast()
    runs = measure(dense, contenders(n_warm=1000, n_vw=500, n_river=50), args.repeats)
    print_table(dense, runs)
    print_aims("dense", runs, BOTH)
    text_like = sparse(3000, seed=args.seed)
    runs = measure(text_like, contenders(n_warm=2000, n_vw=250, n_river=10), args.repeats)
    print_table(text_like, runs)
    print_aims("sparse", runs, (*BOTH, *SPARSE))
