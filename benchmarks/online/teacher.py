"""Promise of parity in a closed loop: calls saved, and agreement of the answers with the teacher.

The teacher is the true labels. Each run streams a dataset once, in random order, and the learner learns only the
examples for which the teacher was asked. A run differs from another by its order and by the draw of its audits. "saved"
is the share of examples answered without the teacher, of all and of the last quarter, "agreed" the mean agreement of
these answers, "excess" the most wrong answers beyond the promise at any time. A run counts as below if its number of
wrong answers has a probability below 5 % at the target.

Drift: half-way, the labels in at least 2 % of the examples are permuted.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.data_sets import load_stream
from benchmarks.online.promise import LEARNERS, targets_of
from manylabel_core.parity import Parity, ParityTarget, agreement_of, report
from manylabel_core.rows import Rows

TARGETS = (ParityTarget(0.95), ParityTarget(0.9), ParityTarget(0.95, agreement="f1"))


class Loop(NamedTuple):
    """Result of a closed loop: agreement of each answer (NaN if the teacher was asked), openings, processor time."""

    agreed: NDArray[np.float64]
    openings: int
    microseconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--sets", default="debtags,rcv1sub1,scene", help="by default %(default)s")
    parser.add_argument("--kernel-sets", default="scene", help="by default %(default)s")
    parser.add_argument("--draws", type=int, default=3, help="orders and draws of audits; by default %(default)s")


def run(args: argparse.Namespace) -> None:
    pairs = [(name, "falt") for name in args.sets.split(",") if name]
    pairs += [(name, "kernel_falt") for name in args.kernel_sets.split(",") if name]
    print(
        f"{'set, learner, target':38}{'saved, last':>14}{'agreed':>8}{'below':>7}{'excess':>8}{'50 after':>10}{'us':>6}"
    )
    for name, learner in pairs:
        X, Y = load_stream(args.data, name)
        for target in TARGETS:
            for drifts in (False, True) if target == TARGETS[0] else (False,):
                loops = [closed(X, Y, learner, target, seed, drifts) for seed in range(args.draws)]
                what = f"{name}, {learner}, {target.agreement} {target.parity:g}{', drift' if drifts else ''}"
                print(_row(what, loops, target), flush=True)


def closed(X: Any, Y: Any, learner: str, target: ParityTarget, seed: int, drifts: bool) -> Loop:
    """Stream a set in random order, and learn what the teacher was asked."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(X.shape[0])
    rows, truth = sp.csr_array(X)[order], np.asarray(sp.csr_array(Y)[order].todense()) > 0
    if drifts:
        half, moved = len(truth) // 2, np.flatnonzero(truth.mean(axis=0) >= 0.02)
        truth[half:, moved] = truth[half:, np.roll(moved, 1)]
    n, n_labels = truth.shape
    model, parity = LEARNERS[learner](), Parity(target)
    model.pipeline.grow(rows.shape[1], n_labels)
    agreed, seconds = np.full(n, np.nan), 0.0
    for row in range(n):
        part = rows[row : row + 1]
        one = Rows(part.indptr.astype(np.int64), part.indices.astype(np.int32), part.data.astype(np.float32))
        scores = model.pipeline.score(one, None)
        likely = model.pipeline.probabilities(scores)
        began = time.process_time()
        deferral = parity.defer(likely, scores)[0].drawn(rng.random())
        answer, teacher = np.flatnonzero(scores[0, 1:] > scores[0, 0]).tolist(), np.flatnonzero(truth[row]).tolist()
        if deferral.ask:
            parity.learn(deferral, answer, teacher)
            if deferral.sure:
                parity.settle(deferral.rate, answer, teacher)
        seconds += time.process_time() - began
        if deferral.ask:
            model.pipeline.learn(one, targets_of(truth[row : row + 1]), probabilities=True)
        else:
            agreed[row] = agreement_of(target.agreement, answer, teacher)
    return Loop(agreed, report(parity, [])["openings"], 1e6 * seconds / n)


def _row(what: str, loops: list[Loop], target: ParityTarget) -> str:
    """Return a line of the table: means over the runs, the number below the target, and the worst excess."""
    saved, last, mean, after, below, excess = list[float](), list[float](), list[float](), list[float](), 0, 0.0
    for loop in loops:
        alone = ~np.isnan(loop.agreed)
        saved.append(float(alone.mean()))
        last.append(float(alone[-len(alone) // 4 :].mean()))
        wrong = 1.0 - loop.agreed[alone]
        n = len(wrong)
        if n:
            mean.append(float(1.0 - wrong.mean()))
            excess = max(excess, float(np.cumsum(wrong - (1.0 - target.parity)).max()))
            below += bool(binom.sf(np.ceil(wrong.sum()) - 1, n, 1.0 - target.parity) < 0.05)
        after.append(float(np.flatnonzero(alone)[49]) if n >= 50 else np.nan)
    first = f"{np.nanmean(after):.0f}" if not np.isnan(after).all() else "never"
    share = f"{np.mean(mean):.3f}" if mean else "-"
    cost = np.mean([loop.microseconds for loop in loops])
    shares = f"{np.mean(saved):.3f}, {np.mean(last):.3f}"
    return f"{what:38}{shares:>14}{share:>8}{below:>7}{excess:>8.0f}{first:>10}{cost:>6.0f}"
