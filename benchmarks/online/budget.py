"""Quality, memory and time of kernel learners with a budget, compared with no budget.

Two prequential tables, in which only the budget and the strategy are chosen:

- yeast and scene, in several random orders: micro and macro F1 by budget and strategy, mean and standard deviation.
- a long seeded stream with constantly changing examples and labels: F1, memory and time per prediction along the
  stream. Without a budget only its beginning can be learnt.

Times are CPU time on one thread. Calibration is off: predictions use the learnt threshold. --out draws the stream.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import load_stream
from benchmarks.online.drifting import Drifting
from benchmarks.output import save_plot
from manylabel_core import KernelFALT, KernelSALT
from manylabel_core.rows import as_rows, as_targets

Make = Callable[..., Any]

FREE = "FALT, no budget"
CONTENDERS: dict[str, Make] = {
    FREE: partial(KernelFALT, step="implicit", calibrate=False),
    **{
        f"FALT, {strategy}": partial(KernelFALT, step="implicit", strategy=strategy, calibrate=False)
        for strategy in ("project", "nystroem")
    },
    **{
        f"SALT, {strategy}": partial(KernelSALT, step="implicit", strategy=strategy, calibrate=False)
        for strategy in ("nystroem",)
    },
}
UNDER_A_BUDGET = [label for label in CONTENDERS if label != FREE]
SETS = ("yeast", "scene")
BLOCK = 1000
"""Examples per call; results do not depend on it."""


class Counts:
    """True, false and missed predictions per label."""

    def __init__(self, n_labels: int) -> None:
        self.counts = np.zeros((3, n_labels))

    def add(self, Y: NDArray[Any], scores: NDArray[np.float64]) -> None:
        P, Y = scores[:, 1:] > scores[:, :1], Y.astype(bool)
        self.counts += [(P & Y).sum(axis=0), (P & ~Y).sum(axis=0), (~P & Y).sum(axis=0)]

    @property
    def f1(self) -> tuple[float, float]:
        """Return micro- and macro-F1; a label that is never relevant nor predicted counts as 0."""
        hit, false, missed = self.counts
        micro = 2 * hit.sum() / max(2 * hit.sum() + false.sum() + missed.sum(), 1)
        return float(micro), float(np.mean(2 * hit / np.maximum(2 * hit + false + missed, 1)))


class Point(NamedTuple):
    """Quality, memory and speed of a learner at one point of the stream."""

    rows: int
    micro: float
    macro: float
    nbytes: int
    predict_us: float
    learn_us: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--data", type=Path, required=True, help="folder of the datasets")
    parser.add_argument("--out", type=Path, help="folder for the plot")
    parser.add_argument("--orders", type=int, default=5, help="random orders of yeast and scene")
    parser.add_argument("--rows", type=int, default=1_000_000, help="length of the drifting stream, 0 for none")
    parser.add_argument("--unbounded-rows", type=int, default=20_000, help="as much of it without a budget")
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 500, 1000, 2000])
    parser.add_argument("--stream-budgets", type=int, nargs="+", default=[200, 500])
    parser.add_argument("--only", nargs="+", choices=UNDER_A_BUDGET, default=UNDER_A_BUDGET)


def run(args: argparse.Namespace) -> None:
    """Print the tables."""
    for make in CONTENDERS.values():  # compiled before anything is timed
        _learn(make(budget=None if make is CONTENDERS[FREE] else 2), np.eye(8), np.eye(8, 2, dtype=np.int8))
    for name in SETS if args.orders else ():
        _compare_orders(args, name)
    if args.rows:
        results = _compare_stream(args)
        if args.out is not None:
            _plot(args.out, results)


def _compare_orders(args: argparse.Namespace, name: str) -> None:
    """Print micro- and macro-F1 of every contender by budget; 0 stands for no budget."""
    X, Y = load_stream(args.data, name)
    print(
        f"\n{name}: {X.shape[0]} examples, {args.orders} random orders, mean (sd) of micro F1 / macro F1, microseconds"
    )
    for label, budget in [(FREE, 0), *((only, budget) for only in args.only for budget in args.budgets)]:
        found = []
        for seed in range(args.orders):
            order = np.random.default_rng(seed).permutation(X.shape[0])
            model = CONTENDERS[label](budget=budget or None)
            start, counts = time.process_time(), Counts(Y.shape[1])
            for first in range(0, len(order), BLOCK):
                part = order[first : first + BLOCK]
                counts.add(Y[part], _learn(model, X[part], Y[part]))
            found.append((*counts.f1, 1e6 * (time.process_time() - start) / len(order)))
        scores = np.array(found)
        (micro, macro, us), (micro_sd, macro_sd, _) = scores.mean(axis=0), scores.std(axis=0, ddof=len(found) > 1)
        shown = f"{budget:>6}" if budget else "      "
        print(
            f"  {label:16}{shown}  {micro:.4f} ({micro_sd:.4f}) / {macro:.4f} ({macro_sd:.4f})  {us:7.0f}", flush=True
        )


def _compare_stream(args: argparse.Namespace) -> dict[tuple[str, int], list[Point]]:
    print(f"\nA stream of {args.rows:,} examples that drifts: micro F1 / macro F1 of all, of its last fiftieth; kB; us")
    results: dict[tuple[str, int], list[Point]] = {}
    for label, budget in [(FREE, 0), *((only, budget) for budget in args.stream_budgets for only in args.only)]:
        model = CONTENDERS[label](budget=budget or None)
        n_rows, total = args.rows if budget else min(args.rows, args.unbounded_rows), Counts(Drifting.n_labels)
        points = list(_follow(model, n_rows, max(BLOCK, n_rows // (50 if budget else 10)), total))
        results[label, budget] = points
        (micro, macro), last, shown = total.f1, points[-1], f"{budget:>6}" if budget else "      "
        middle = points[len(points) // 2]
        print(
            f"  {label:16}{shown}{n_rows:>10,} rows  {micro:.4f} / {macro:.4f}  {last.micro:.4f} / {last.macro:.4f}"
            f"  {middle.nbytes / 1e3:.0f} half-way, {last.nbytes / 1e3:.0f} kB"
            f"  predict {middle.predict_us:.0f} half-way, {last.predict_us:.0f} us, learn {last.learn_us:.0f} us",
            flush=True,
        )
    return results


def _follow(model: Any, n_rows: int, every: int, total: Counts) -> Iterator[Point]:
    """Learn the stream, and record a point at regular intervals."""
    recent, seconds, since, rows = Counts(Drifting.n_labels), 0.0, 0, 0
    for X, Y in Drifting(seed=0).blocks(n_rows, BLOCK):
        start = time.process_time()
        scores = _learn(model, X, Y)
        seconds += time.process_time() - start
        recent.add(Y, scores)
        total.add(Y, scores)
        rows, since = rows + len(X), since + len(X)
        if since >= every or rows == n_rows:
            yield Point(rows, *recent.f1, model.pipeline.nbytes, _predict_us(model, X[:100]), 1e6 * seconds / since)
            recent, seconds, since = Counts(Drifting.n_labels), 0.0, 0


def _learn(model: Any, X: Any, Y: Any) -> NDArray[np.float64]:
    (rows, n_features), targets = as_rows(X), as_targets(Y)
    model.pipeline.grow(n_features, Y.shape[1])
    scores: NDArray[np.float64] = model.pipeline.learn(rows, targets).scores
    return scores


def _predict_us(model: Any, X: NDArray[Any]) -> float:
    """Return the microseconds of one prediction, the minimum of three runs."""
    rows, _ = as_rows(X)
    times = []
    for _ in range(3):
        start = time.process_time()
        model.pipeline.score(rows)
        times.append(time.process_time() - start)
    return 1e6 * min(times) / len(X)


def _plot(folder: Path, results: dict[tuple[str, int], list[Point]]) -> None:
    """Plot F1, memory and time along the stream, in one file per budget."""
    from matplotlib.figure import Figure

    for shown in sorted({budget for _, budget in results if budget}):
        figure = Figure(figsize=(18.0, 4.5), layout="constrained")
        axes = figure.subplots(1, 3)
        for (label, budget), points in results.items():
            if budget not in (0, shown):
                continue
            style = {"label": label} if budget else {"label": label, "color": "black", "linestyle": ":"}
            rows = [point.rows for point in points]
            axes[0].plot(rows, [point.micro for point in points], **style)
            axes[1].plot(rows, [point.nbytes / 1e3 for point in points], **style)
            axes[2].plot(rows, [point.predict_us for point in points], **style)
        titles = ("micro F1 since the point before", "memory, kB", "time of a prediction, microseconds")
        for axis, title in zip(axes, titles, strict=True):
            axis.set(title=f"{title}, budget {shown}", xlabel="examples")
        axes[1].set_yscale("log")
        axes[2].set_yscale("log")
        axes[0].legend(fontsize="small")
        save_plot(figure, folder / f"budget-stream-{shown}.png")
