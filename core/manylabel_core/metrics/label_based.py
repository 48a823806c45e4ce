"""Measures that look at one label at a time, or pool all of them.

`Y` are the true and `P` the predicted labels: 0 and 1, ndarray or sparse, of shape (n_samples, n_labels);
`scores` is an ndarray of the same shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from manylabel_core.checks import is_sparse
from manylabel_core.metrics.inputs import as_pair, as_scored, mean, outcomes, ratio, scored_blocks
from manylabel_core.metrics.ranking import sort_by_score


def micro_f1(Y: Any, P: Any) -> float:
    """Return the F1 of all decisions taken together.

    scikit-learn: `f1_score(average="micro", zero_division=0)`.

    Examples
    --------
    >>> micro_f1([[1, 0], [1, 1]], [[1, 1], [1, 0]])
    0.6666666666666666
    """
    tp, fp, fn = (float(counts.sum()) for counts in outcomes(*as_pair(Y, P), axis=0))
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0


def macro_f1(Y: Any, P: Any) -> float:
    """Return the mean of the F1 of each label; one that is never true and never predicted counts 0.

    scikit-learn: `f1_score(average="macro", zero_division=0)`.

    Examples
    --------
    >>> macro_f1([[1, 0], [1, 1]], [[1, 1], [1, 0]])
    0.5
    """
    tp, fp, fn = outcomes(*as_pair(Y, P), axis=0)
    return mean(ratio(2 * tp, 2 * tp + fp + fn))


def macro_auc(Y: Any, scores: ArrayLike) -> float:
    """Return the mean over the labels of the area under the ROC curve; a tie counts one half.

    Only labels with both classes have a curve, so the mean is over those; 0.0 when there is none.
    scikit-learn: `roc_auc_score(average="macro")`, equal if every label has both classes; else it gives NaN.

    Examples
    --------
    >>> macro_auc([[1, 0], [0, 0], [1, 0]], [[0.9, 0.1], [0.5, 0.2], [0.5, 0.3]])
    0.75
    """
    Y, scores = as_scored(Y, scores)
    by_label: Any = sp.csr_array(Y.T) if is_sparse(Y) else Y.T
    areas = [np.zeros(0)]
    for relevant, values in scored_blocks(by_label, scores.T):
        ranking = sort_by_score(relevant, values)
        below = ranking.start - ranking.take(ranking.start)
        tied = ranking.stop - ranking.take(ranking.stop) - below
        pairs = ranking.n_relevant * (values.shape[1] - ranking.n_relevant)
        won = ((below + tied / 2) * ranking.relevant).sum(axis=1)
        areas.append(won[pairs > 0] / pairs[pairs > 0])
    return mean(np.concatenate(areas))
