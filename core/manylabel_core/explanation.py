"""Explanations of a linear score: which features of an example speak for a label, and which against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NOT_LINEAR = "only linear models can be explained: this one has no weight for each feature and label"
"""The message where an explanation is asked of any other model."""

TITLES_COUNT = "only linear models can be written as weights: this one also uses titles of labels"
"""The message where the weights are asked of a model in which titles of labels count."""

VECTORS_COUNT = "only models of plain features can be written as weights: this one also takes vectors"
"""The message where the weights are asked of a model that takes vectors."""

MAX_EXPLAINED_PARTS = 2**23
"""Maximum number of contributions examined for one example: its features times the explained labels."""


class NotLinear(ValueError):
    """A model has no weight for each feature and label."""

    def __init__(self, message: str = NOT_LINEAR) -> None:
        super().__init__(message)


class Explanation(NamedTuple):
    """Features with the largest positive and negative contributions to one label of one example.

    The score is the sum of the contributions, of the title and of the rest, to rounding.

    Attributes
    ----------
    features : ndarray of shape (n_listed,), int32
        Columns, from the one that speaks most for the label to the one that speaks most against it.
    contributions : ndarray of shape (n_listed,), float64
        How much each adds to the score, in this order: above 0, then below 0.
    rest : float
        All else: the constant, thresholds, the features that are not listed, and those that the example lacks.
    title : float
        Contribution of the words of the label's title to the score; 0 without a title.
    """

    features: NDArray[np.int32]
    contributions: NDArray[np.float64]
    rest: float
    title: float = 0.0


class Scorer(NamedTuple):
    """Linear function of the scaled features of one example.

    Attributes
    ----------
    weights : ndarray of shape (n_values,), float64
        Weights of the features of the example, in their order.
    constant : float
    """

    weights: NDArray[np.float64]
    constant: float


def explain_scores(
    given: NDArray[np.int32],
    scaled: tuple[NDArray[np.int32], NDArray[Any]],
    scorer: Callable[[int], Scorer],
    labels: Sequence[int],
    k: int,
) -> list[Explanation]:
    """Explain the scores of some labels for one example.

    Parameters
    ----------
    given : ndarray of shape (n_given,), int32
        The columns that the example has. Others, which a scaling has filled in, count in the rest.
    scaled : columns and values
        The example as the model sees it; columns are unique.
    scorer : of a label
    labels : columns of labels
    k : int
        The most features listed for a label, and the most against it.

    Raises
    ------
    ValueError
        If there is more to look through than `MAX_EXPLAINED_PARTS`.
    """
    columns, values = scaled
    if len(columns) * len(labels) > MAX_EXPLAINED_PARTS:
        raise ValueError(
            f"{len(columns):,} features and {len(labels):,} labels are too much: an explanation looks through at most "
            f"{MAX_EXPLAINED_PARTS:,} pairs of a feature and a label"
        )
    own = np.isin(columns, given)
    values = values.astype(np.float64)
    explanations = []
    for label in labels:
        weights, constant = scorer(label)
        parts = values * weights
        listed = _strongest(np.where(own, parts, 0.0), k)
        others = np.ones(len(parts), dtype=np.bool_)
        others[listed] = False
        explanations.append(Explanation(columns[listed], parts[listed], constant + float(parts[others].sum())))
    return explanations


def _strongest(parts: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Return the indices of the k largest positive and the k smallest negative parts, by decreasing size."""
    found = np.arange(len(parts))
    if len(parts) > 2 * k:
        order = np.argpartition(parts, (k - 1, len(parts) - k))
        found = np.sort(np.concatenate([order[:k], order[len(parts) - k :]]))
    found = found[parts[found] != 0.0]
    found = found[np.argsort(-parts[found], kind="stable")]
    above = int(np.count_nonzero(parts[found] > 0.0))
    return np.concatenate([found[: min(above, k)], found[max(above, len(found) - k) :]])
