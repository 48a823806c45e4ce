"""Figures of a version of a trained model from `Model.detail`, drawn with matplotlib (the extra ``plots``).

They do not use pyplot and its global state: `save` writes a figure to a file, and notebooks display it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manylabel_clients.http.responses import ModelDetail
from manylabel_extras import MissingExtra, require

require(__name__, "plots")

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
"""File extensions of the formats that a figure can be saved in."""

MAX_BARS = 40
"""Maximum number of labels in the plot of scores (those with the highest support), and of views in the plot of weights.
"""
MAX_CELLS = 60
"""Maximum number of labels in the plot of correlations. The plot has the labels with the strongest correlation to any
other label."""
MAX_POINTS = 2_000
"""Maximum number of points of a curve; longer curves are thinned evenly."""
MAX_NAME_CHARACTERS = 28
"""Maximum characters of a name; longer names are truncated."""
MAX_TITLE_CHARACTERS = 100
PIXELS_PER_INCH = 110

_BLUE, _ORANGE, _GREY, _INK = "#2f6f9f", "#d9822b", "#d5d9dd", "#2b2f33"
_MISSING = "\u25a1"


def label_scores(detail: ModelDetail, model: str | None = None) -> Figure:
    """Draw the F1 of each label as a bar, with marks for precision and recall, and the support next to the name.

    Parameters
    ----------
    detail : ModelDetail
        Result of `Model.detail`.
    model : str, optional
        Name of the model, for the title.

    Raises
    ------
    ValueError
        If there are no scores, because no rows were held out.
    ImportError
        If matplotlib is not installed.
    """
    if not detail.label_scores:
        raise ValueError(f"version {detail.version} has no scores of labels: no rows were held out from its training")
    by_support = sorted(detail.label_scores.items(), key=lambda item: (-item[1]["support"], item[0]))
    drawn = by_support[:MAX_BARS]
    figure, axes = _figure(7.5, 1.5 + 0.24 * len(drawn), detail, model)
    rows = np.arange(len(drawn))
    axes.barh(rows, [scores["f1"] for _, scores in drawn], color=_BLUE, height=0.62, label="F1")
    for measure, mark in (("precision", "|"), ("recall", "x")):
        values = [scores[measure] for _, scores in drawn]
        axes.plot(values, rows, mark, color=_ORANGE, markersize=7, markeredgewidth=1.8, label=measure, clip_on=False)
    names = [f"{_readable(label)}  ({scores['support']:.0f})" for label, scores in drawn]
    axes.set_yticks(rows, labels=names, parse_math=False)
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("on the rows held out")
    axes.grid(axis="x", color=_GREY, linewidth=0.6)
    axes.set_axisbelow(True)
    _title(axes, "Scores of labels", len(drawn), len(by_support), "the most frequent")
    # The legend is below the axes, at a distance in inches instead of a share of their height.
    below = -0.02 - 0.5 / figure.get_figheight()
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper right", bbox_to_anchor=(1, below))
    return figure


def label_correlation(detail: ModelDetail, model: str | None = None) -> Figure:
    """Draw the correlation of label weights, from blue (opposed) over white to orange (alike).

    Parameters are those of `label_scores`.

    Raises
    ------
    ValueError
        If the trainer does not learn label correlations (MLRL and SSMLRL do).
    ImportError
        If matplotlib is not installed.
    """
    if detail.label_correlation is None:
        raise ValueError(f"version {detail.version} has no correlations of labels: {detail.trainer} learns none")
    labels = detail.label_correlation["labels"]
    values = np.asarray(detail.label_correlation["values"], dtype=np.float64).reshape(len(labels), len(labels))
    strength = (np.abs(values) - np.eye(len(values))).max(axis=1, initial=0.0)
    drawn = np.sort(np.argsort(-strength, kind="stable")[:MAX_CELLS])
    names = [_readable(labels[column]) for column in drawn]
    side = 2.4 + 0.17 * len(names)
    figure, axes = _figure(side + 1.1, side + 0.6, detail, model)
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("correlation", [_BLUE, "#ffffff", _ORANGE])
    image = axes.imshow(values[np.ix_(drawn, drawn)], vmin=-1, vmax=1, cmap=colours, aspect="auto")
    axes.set_xticks(range(len(names)), labels=names, rotation=90, parse_math=False)
    axes.set_yticks(range(len(names)), labels=names, parse_math=False)
    axes.tick_params(length=0, labelsize=8)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    _title(axes, "How the weights of labels go together", len(names), len(labels), "the strongest")
    return figure


def view_weights(detail: ModelDetail, model: str | None = None) -> Figure:
    """Draw a bar for the weight of each view.

    Parameters are those of `label_scores`.

    Raises
    ------
    ValueError
        If the trainer has no views (LSA-MML has).
    ImportError
        If matplotlib is not installed.
    """
    if not detail.view_weights:
        raise ValueError(f"version {detail.version} has no weights of views: {detail.trainer} learns from one view")
    by_weight = sorted(detail.view_weights.items(), key=lambda item: -item[1])
    drawn = by_weight[:MAX_BARS]
    figure, axes = _figure(6.5, 1.6 + 0.32 * len(drawn), detail, model)
    rows = np.arange(len(drawn))
    axes.barh(rows, [weight for _, weight in drawn], color=_BLUE, height=0.62)
    for row, (_, weight) in enumerate(drawn):
        axes.annotate(
            f"{weight:.3g}", (weight, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_yticks(rows, labels=[_readable(view) for view, _ in drawn], parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("weight; all sum to 1")
    _title(axes, "Weights of views", len(drawn), len(by_weight), "the heaviest")
    return figure


def convergence(detail: ModelDetail, model: str | None = None) -> Figure:
    """Draw the objective, and the relative gap on a logarithmic scale, over the seconds of the fit.

    Parameters are those of `label_scores`.

    Raises
    ------
    ValueError
        If the fit has no trace.
    ImportError
        If matplotlib is not installed.
    """
    trace = detail.convergence
    if not trace["iteration"]:
        raise ValueError(f"version {detail.version} has no trace of its fit")
    figure, axes = _figure(7.0, 4.2, detail, model)
    step = max(1, len(trace["seconds"]) // MAX_POINTS)
    # A trainer without an objective or a gap has null in JSON, which is NaN here.
    seconds, objective, gap = (
        np.array(trace[name], dtype=np.float64)[::step] for name in ("seconds", "objective", "gap")
    )
    _curve(axes, seconds, objective, np.isfinite(objective), "objective", _BLUE)
    axes.set_xlabel("seconds")
    axes.grid(color=_GREY, linewidth=0.6)
    positive = np.isfinite(gap) & (gap > 0)
    if positive.any():
        beside = axes.twinx()
        beside.spines[["top", "left"]].set_visible(False)
        beside.set_yscale("log")
        _curve(beside, seconds, gap, positive, "relative gap", _ORANGE)
    _title(axes, f"Convergence, {trace['iteration'][-1]:,} iterations")
    return figure


KINDS: dict[str, Callable[[ModelDetail, str | None], Figure]] = {
    "label-scores": label_scores,
    "label-correlation": label_correlation,
    "view-weights": view_weights,
    "convergence": convergence,
}
"""Plots by name on the command line."""


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure to a file, in the format of its extension.

    Raises
    ------
    ValueError
        If the extension is not in `FORMATS`.
    OSError
        If the file cannot be written.
    """
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise ValueError(f"the name of a picture must end in .{', .'.join(FORMATS)}, not {str(path)!r}")
    # Without a date, the same figure has the same bytes.
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
    figure.savefig(path, format=ending, dpi=PIXELS_PER_INCH, metadata=undated)


