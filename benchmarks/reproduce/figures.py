"""Heat maps of label correlations: ours next to those of the paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.data_sets import DataSet
from benchmarks.output import save_plot


def draw_correlations(folder: Path, pairs: Sequence[tuple[DataSet, NDArray[Any], ArrayLike]]) -> None:
    """Draw the mean correlations of each dataset next to the paper's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6 * len(pairs)), layout="constrained")
    axes = np.atleast_2d(figure.subplots(len(pairs), 2))
    for row, (data, found, printed) in zip(axes, pairs, strict=True):
        for place, values, title in zip(row, (found, np.asarray(printed)), ("found", "paper"), strict=True):
            image = _draw(place, values, [name[:14] for name in data.label_names], f"{data.name}, {title}")
    figure.colorbar(image, ax=axes, shrink=0.5)
    save_plot(figure, folder / "mlrl-correlations.svg")


def _draw(place: Any, values: NDArray[Any], labels: Sequence[str], title: str) -> Any:
    image = place.imshow(values, vmin=-1, vmax=1, cmap="RdBu")
    ticks = range(len(labels))
    place.set_xticks(ticks, labels, rotation=45, ha="right")
    place.set_yticks(ticks, labels)
    place.set_title(title)
    for (i, j), value in np.ndenumerate(values):
        place.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if abs(value) > 0.6 else "black")
    return image
