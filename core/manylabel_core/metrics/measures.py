"""Table of the metrics: name, title, meaning, input and direction, and whether streams have the metric.

A metric is imported when it is computed, so servers and commands can list them quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Measure:
    """Metric that compares true labels with predicted ones, or with their scores."""

    name: str  # function of `manylabel_core.metrics`, followed by the depth if it has one
    title: str  # name for display
    text: str  # description, a sentence or a noun phrase
    of_scores: bool = False  # whether it uses scores instead of predicted labels
    lower_is_better: bool = False
    by_label: bool = False  # whether it is a mean over labels; otherwise over examples or decisions
    depth: int | None = None  # number of best labels that it uses
    place: int | None = None  # place among the metrics of a stream that have a history, as `_prequential` computes them

    def __call__(self, Y: Any, scores: Any, sample_weight: Any = None) -> float:
        """Compute the metric of scores, (n_samples, n_labels); a label is predicted if its score is above 0."""
        function = getattr(import_module("manylabel_core.metrics"), self.name.removesuffix(f"_{self.depth}"))
        depth = {} if self.depth is None else {"k": self.depth}
        return float(function(Y, scores if self.of_scores else scores > 0, sample_weight, **depth))

    def is_better(self, one: float, other: float) -> bool:
        """Return whether the first of two values is better than the second."""
        return one < other if self.lower_is_better else one > other


DEPTHS = (1, 5, 10, 100)
"""The values of k in P@k, F1@k and NDCG@k."""

MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("micro_f1", "micro-F1", "Micro-averaged F1, over all decisions.", place=3),
        Measure("macro_f1", "macro-F1", "Macro-averaged F1, the mean over labels.", by_label=True, place=4),
        Measure("f1", "F1", "Harmonic mean of `precision` and `recall`.", place=2),
        Measure("example_f1", "example F1", "Mean over examples of the F1 of their labels."),
        Measure(
            "precision", "precision", "Mean over examples of the share of predicted labels that are relevant.", place=0
        ),
        Measure("recall", "recall", "Mean over examples of the share of relevant labels that are predicted.", place=1),
        Measure("subset_accuracy", "subset accuracy", "Share of examples with every decision right.", place=8),
        Measure(
            "hamming_loss",
            "Hamming loss",
            "Share of decisions that are wrong (Hamming loss).",
            lower_is_better=True,
            place=5,
        ),
        Measure(
            "average_precision",
            "average precision",
            "Mean over relevant labels of the share of relevant labels among those ranked no lower.",
            of_scores=True,
        ),
        Measure(
            "ranking_loss",
            "ranking loss",
            "Share of pairs of a relevant and an irrelevant label in the wrong order; ties are wrong.",
            of_scores=True,
            lower_is_better=True,
            place=7,
        ),
        Measure(
            "one_error",
            "one-error",
            "Share of examples whose highest scored label is wrong.",
            of_scores=True,
            lower_is_better=True,
            place=6,
        ),
        Measure(
            "coverage",
            "coverage",
            "Mean number of labels down to the last relevant one in the ranking.",
            of_scores=True,
            lower_is_better=True,
        ),
        Measure(
            "macro_auc", "macro-AUC", "Mean over labels of the area under the ROC curve.", of_scores=True, by_label=True
        ),
        *(
            Measure(
                f"{name}_{depth}",
                f"{title}@{depth}",
                f"{title}@{depth} is the {text.format('best label' if depth == 1 else f'{depth} best labels')}.",
                of_scores=True,
                depth=depth,
            )
            for name, title, text in (
                ("precision_at", "P", "mean share of the {} that is relevant, over the examples"),
                ("f1_at", "F1", "mean F1 of predicting the {}, over the examples"),
                (
                    "ndcg_at",
                    "NDCG",
                    "mean normalised discounted cumulative gain of the {}, over the examples with a relevant one",
                ),
            )
            for depth in DEPTHS
        ),
    )
}
"""All measures, by name."""

REPORTED: tuple[str, ...] = tuple(name for name in MEASURES if name != "f1")
"""Metrics reported for a trained model, without `f1`, which follows from precision and recall."""

_PLACES = {measure.place: name for name, measure in MEASURES.items() if measure.place is not None}

WITH_HISTORY: tuple[str, ...] = tuple(_PLACES[place] for place in range(len(_PLACES)))
"""Metrics of a stream that have a history, in the order in which `_prequential` computes them."""

STREAMED: tuple[str, ...] = (*WITH_HISTORY, *(name for name, measure in MEASURES.items() if measure.depth is not None))
"""All metrics of a stream, in that order."""
