"""Promise of precision: recall, compared with the best fixed threshold in hindsight, and violations.

Each run streams a dataset once, in random order; a learner with defaults predicts and learns each example
(test-then-train). A promise for each target gets the same probabilities. "Hindsight" is the highest recall of any fixed
threshold on the probabilities whose precision reaches the target on the whole stream; it is not known in advance. A
run, or a window of 1,000 labels applied, counts as below target if this number of errors has a probability below 5 % at
the target.

Drift: half-way, the labels in at least 2 % of the examples are permuted. Delay: the promise gets the true labels 50 or
500 examples late; the learner gets them at once. "us" is CPU time per example: of the whole stream in one block or,
with a delay, one example at a time.
"""

import argparse
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.data_sets import load_stream
from manylabel_core import FALT, KernelFALT
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.promise import Decision, Promise, Target
from manylabel_core.rows import NO_WEIGHTS, Rows, Targets

TARGETS = (0.9, 0.95, 0.99)
DELAYS = (50, 500)
WINDOW = 1_000
LEARNERS: dict[str, type[OnlineLearner]] = {"falt": FALT, "kernel_falt": KernelFALT}
BLOCK = 500
LARGE = 10_000
"""Number of examples from which a set is streamed in a third of the orders."""


class Predicted(NamedTuple):
    """Predictions of a stream before each example was learnt, and true labels."""

    scores: NDArray[np.float64]
    likely: NDArray[np.float64]
    truth: NDArray[np.bool_]


class Kept(NamedTuple):
    """Result of a promise on a stream: labels applied by example, whether each was right, and numbers of examples."""

    right: NDArray[np.bool_]
    recall: float
    settled: float
    settled_right: float
    missed: float
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    default = "scene,yeast,emotions,image,bibtex,enron,tmc2007_500,rcv1sub1,debtags"
    parser.add_argument("--sets", default=default, help="by default %(default)s")
    parser.add_argument("--kernel-sets", default="scene,yeast,emotions,image", help="by default %(default)s")
    parser.add_argument("--runs", type=int, default=6, help="orders of each set; by default %(default)s")