def _figure(width: float, height: float, detail: ModelDetail, model: str | None) -> tuple[Figure, Axes]:
    """Return a figure of `width` by `height` inches with a title, and the axes of the figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra(__name__, "plots") from error
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    version = f"version {detail.version} ({detail.trainer})"
    title = _readable(version if model is None else f"{model}, {version}", MAX_TITLE_CHARACTERS)
    figure.suptitle(title, fontsize=11, color=_INK, parse_math=False)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(_GREY)
    axes.tick_params(labelsize=9, color=_GREY)
    return figure, axes


def _curve(axes: Axes, x: Any, y: Any, is_drawn: Any, name: str, colour: str) -> None:
    """Draw points as a line; few points are marked, because a single one would be invisible."""
    marker = "o" if is_drawn.sum() <= 12 else ""
    axes.plot(x[is_drawn], y[is_drawn], color=colour, linewidth=1.6, marker=marker)
    axes.set_ylabel(name, color=colour)


def _title(axes: Axes, text: str, n_drawn: int = 0, n_all: int = 0, which: str = "") -> None:
    part = f" ({which} {n_drawn} of {n_all:,})" if n_all > n_drawn else ""
    axes.set_title(text + part, fontsize=10, loc="left", color=_INK)


def _readable(name: str, max_characters: int = MAX_NAME_CHARACTERS) -> str:
    """Return a name that can be drawn: truncated, and without characters that the font lacks."""
    cut = name if len(name) <= max_characters else f"{name[: max_characters - 1]}…"
    drawable = _characters_of_the_font()
    return "".join(character if ord(character) in drawable else _MISSING for character in cut)


@cache
def _characters_of_the_font() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(code for code in get_font(findfont("DejaVu Sans")).get_charmap() if code >= 32)
