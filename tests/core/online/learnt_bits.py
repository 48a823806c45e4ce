"""Prints what online learners learn from given streams, as digests: children of `test_processors` run it.

    python -m tests.core.online.learnt_bits STREAMS.npz [--all] [NAME ...]

The streams come from the parent, because NumPy's random numbers follow from functions of the C library.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks.same_bits import learners
from benchmarks.same_bits.digest import digest
from numpy.typing import NDArray
from tests.core.online.catalogue import LEARNERS

from manylabel_core._elementary import exp, log, sigmoid
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.rows import as_rows, as_targets

Arrays = dict[str, NDArray[Any]]
ELEMENTARY = "elementary functions"
STREAMS = ("dense", "sparse")
OPTIONS: dict[str, Callable[[], OnlineLearner]] = {
    "falt-macro": partial(LEARNERS["falt-stacked"], optimise="macro_f1"),
    "falt-restart": partial(LEARNERS["falt-stacked"], on_drift="restart"),
    "kernel-falt": partial(LEARNERS["kernel-falt-stacked"], gamma=None),
    "falt-titles": lambda: titled(LEARNERS["falt-stacked"](drift="adwin")),
}
"""Learners of the catalogue with other options that compute."""


def titled(learner: OnlineLearner) -> OnlineLearner:
    """Return the learner with titles of some labels: features are words."""
    learner.pipeline.grow(9, 5)
    learner.pipeline.set_titles({0: [0, 1], 1: [1, 2, 3], 3: [4]})
    learner.pipeline.link(np.arange(9), np.arange(9) % 5)
    return learner


def make_streams(n_samples: int) -> Arrays:
    """Return a dense and a sparse stream; half-way, labels come to mean the contrary."""
    rng = np.random.default_rng(0)
    dense, counts = rng.normal(size=(n_samples, 9)), rng.poisson(0.2, size=(n_samples, 40)).astype(float)
    arrays = {}
    for name, X in (("dense", dense), ("sparse", counts)):
        Y = (X @ rng.normal(size=(X.shape[1], 5)) + 0.3 * rng.normal(size=(n_samples, 5)) > 0.5).astype(int)
        Y[n_samples // 2 :, :2] = 1 - Y[n_samples // 2 :, :2]
        arrays |= {f"{name}/X": X, f"{name}/Y": Y}
    return arrays


def cases(every: bool) -> Iterator[tuple[str, Callable[[], OnlineLearner]]]:
    """Yield learners by name: those of the catalogue, or with every combination of options that is compared."""
    yield from {**LEARNERS, **OPTIONS}.items()
    if every:
        for name in learners.STEPS:
            for kind in learners.kinds(name):
                for option in learners.options(name, kind):
                    yield f"{name} { ({**kind, **option}) }", partial(learners.make, name, {**kind, **option})


def learnt_bits(make: Callable[[], OnlineLearner], X: Any, Y: NDArray[np.int64]) -> dict[str, str]:
    """Return digests of all that a learner computes from a stream."""
    learner = make()
    learner.set_params(drift="adwin")
    learner.pipeline.grow(X.shape[1], Y.shape[1])
    rows = as_rows(X, learner.dtype)[0]
    learnt = learner.pipeline.learn(rows, as_targets(Y), probabilities=bool(learner.calibrate))
    scores = learner.pipeline.score(rows)
    return {
        "scores": digest([learnt.scores, scores]),
        "probabilities": digest(
            [learnt.probabilities, learner.pipeline.probabilities(scores)] if learnt.probabilities is not None else []
        ),
        "alarms": digest([np.array(learnt.alarms, dtype=np.int64), *map(np.asarray, learner.alarms())]),
        "state": digest([array for _, array in sorted(learner.state().items())]),
    }


def elementary_bits(arguments: NDArray[np.float64]) -> dict[str, str]:
    """Return digests of the results of the elementary functions."""
    values = {
        "exp": [exp(x) for x in arguments],
        "log": [log(x) for x in np.abs(arguments)],
        "sigmoid": [sigmoid(x) for x in arguments],
    }
    return {name: digest(np.array(value)) for name, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("streams", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    arrays = np.load(args.streams)
    found: dict[str, Any] = {}
    if ELEMENTARY in args.names or not args.names:
        found[ELEMENTARY] = elementary_bits(arrays["dense/X"].ravel())
    for stream in STREAMS:
        X, Y = arrays[f"{stream}/X"], arrays[f"{stream}/Y"]
        for name, make in cases(args.all):
            if not args.names or name in args.names:
                try:
                    found[f"{name} {stream}"] = learnt_bits(make, sp.csr_array(X) if stream == "sparse" else X, Y)
                except ValueError as error:  # a combination that is not allowed
                    found[f"{name} {stream}"] = {"refused": type(error).__name__}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
