"""The plot of `benchmarks text`."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.output import save_plot

WINDOW = 1_000


def plot_curves(folder: Path, Y: NDArray[np.int8], predicted: dict[str, NDArray[np.int8]]) -> None:
    """Draw micro-F1 of the latest rows along the stream, a line for each online learner."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axis = figure.subplots()
    for name, rows in predicted.items():
        axis.plot(np.arange(1, len(rows) + 1)[50:], windowed_micro_f1(Y[: len(rows)], rows)[50:], label=name)
    axis.set(title=f"debtags: micro-F1 of the latest {WINDOW:,} packages", xlabel="packages")
    axis.set_ylim(0.0, 1.0)
    axis.legend(fontsize="small")
    save_plot(figure, folder / "text.png")


def windowed_micro_f1(Y: NDArray[np.int8], P: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the micro-F1 of each row and up to `WINDOW` - 1 before it."""
    hits, total = (Y * P).sum(axis=1), Y.sum(axis=1) + P.sum(axis=1)
    sums = [np.cumsum(count, dtype=np.float64) for count in (2 * hits, total)]
    latest = [s - np.concatenate([np.zeros(WINDOW), s[:-WINDOW]])[: len(s)] for s in sums]
    return latest[0] / np.maximum(latest[1], 1.0)
