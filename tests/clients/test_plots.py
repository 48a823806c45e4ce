"""Plots show the detail of a version, with any names."""

import struct
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tests.support.cases import for_each

from manylabel_clients import ModelDetail, plots

HOSTILE = ("日本", "$x^2$", "--><script>", "a" * 200, "line\nbreak", "\u202eback")
"""Names that could break a plot."""


def detail_of(**parts: Any) -> ModelDetail:
    empty: dict[str, list[Any]] = {"iteration": [], "objective": [], "gap": [], "seconds": []}
    given = {
        "label_decisions": {},
        "label_scores": None,
        "label_correlation": None,
        "view_weights": None,
        "convergence": empty,
        **parts,
    }
    return ModelDetail(version=3, trainer="mlrl", params={}, **given)


def scores(f1: float, precision: float, recall: float, support: float) -> dict[str, float]:
    return {"f1": f1, "precision": precision, "recall": recall, "support": support}


def axes_of(figure: Figure) -> Axes:
    return figure.axes[0]


def names_of(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_scores_are_bars_and_marks_by_support() -> None:
    found = {"rare": scores(0.25, 0.2, 0.4, 3), "often": scores(0.75, 0.9, 0.6, 40), "also": scores(0.5, 0.5, 0.5, 3)}
    figure = plots.label_scores(detail_of(label_scores=found), "songs")
    axes = axes_of(figure)
    assert names_of(axes) == ["often  (40)", "also  (3)", "rare  (3)"]
    (bars,) = axes.containers
    assert [bar.get_width() for bar in bars] == [0.75, 0.5, 0.25]  # type: ignore[attr-defined]
    precision, recall = (np.asarray(line.get_xdata()).tolist() for line in axes.lines)
    assert (precision, recall) == ([0.9, 0.5, 0.2], [0.6, 0.5, 0.4])
    assert axes.get_xlim() == (0, 1)
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "the most frequent at the top"
    legend = axes.get_legend()
    assert legend is not None
    assert {text.get_text() for text in legend.get_texts()} == {"F1", "precision", "recall"}
    assert figure.get_suptitle() == "songs, version 3 (mlrl)"
    assert axes.get_title(loc="left") == "Scores of labels"


def test_only_the_most_frequent_of_many_labels_are_drawn() -> None:
    found = {f"label{n}": scores(0.5, 0.5, 0.5, n) for n in range(1000)}
    axes = axes_of(plots.label_scores(detail_of(label_scores=found)))
    assert names_of(axes) == [f"label{n}  ({n})" for n in range(999, 999 - plots.MAX_BARS, -1)]
    assert axes.get_title(loc="left") == f"Scores of labels (the most frequent {plots.MAX_BARS} of 1,000)"


def test_correlations_are_colours_between_minus_one_and_one() -> None:
    values = [[1.0, -0.5, 0.25], [-0.5, 1.0, 0.0], [0.25, 0.0, 1.0]]
    figure = plots.label_correlation(detail_of(label_correlation={"labels": ["a", "b", "c"], "values": values}))
    axes = axes_of(figure)
    (image,) = axes.images
    assert np.asarray(image.get_array()).tolist() == values
    assert image.get_clim() == (-1, 1)
    assert names_of(axes) == ["a", "b", "c"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert len(figure.axes) == 2, "the other is the scale of the colours"
    assert figure.get_suptitle() == "version 3 (mlrl)"


def test_only_the_most_correlated_of_many_labels_are_drawn() -> None:
    n_labels = plots.MAX_CELLS + 20
    values = np.eye(n_labels)
    for n in range(0, n_labels, 2):  # pairs; the later the closer
        values[n, n + 1] = values[n + 1, n] = (n + 1) / n_labels
    labels = [f"label{n}" for n in range(n_labels)]
    found = {"labels": labels, "values": values.tolist()}
    axes = axes_of(plots.label_correlation(detail_of(label_correlation=found)))
    assert names_of(axes) == labels[20:]
    assert np.asarray(axes.images[0].get_array()).tolist() == values[20:, 20:].tolist()
    assert f"the strongest {plots.MAX_CELLS} of {n_labels}" in axes.get_title(loc="left")


def test_weights_of_views_are_bars_with_their_numbers() -> None:
    axes = axes_of(plots.view_weights(detail_of(view_weights={"text": 0.25, "image": 0.75})))
    assert names_of(axes) == ["image", "text"]
    assert [bar.get_width() for bar in axes.containers[0]] == [0.75, 0.25]  # type: ignore[attr-defined]
    assert [text.get_text() for text in axes.texts] == ["0.75", "0.25"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "the heaviest at the top"


def test_convergence_has_an_axis_for_the_objective_and_one_for_the_gap() -> None:
    trace = {"iteration": [1, 2, 3, 4], "seconds": [0.1, 0.2, 0.3, 0.4]}
    trace |= {"objective": [5.0, None, 3.0, 2.5], "gap": [None, 0.5, 0.0, 1e-3]}
    figure = plots.convergence(detail_of(convergence=trace))
    left, right = figure.axes
    for axes, name, points in (
        (left, "objective", [[0.1, 5.0], [0.3, 3.0], [0.4, 2.5]]),
        (right, "relative gap", [[0.2, 0.5], [0.4, 1e-3]]),
    ):
        (line,) = axes.lines
        assert line.get_xydata().tolist() == points
        assert axes.get_ylabel() == name
        assert line.get_marker() == "o", "a curve of a few points is marked"
    assert (left.get_yscale(), right.get_yscale()) == ("linear", "log")
    assert left.get_title(loc="left") == "Convergence, 4 iterations"


def test_a_long_curve_is_thinned_and_a_fit_without_gaps_has_one_axis() -> None:
    n = 5 * plots.MAX_POINTS
    trace = {"iteration": list(range(n)), "seconds": [float(i) for i in range(n)], "objective": [1.0] * n}
    figure = plots.convergence(detail_of(convergence={**trace, "gap": [None] * n}))
    (axes,) = figure.axes
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == list(range(0, n, 5))
    assert axes.lines[0].get_marker() == ""


@for_each("kind", plots.KINDS)
def test_a_missing_part_of_the_detail_is_named(kind: str) -> None:
    with pytest.raises(ValueError, match=r"^version 3 has no "):
        plots.KINDS[kind](detail_of(), "songs")


@for_each("kind", plots.KINDS)
@pytest.mark.parametrize("ending", plots.FORMATS)
def test_every_plot_with_any_names_is_written_in_every_format(kind: str, ending: str, tmp_path: Path) -> None:
    n = len(HOSTILE)
    everything = detail_of(
        label_scores={name: scores(0.5, 0.5, 0.5, 3) for name in HOSTILE},
        label_correlation={"labels": list(HOSTILE), "values": np.eye(n).tolist()},
        view_weights=dict.fromkeys(HOSTILE, 1 / n),
        convergence={"iteration": [1], "objective": [1.0], "gap": [0.1], "seconds": [0.1]},
    )
    path = tmp_path / f"one.{ending}"
    plots.save(plots.KINDS[kind](everything, "".join(HOSTILE)), path)
    content = path.read_bytes()
    if ending == "png":
        width, height = struct.unpack(">II", content[16:24])
        assert 300 < width < 3000
        assert 100 < height < 3000
    elif ending == "svg":
        root = ElementTree.fromstring(content)  # noqa: S314 - our own
        assert {element.tag.rsplit("}", 1)[-1] for element in root.iter()}.isdisjoint({"script", "text"})
    else:
        assert content.startswith(b"%PDF")


@for_each("ending", plots.FORMATS)
def test_a_plot_is_the_same_again_and_with_capitals_in_the_extension(ending: str, tmp_path: Path) -> None:
    detail = detail_of(view_weights={"a": 0.25, "b": 0.75})
    paths = tmp_path / f"one.{ending}", tmp_path / f"two.{ending.upper()}"
    for path in paths:
        plots.save(plots.KINDS["view-weights"](detail, "songs"), path)
    one, two = (len(path.read_bytes()) for path in paths)
    assert one == two


def test_long_names_are_cut_and_missing_characters_are_boxes() -> None:
    found = {name: scores(0.5, 0.5, 0.5, 3) for name in HOSTILE}
    names = names_of(axes_of(plots.label_scores(detail_of(label_scores=found))))
    assert "□□  (3)" in names
    assert f"{'a' * (plots.MAX_NAME_CHARACTERS - 1)}…  (3)" in names
    assert "line□break  (3)" in names


@for_each("name", ["scores", "scores.gif", ".png"])
def test_another_extension_is_refused(name: str, tmp_path: Path) -> None:
    figure = plots.view_weights(detail_of(view_weights={"x": 1.0}))
    with pytest.raises(ValueError, match=r"must end in \.png, \.svg, \.pdf"):
        plots.save(figure, tmp_path / name)


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'manylabel\[plots\]'"):
        plots.view_weights(detail_of(view_weights={"x": 1.0}))
