"""Table of the batch metrics: name, input and direction of each.

Nothing here loads a measure before it is computed, so that a server or a command may list them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Measure:
    """Metric that compares true labels with predicted ones, or with their scores.

    Attributes
    ----------
    name : str
        The function of `manylabel_core.metrics`, with the depth at its end if it has one.
    title : str
        Name for display.
    of_scores : bool
        Whether it looks at scores; the others look at predicted labels.
    lower_is_better : bool
    by_label : bool
        Whether it is a mean over labels, so that each of them counts the same; else over examples or decisions.
    depth : int or None
        The number of best labels that it looks at.
    """

    name: str
    title: str
    of_scores: bool = False
    lower_is_better: bool = False
    by_label: bool = False
    depth: int | None = None

    def __call__(self, Y: Any, scores: Any, sample_weight: Any = None) -> float:
        """Compute the metric of scores of shape (n_samples, n_labels); a label is predicted if its score is above 0.

        `sample_weight` says how often each row counts, of shape (n_samples,); None is once.
        """
        function = getattr(import_module("manylabel_core.metrics"), self.name.removesuffix(f"_{self.depth}"))
        depth = {} if self.depth is None else {"k": self.depth}
        return float(function(Y, scores if self.of_scores else scores > 0, sample_weight, **depth))

    def is_better(self, one: float, other: float) -> bool:
        """Return whether the first of two values is better than the second."""
        return one < other if self.lower_is_better else one > other


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("micro_f1", "micro-F1"),
        Measure("macro_f1", "macro-F1", by_label=True),
        Measure("f1", "F1"),
        Measure("example_f1", "example F1"),
        Measure("precision", "precision"),
        Measure("recall", "recall"),
        Measure("subset_accuracy", "subset accuracy"),
        Measure("hamming_loss", "Hamming loss", lower_is_better=True),
        Measure("average_precision", "average precision", of_scores=True),
        Measure("ranking_loss", "ranking loss", of_scores=True, lower_is_better=True),
        Measure("one_error", "one-error", of_scores=True, lower_is_better=True),
        Measure("coverage", "coverage", of_scores=True, lower_is_better=True),
        Measure("macro_auc", "macro-AUC", of_scores=True, by_label=True),
        *(
            Measure(f"{name}_{depth}", f"{title}@{depth}", of_scores=True, depth=depth)
            for name, title in (("precision_at", "P"), ("f1_at", "F1"), ("ndcg_at", "NDCG"))
            for depth in (1, 5, 10, 100)
        ),
    )
}
"""All measures, by name."""

REPORTED: tuple[str, ...] = tuple(name for name in MEASURES if name != "f1")
"""Metrics reported for a trained model; `f1` follows from precision and recall."""
