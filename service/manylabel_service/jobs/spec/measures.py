"""The measures of a result: which there are, and which way is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from numpy.typing import NDArray

Measure = Literal[
    "micro_f1",
    "macro_f1",
    "example_f1",
    "precision",
    "recall",
    "subset_accuracy",
    "hamming_loss",
    "average_precision",
    "ranking_loss",
    "one_error",
    "coverage",
    "macro_auc",
]
"""Functions of `manylabel_core.metrics`."""

MEASURES: tuple[Measure, ...] = get_args(Measure)
_OF_SCORES = frozenset(("average_precision", "ranking_loss", "one_error", "coverage", "macro_auc"))
_LOWER_IS_BETTER = frozenset(("hamming_loss", "ranking_loss", "one_error", "coverage"))


def is_better(measure: Measure, one: float, other: float) -> bool:
    """Whether the first of two values is better than the second."""
    return one < other if measure in _LOWER_IS_BETTER else one > other


def measure(name: Measure, Y: Any, scores: NDArray[Any]) -> float:
    """One measure.

    Parameters
    ----------
    name : one of `MEASURES`.
    Y : ndarray or CSR array of shape (n_samples, n_labels), the true labels, 0 and 1.
    scores : ndarray of shape (n_samples, n_labels); a label is predicted where it is above 0.
    """
    from manylabel_core import metrics

    function: Callable[[Any, Any], float] = getattr(metrics, name)
    return function(Y, scores if name in _OF_SCORES else scores > 0)


def all_measures(Y: Any, scores: NDArray[Any]) -> dict[str, float]:
    """Every measure; parameters as of `measure`."""
    return {name: measure(name, Y, scores) for name in MEASURES}


def label_measures(Y: Any, scores: NDArray[Any], label_names: Sequence[str]) -> dict[str, dict[str, float | int]]:
    """F1, precision, recall (0/0 is 0) and support of each label; parameters as of `measure`."""
    import numpy as np
    import scipy.sparse as sp

    relevant: Any = sp.csr_array(Y, dtype=np.int64)
    found: Any = sp.csr_array(scores > 0, dtype=np.int64)
    hits = relevant.multiply(found)
    counts: Any = zip(*(matrix.sum(axis=0).tolist() for matrix in (hits, found, relevant)), strict=True)
    return {
        name: {
            "f1": _ratio(2 * n_hits, n_found + support),
            "precision": _ratio(n_hits, n_found),
            "recall": _ratio(n_hits, support),
            "support": support,
        }
        for name, (n_hits, n_found, support) in zip(label_names, counts, strict=True)
    }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
