"""Drift: detected changes, gain of the reactions, and cost of detection.

Seeded streams of 20 features and 10 labels, linear except for noise; prequential micro-F1 over the whole stream.

still      nothing changes
abrupt     every 2,000 examples the next label is inverted
all        all labels are inverted in the middle
gradual    the directions of labels rotate by a half circle in 10,000 examples

"found" counts the changes that the label's detector noticed within 500 examples, "other" all further alarms.
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core import FALT, SALT
from manylabel_core.metrics import micro_f1
from manylabel_core.rows import as_rows, as_targets

N, FEATURES, LABELS, SOON = 20_000, 20, 10, 500
LEARNERS: list[tuple[type[Any], str]] = [(FALT, "stacked"), (FALT, "adaptive"), (SALT, "stacked"), (SALT, "implicit")]
REACTIONS = (None, "raise", "restart")
WIDE = 983
"""Number of labels of delicious."""


class Drifting(NamedTuple):
    """Stream with the changes of its labels: (example, label)."""

    X: NDArray[np.float32]
    Y: NDArray[np.int8]
    changes: list[tuple[int, int]]


def drifting(kind: str, seed: int) -> Drifting:
    """Return a stream of a kind that the module describes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, FEATURES)).astype(np.float32)
    one, other = rng.normal(size=(2, FEATURES, LABELS)) / np.sqrt(FEATURES)
    turn = np.linspace(0.0, 2.0 * np.pi, N)[:, np.newaxis] if kind == "gradual" else np.zeros((N, 1))
    scores = np.cos(turn) * (X @ one) + np.sin(turn) * (X @ other)
    changes = {
        "abrupt": [(2000 * k, (k - 1) % LABELS) for k in range(1, N // 2000)],
        "all": [(N // 2, label) for label in range(LABELS)],
    }.get(kind, [])
    for first, label in changes:
        scores[first:, label] *= -1.0
    Y = scores + 0.3 * rng.normal(size=scores.shape) > 0.3
    return Drifting(X, Y.astype(np.int8), changes)


def compare(kind: str, runs: int) -> None:
    """Print the table of one kind of stream: means over seeds."""
    print(f"\n{kind:<12}{'step':<12}{'reaction':<12}{'micro-F1':>10}{'found':>10}{'other':>8}{'global':>8}")
    streams = [drifting(kind, seed) for seed in range(runs)]
    for make, step in LEARNERS:
        for on_drift in REACTIONS:
            figures = np.mean([measure(make(step=step, drift="adwin", on_drift=on_drift), s) for s in streams], axis=0)
            quality, found, other, together = figures
            known = f"{found:.1f}/{len(streams[0].changes)}"
            print(f"{make.__name__:<12}{step:<12}{on_drift!s:<12}{quality:10.3f}{known:>10}{other:8.1f}{together:8.1f}")


def measure(model: Any, stream: Drifting) -> tuple[float, int, int, int]:
    """Return the micro-F1, the number of detected changes, further alarms of labels, and alarms of the detector over
    all labels.
    """
    model.pipeline.grow(FEATURES, LABELS)
    learnt = model.pipeline.learn(as_rows(stream.X)[0], as_targets(stream.Y))
    alarms = [(at, column - 1) for at, column in learnt.alarms if column > 0]
    found = sum(
        any(first <= at < first + SOON and own == label for at, own in alarms) for first, label in stream.changes
    )
    quality = micro_f1(stream.Y, (learnt.scores[:, 1:] > learnt.scores[:, :1]).astype(np.int8))
    return quality, found, len(alarms) - found, len(learnt.alarms) - len(alarms)


def costs() -> None:
    """Print the cost of detection per example, by the number of labels."""
    print(f"\n{'us an example':<24}" + "".join(f"{n:>8} labels" for n in (LABELS, 100, WIDE)))
    for drift, on_drift in ((None, None), ("adwin", None), ("adwin", "restart")):
        row = [seconds(n, drift, on_drift) * 1e6 for n in (LABELS, 100, WIDE)]
        print(f"FALT, {drift!s:<8}{on_drift!s:<10}" + "".join(f"{us:15.1f}" for us in row))


def seconds(n_labels: int, drift: str | None, on_drift: str | None, n: int = 2000) -> float:
    """Return the seconds per example of 20 features, the minimum of three runs; each label is relevant to one in 50."""
    rng = np.random.default_rng(0)
    rows, _ = as_rows(rng.normal(size=(n, FEATURES)).astype(np.float32))
    targets = as_targets((rng.random((n, n_labels)) < 0.02).astype(np.int8))
    best = np.inf
    for _ in range(3):
        model = FALT(drift=drift, on_drift=on_drift)
        model.pipeline.grow(FEATURES, n_labels)
        start = time.perf_counter()
        model.pipeline.learn(rows, targets)
        best = min(best, time.perf_counter() - start)
    return float(best) / n


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--runs", type=int, default=5, help="seeds (5)")


def run(args: argparse.Namespace) -> None:
    """Print all tables."""
    for kind in ("still", "abrupt", "all", "gradual"):
        compare(kind, args.runs)
    costs()
