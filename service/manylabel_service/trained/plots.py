"""What there is to see of a version, as pictures.

Drawn with figures of their own, without pyplot and its global state. The fonts and their caches are shared all the
same, so one picture is drawn at a time.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from manylabel_service.trained.detail import Detail

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["png", "svg"]

MAX_BARS = 40
"""Labels in the plot of their scores: of more, those with the highest support."""
MAX_CELLS = 60
"""Labels in the plot of correlations: of more, those that go together most, with any other."""
MAX_VIEWS = 40
MAX_POINTS = 2_000
"""Points of a curve; of more, every so many."""
LABEL_CHARACTERS = 28
"""A longer name is cut."""
PIXELS_PER_INCH = 110

_BLUE, _ORANGE, _GREY, _INK = "#2f6f9f", "#d9822b", "#d5d9dd", "#2b2f33"
_MISSING = "\u25a1"

_turn = threading.Lock()


def draw(kind: str, name: str, detail: Detail, form: Format) -> bytes | None:
    """A picture of a version of model `name`; None where it has nothing of the kind to show.

    Parameters
    ----------
    kind : one of `KINDS`.
    form : of the file.
    """
    with _turn:
        figure = KINDS[kind](detail)
        if figure is None:
            return None
        figure.suptitle(
            _readable(f"{name}, version {detail.version.number} ({detail.version.meta.trainer})", 100),
            fontsize=11,
            color=_INK,
            parse_math=False,
        )
        file = io.BytesIO()
        figure.savefig(file, format=form, dpi=PIXELS_PER_INCH, metadata={"Date": None} if form == "svg" else None)
        return file.getvalue()


def _label_scores(detail: Detail) -> Figure | None:
    """F1 of each label as a bar, precision and recall as marks, support in grey beside the name."""
    if not detail.label_scores:
        return None
    by_support = sorted(detail.label_scores.items(), key=lambda item: (-item[1]["support"], item[0]))
    shown = by_support[:MAX_BARS]
    names = [f"{_readable(label)}  ({scores['support']:.0f})" for label, scores in shown]
    figure, axes = _axes(7.5, 1.5 + 0.24 * len(shown))
    rows = np.arange(len(shown))
    axes.barh(rows, [scores["f1"] for _, scores in shown], color=_BLUE, height=0.62, label="F1")
    for measure, mark in (("precision", "|"), ("recall", "x")):
        values = [scores[measure] for _, scores in shown]
        axes.plot(values, rows, mark, color=_ORANGE, markersize=7, markeredgewidth=1.8, label=measure, clip_on=False)
    axes.set_yticks(rows, labels=names, parse_math=False)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("on the rows held out")
    axes.grid(axis="x", color=_GREY, linewidth=0.6)
    axes.set_axisbelow(True)
    _title(axes, "Scores of labels", len(shown), len(by_support), "the most frequent")
    _legend(axes)
    return figure


def _label_correlation(detail: Detail) -> Figure | None:
    """A matrix of colours, from blue (never together) over white to orange (together)."""
    if detail.label_correlation is None:
        return None
    labels, values = detail.label_correlation.labels, detail.label_correlation.values
    strength = (np.abs(values) - np.eye(len(values))).max(axis=1, initial=0.0)
    chosen = np.sort(np.argsort(-strength, kind="stable")[:MAX_CELLS])
    names = [_readable(labels[column]) for column in chosen]
    side = 2.4 + 0.17 * len(names)
    figure, axes = _axes(side + 1.1, side + 0.6)
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("correlation", [_BLUE, "#ffffff", _ORANGE])
    image = axes.imshow(values[np.ix_(chosen, chosen)], vmin=-1, vmax=1, cmap=colours, aspect="auto")
    axes.set_xticks(range(len(names)), labels=names, rotation=90, parse_math=False)
    axes.set_yticks(range(len(names)), labels=names, parse_math=False)
    axes.tick_params(length=0, labelsize=8)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    _title(axes, "How the weights of labels go together", len(names), len(labels), "the strongest")
    return figure


def _view_weights(detail: Detail) -> Figure | None:
    """A bar for each view."""
    if not detail.view_weights:
        return None
    heaviest = sorted(detail.view_weights.items(), key=lambda item: -item[1])
    shown = heaviest[:MAX_VIEWS]
    figure, axes = _axes(6.5, 1.6 + 0.32 * len(shown))
    rows = np.arange(len(shown))
    axes.barh(rows, [weight for _, weight in shown], color=_BLUE, height=0.62)
    for row, (_, weight) in zip(rows, shown, strict=True):
        axes.annotate(
            f"{weight:.3g}", (weight, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_yticks(rows, labels=[_readable(view) for view, _ in shown], parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("weight; all sum to 1")
    _title(axes, "Weights of views", len(shown), len(heaviest), "the heaviest")
    return figure


def _convergence(detail: Detail) -> Figure | None:
    """Objective and relative gap over the seconds of the fit."""
    trace = detail.convergence
    if not trace.iteration:
        return None
    step = max(1, len(trace.seconds) // MAX_POINTS)
    seconds = np.array(trace.seconds)[::step]
    figure, axes = _axes(7.0, 4.2)
    objective = np.array(trace.objective)[::step]
    sound = np.isfinite(objective)
    axes.plot(seconds[sound], objective[sound], color=_BLUE, linewidth=1.6, marker=_marker(sound))
    axes.set_xlabel("seconds")
    axes.set_ylabel("objective", color=_BLUE)
    axes.grid(color=_GREY, linewidth=0.6)
    gap = np.array(trace.gap)[::step]
    sound = np.isfinite(gap) & (gap > 0)
    if sound.any():
        beside = axes.twinx()
        beside.spines[["top", "left"]].set_visible(False)
        beside.set_yscale("log")
        beside.plot(seconds[sound], gap[sound], color=_ORANGE, linewidth=1.6, marker=_marker(sound))
        beside.set_ylabel("relative gap", color=_ORANGE)
    _title(axes, f"Convergence, {trace.iteration[-1]:,} iterations", 0, 0, "")
    return figure


KINDS: dict[str, Callable[[Detail], Figure | None]] = {
    "label-scores": _label_scores,
    "label-correlation": _label_correlation,
    "view-weights": _view_weights,
    "convergence": _convergence,
}
"""What can be drawn."""


def _axes(width: float, height: float) -> tuple[Figure, Any]:
    """A figure of so many inches and its axes."""
    from matplotlib.figure import Figure  # late: it takes half a second, and most servers never draw

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(_GREY)
    axes.tick_params(labelsize=9, color=_GREY)
    return figure, axes


def _title(axes: Any, text: str, shown: int, there: int, which: str) -> None:
    part = f" ({which} {shown} of {there:,})" if there > shown else ""
    axes.set_title(text + part, fontsize=10, loc="left", color=_INK)


def _legend(axes: Any) -> None:
    axes.legend(
        fontsize=8,
        frameon=False,
        ncols=3,
        loc="upper right",
        bbox_to_anchor=(1, -0.02 - 0.5 / axes.figure.get_figheight()),
    )


def _marker(points: Any) -> str:
    """A few points are marked; a curve of one would not be seen otherwise."""
    return "o" if points.sum() <= 12 else ""


def _readable(name: str, most: int = LABEL_CHARACTERS) -> str:
    """A name that can be drawn: not too long, and without what the font lacks."""
    cut = name if len(name) <= most else f"{name[: most - 1]}…"
    drawn = _drawn_characters()
    return "".join(character if ord(character) in drawn else _MISSING for character in cut)


@cache
def _drawn_characters() -> Iterable[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(code for code in get_font(findfont("DejaVu Sans")).get_charmap() if code >= 32)