def run(args: argparse.Namespace) -> None:
    pairs = [(name, "falt") for name in args.sets.split(",")]
    pairs += [(name, "kernel_falt") for name in args.kernel_sets.split(",") if name]
    print("p@r: precision and recall of the labels applied; below: runs and windows below target beyond chance")
    print("settled: share of examples at 0.9, of these entirely right, missed of all true labels")
    columns = ("set, learner, target", "p@r", "hindsight", "below", "windows", "settled right missed", "us")
    print(
        f"{columns[0]:32}{columns[1]:>13}{columns[2]:>11}{columns[3]:>8}{columns[4]:>10}{columns[5]:>24}{columns[6]:>7}"
    )
    later: list[str] = []
    for name, learner in pairs:
        X, Y = load_stream(args.data, name)
        runs = args.runs if X.shape[0] < LARGE else max(1, args.runs // 3)
        plain = [predict(X, Y, learner, seed) for seed in range(runs)]
        for target in TARGETS:
            kept = [apply(one, target) for one in plain]
            found = [hindsight(one, target) for one in plain]
            print(_row(f"{name}, {learner}, {target:g}", kept, target, float(np.mean(found))), flush=True)
        drifted = [predict(X, Y, learner, seed, drifts=True) for seed in range(max(1, runs // 2))]
        later.append(_row(f"{name}, {learner}, drift", [apply(one, 0.95) for one in drifted], 0.95))
        for delay in DELAYS:
            late = [apply(one, 0.95, delay) for one in plain[: max(1, runs // 2)]]
            later.append(_row(f"{name}, {learner}, {delay} late", late, 0.95))
    print("\ntarget 0.95 with drift and with delayed labels; excess: most wrong labels beyond 5 % at any time")
    print("\n".join(later))


def predict(X: Any, Y: Any, learner: str, seed: int, drifts: bool = False) -> Predicted:
    """Stream a set in random order; return the predictions before each example was learnt."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    rows, truth = sp.csr_array(X)[order], np.asarray(sp.csr_array(Y)[order].todense()) > 0
    if drifts:
        half = len(truth) // 2
        moved = np.flatnonzero(truth.mean(axis=0) >= 0.02)
        truth[half:, moved] = truth[half:, np.roll(moved, 1)]
    n, n_labels = truth.shape
    model = LEARNERS[learner]()
    model.pipeline.grow(rows.shape[1], n_labels)
    scores, likely = np.empty((n, 1 + n_labels)), np.empty((n, n_labels))
    for begin in range(0, n, BLOCK):
        part = rows[begin : begin + BLOCK]
        block = Rows(part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data.astype(np.float32))
        own, probabilities, _ = model.pipeline.learn(
            block, targets_of(truth[begin : begin + BLOCK]), probabilities=True
        )
        scores[begin : begin + BLOCK], likely[begin : begin + BLOCK] = own, probabilities
    return Predicted(scores, likely, truth)


def targets_of(truth: NDArray[np.bool_]) -> Targets:
    """Return complete true labels as targets."""
    at, columns = np.nonzero(truth)
    indptr = np.concatenate([[0], np.cumsum(truth.sum(axis=1))]).astype(np.int64)
    signs, complete = np.ones(len(at), dtype=np.int8), np.ones(len(truth), dtype=np.bool_)
    return Targets(indptr, columns.astype(np.int32), signs, complete, np.full(*truth.shape), NO_WEIGHTS)


def apply(predicted: Predicted, precision: float, delay: int = 0) -> Kept:
    """Apply the decisions of a promise to a stream."""
    scores, likely, truth = predicted
    promise = Promise(Target(precision, 0.9, audit_rate=0.0))
    targets = targets_of(truth)
    began = time.process_time()
    if delay:
        decisions, waiting = list[Decision](), deque[Decision]()
        for row in range(len(truth)):
            decisions += promise.decide(likely[row : row + 1], scores[row : row + 1])
            waiting.append(decisions[-1])
            if row >= delay:
                late = row - delay
                promise.learn_served(waiting.popleft(), targets.part(late, late + 1), complete=True)
    else:
        decisions = promise.learn(likely, scores, targets, targets.complete)
    seconds = time.process_time() - began
    applied = [truth[row, one.applied] for row, one in enumerate(decisions)]
    right = np.concatenate(applied) if applied else np.zeros(0, dtype=np.bool_)
    settled = np.array([one.settled for one in decisions])
    n_right = np.array([own.sum() for own in applied])
    n_true = truth.sum(axis=1)
    entirely = np.array([own.all() for own in applied]) & (n_right == n_true)
    share_right = float(entirely[settled].mean()) if settled.any() else np.nan
    missed = float((n_true - n_right)[settled].sum() / n_true.sum())
    return Kept(
        right, float(right.sum() / n_true.sum()), float(settled.mean()), share_right, missed, seconds / len(truth)
    )


def hindsight(predicted: Predicted, precision: float) -> float:
    """Return the highest recall of a fixed threshold on probabilities that reaches the precision."""
    likely, truth = predicted.likely.ravel(), predicted.truth.ravel()
    order = np.argsort(-likely, kind="stable")
    right = np.cumsum(truth[order])
    last_of_ties = np.append(np.diff(likely[order]) != 0, True)
    good = last_of_ties & (right >= precision * np.arange(1, len(right) + 1))
    return float(right[good].max(initial=0) / truth.sum())


def below(right: NDArray[np.bool_], precision: float) -> bool:
    """Return whether this number of errors has a probability below 5 % at this precision."""
    wrong = int((~right).sum())
    return bool(len(right) and binom.sf(wrong - 1, len(right), 1 - precision) < 0.05)


def excess(right: NDArray[np.bool_], precision: float) -> float:
    """Return the maximum number of wrong labels beyond the allowed share at any time."""
    return float(np.cumsum(precision - right.astype(float)).max(initial=0.0)) if len(right) else 0.0


def _row(title: str, kept: list[Kept], precision: float, best: float | None = None) -> str:
    right = np.concatenate([one.right for one in kept])
    shown = f"{right.mean():.3f}@{np.mean([one.recall for one in kept]):.3f}" if len(right) else "nothing"
    windows = [
        below(one.right[begin : begin + WINDOW], precision)
        for one in kept
        for begin in range(0, len(one.right) - WINDOW + 1, WINDOW)
    ]
    n_below = sum(below(one.right, precision) for one in kept)
    middle = f"{max(excess(one.right, precision) for one in kept):11.1f}" if best is None else f"{best:11.3f}"
    settled, missed = np.mean([(one.settled, one.missed) for one in kept], axis=0)
    weights = np.array([one.settled for one in kept])
    own = np.array([0.0 if np.isnan(one.settled_right) else one.settled_right for one in kept])
    entirely = f"{(own * weights).sum() / weights.sum():.3f}" if weights.sum() else "-"
    counts = f"{n_below}/{len(kept)}"
    parts = f"{settled:.3f} {entirely} {missed:.3f}"
    us = 1e6 * np.mean([one.seconds for one in kept])
    return f"{title:32}{shown:>13}{middle}{counts:>8}{f'{sum(windows)}/{len(windows)}':>10}{parts:>24}{us:7.1f}"
