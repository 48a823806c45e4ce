"""Metrics of a result, over all labels and per label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from manylabel_core.metrics.measures import MEASURES, REPORTED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Measure = str
    """A name of `manylabel_core.metrics.measures.REPORTED`."""
    Weights = NDArray[np.float64] | None
else:
    Measure = Literal[REPORTED]


def all_measures(Y: Any, scores: NDArray[Any], weights: Weights = None) -> dict[str, float]:
    """Compute every metric.

    Parameters
    ----------
    Y : ndarray or CSR array of shape (n_samples, n_labels), the true labels, 0 and 1.
    scores : ndarray of shape (n_samples, n_labels); a label is predicted if its score is above 0.
    weights : ndarray of shape (n_samples,), float64, weights of the rows; None: 1.
    """
    return {name: MEASURES[name](Y, scores, weights) for name in REPORTED}


def baseline_measures(learnt: Any, Y: Any, learnt_weights: Weights = None, weights: Weights = None) -> dict[str, float]:
    """Compute every metric of the baseline, which predicts for each row of `Y` the labels that are frequent in the
    training rows.

    Both are ndarrays or CSR arrays of 0 and 1, shape (n_samples, n_labels), with weights as in `all_measures`.
    """
    import numpy as np

    from manylabel_core.metrics.baseline import frequent_labels

    return all_measures(Y, np.tile(frequent_labels(learnt, learnt_weights), (Y.shape[0], 1)), weights)


def label_measures(
    Y: Any, scores: NDArray[Any], label_names: Sequence[str], weights: Weights = None
) -> dict[str, dict[str, float | int]]:
    """Compute F1, precision, recall (0/0 is 0) and support of each label; parameters as in `all_measures`.

    The support is a number of rows, regardless of weights.
    """
    import numpy as np
    import scipy.sparse as sp

    relevant: Any = sp.csr_array(Y, dtype=np.int64)
    found: Any = sp.csr_array(scores > 0, dtype=np.int64)
    hits = relevant.multiply(found)
    support = relevant.sum(axis=0).tolist()
    sums = [matrix.sum(axis=0) if weights is None else weights @ matrix for matrix in (hits, found, relevant)]
    counts = zip(label_names, support, *(each.tolist() for each in sums), strict=True)
    return {
        name: {
            "f1": _ratio(2 * n_hits, n_found + n_true),
            "precision": _ratio(n_hits, n_found),
            "recall": _ratio(n_hits, n_true),
            "support": n_rows,
        }
        for name, n_rows, n_hits, n_found, n_true in counts
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
