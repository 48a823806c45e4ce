"""Seeded data to time a fit of LSA-MML: three dense views of one hidden representation, and many labels."""

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from manylabel_core.batch import LSAMML

HIDDEN, N_LABELS, N_COMPONENTS, ITERATIONS = 100, 260, 100, 30
WIDTHS = {"sift": 1_000, "gist": 512, "hue": 100}
"""Widths of the views, as in the paper: ESP Game has 20,770 examples, these views and 268 labels."""


class Seen(NamedTuple):
    """Views, labels (0 and 1), and a mask of labelled examples."""

    X: dict[str, NDArray[np.float64]]
    Y: NDArray[np.int8]
    labelled: NDArray[np.bool_]


def seen(n: int, seed: int) -> Seen:
    """Return examples of which half are labelled, with 4.7 labels on average."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, HIDDEN)) / HIDDEN**0.5
    X = {name: hidden @ rng.normal(size=(HIDDEN, d)) + rng.normal(size=(n, d)) for name, d in WIDTHS.items()}
    scores = hidden @ rng.normal(size=(HIDDEN, N_LABELS)) + 0.5 * rng.normal(size=(n, N_LABELS))
    return Seen(X, (scores > 2.35).astype(np.int8), rng.random(n) < 0.5)


def seconds(data: Seen, n_threads: int) -> tuple[float, float, LSAMML]:
    """Return the wall-clock and CPU seconds of this number of iterations, including start and thresholds, and the
    model.
    """
    model = LSAMML(
        n_components=N_COMPONENTS, max_iter=ITERATIONS, tol=1e-12, n_threads=n_threads, optimise="none", scaling="none"
    )

    def progress(step: Any) -> None:
        if step.iteration % 10 == 0:
            print(f"  iteration {step.iteration:3}: {step.seconds:6.1f} s, last gain {step.gap:.1e}", flush=True)

    began, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*data, progress=progress)
    return time.perf_counter() - began, time.process_time() - worked, model
