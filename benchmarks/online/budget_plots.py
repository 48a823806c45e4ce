"""The plots of `benchmarks budget`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def plot_orders(folder: Path | None, name: str, results: dict[str, dict[int, NDArray[np.float64]]]) -> None:
    """Plot F1 by budget: a line per contender with standard deviations, and a horizontal line for no budget."""
    if folder is None:
        return
    figure, axes = _figure(2)
    for at, measure in enumerate(("micro F1", "macro F1")):
        for label, by_budget in results.items():
            means = {budget: scores[:, at].mean() for budget, scores in by_budget.items()}
            if 0 in by_budget:
                axes[at].axhline(means[0], color="black", linestyle=":", label=label)
            else:
                spread = [scores[:, at].std() for scores in by_budget.values()]
                axes[at].errorbar(list(means), list(means.values()), spread, marker="o", capsize=2, label=label)
        axes[at].set(title=f"{name}, {measure}", xlabel="budget", xscale="log")
        axes[at].set_xticks(sorted({budget for by in results.values() for budget in by if budget}))
        axes[at].xaxis.set_major_formatter("{x:.0f}")
        axes[at].minorticks_off()
    axes[-1].legend(fontsize="small")
    _save(figure, folder / f"budget-{name}.png")


def plot_stream(folder: Path | None, results: dict[tuple[str, int], list[Any]]) -> None:
    """Plot F1, memory and time along the stream, in one file per budget."""
    if folder is None:
        return
    for shown in sorted({budget for _, budget in results if budget}):
        figure, axes = _figure(3)
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
        _save(figure, folder / f"budget-stream-{shown}.png")


def _figure(n_axes: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0 * n_axes, 4.5), layout="constrained")
    return figure, figure.subplots(1, n_axes)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"  wrote {path}")
