"""Explanations of a linear score: features of an example with the largest contributions to a label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NOT_LINEAR = "only linear models can be explained: this model does not have a weight for each feature and label"
"""Error for an explanation of a model that is not linear."""

TITLES_COUNT = "only linear models can be exported as weights: this model also uses titles of labels"
"""Error for the weights of a model that uses titles of labels."""

VECTORS_COUNT = "only models of plain features can be exported as weights: this model also uses vectors"
"""Error for the weights of a model that uses vectors."""

MAX_EXPLAINED_PARTS = 2**23
"""Maximum number of contributions examined for one example: its features times the explained labels."""


class NotLinear(ValueError):
    """The model does not have a weight for each feature and label."""

    def __init__(self, message: str = NOT_LINEAR) -> None:
        super().__init__(message)


class Explanation(NamedTuple):
    """Features with the largest positive and negative contributions to one label of one example.

    The score is the sum of the contributions, the title and the rest, up to rounding.
    """

    features: NDArray[np.int32]  # (n_listed,): columns, from the largest contribution to the smallest
    contributions: NDArray[np.float64]  # (n_listed,), in this order: above 0, then below 0
    rest: float  # constant, thresholds, features that are not listed, and features that the example lacks
    title: float = 0.0  # contribution of the words in the label's title; 0 without a title


class Scorer(NamedTuple):
    """Linear function of the scaled features of one example: a weight per feature, (n_values,), and a constant."""

    weights: NDArray[np.float64]
    constant: float


def explain_scores(
    given: NDArray[np.int32],
    scaled: tuple[NDArray[np.int32], NDArray[Any]],
    scorer: Callable[[int], Scorer],
    labels: Sequence[int],
    k: int,
) -> list[Explanation]:
    """Explain the scores of some labels for one example by at most k positive and k negative contributions per label.

    `scaled` has the columns and values that the model sees. Only columns in `given` are listed, the others count in the
    rest. Raises ValueError if features times labels exceed `MAX_EXPLAINED_PARTS`.
    """
    columns, values = scaled
    if len(columns) * len(labels) > MAX_EXPLAINED_PARTS:
        raise ValueError(
            f"{len(columns):,} features and {len(labels):,} labels are too many: an explanation examines at most "
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
