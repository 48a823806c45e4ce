"""LSA-MML's seeded data for the speed of a fit: three dense views of one hidden representation, and many labels."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from manylabel_core.batch import LSAMML

HIDDEN, N_LABELS, N_COMPONENTS, ITERATIONS = 100, 260, 100, 30
WIDTHS = {"sift": 1_000, "gist": 512, "hue": 100}
"""As in the paper: ESP Game has 20,770 examples, these views and 268 labels."""


class Seen(NamedTuple):
    """Views, labels of 0 and 1, and which examples are labelled."""

    X: dict[str, NDArray[np.float64]]
    Y: NDArray[np.int8]
    labelled: NDArray[np.bool_]


def seen(n: int, seed: int) -> Seen:
    """Half of the examples are labelled, with 4.7 labels on average."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, HIDDEN)) / HIDDEN**0.5
    X = {name: hidden @ rng.normal(size=(HIDDEN, d)) + rng.normal(size=(n, d)) for name, d in WIDTHS.items()}
    scores = hidden @ rng.normal(size=(HIDDEN, N_LABELS)) + 0.5 * rng.normal(size=(n, N_LABELS))
    return Seen(X, (scores > 2.35).astype(np.int8), rng.random(n) < 0.5)


def seconds(data: Seen, n_threads: int) -> tuple[float, float, LSAMML]:
    """Of so many iterations, start and thresholds included, by the clock and of the processor; and the model."""
    model = LSAMML(n_components=N_COMPONENTS, max_iter=ITERATIONS, tol=1e-12, n_threads=n_threads, optimise="none")

    def progress(step: Any) -> None:
        if step.iteration % 10 == 0:
            print(f"  iteration {step.iteration:3}: {step.seconds:6.1f} s, last gain {step.gap:.1e}", flush=True)

    began, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*data, progress=progress)
    return time.perf_counter() - began, time.process_time() - worked, model
