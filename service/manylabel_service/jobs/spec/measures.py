"""The measures of a result, over all labels and of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from manylabel_core.metrics.measures import MEASURES, REPORTED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Measure = str
else:
    Measure = Literal[REPORTED]
"""The names of `manylabel_core.metrics.measures.REPORTED`."""


def is_better(measure: Measure, one: float, other: float) -> bool:
    """Return whether the first of two values is better than the second."""
    return MEASURES[measure].is_better(one, other)


def measure(name: Measure, Y: Any, scores: NDArray[Any]) -> float:
    """Compute one measure.

    Parameters
    ----------
    name : one of `REPORTED`.
    Y : ndarray or CSR array of shape (n_samples, n_labels), the true labels, 0 and 1.
    scores : ndarray of shape (n_samples, n_labels); a label is predicted where it is above 0.
    """
    return MEASURES[name](Y, scores)


def all_measures(Y: Any, scores: NDArray[Any]) -> dict[str, float]:
    """Compute every measure; parameters as of `measure`."""
    return {name: measure(name, Y, scores) for name in REPORTED}


def baseline_measures(learnt: Any, Y: Any) -> dict[str, float]:
    """Compute every measure of predicting for each row of `Y` the labels that are frequent in the rows learnt.

    Both are ndarrays or CSR arrays of 0 and 1, of shape (n_samples, n_labels).
    """
    import numpy as np

    from manylabel_core.metrics.baseline import frequent_labels

    return all_measures(Y, np.tile(frequent_labels(learnt), (Y.shape[0], 1)))


def label_measures(Y: Any, scores: NDArray[Any], label_names: Sequence[str]) -> dict[str, dict[str, float | int]]:
    """Compute F1, precision, recall (0/0 is 0) and support of each label; parameters as of `measure`."""
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
