"""Example-based metrics: means over the examples.

`Y` are the true and `P` the predicted labels: 0 and 1, ndarray or sparse, of shape (n_samples, n_labels).
`sample_weight` has the weights of the examples, (n_samples,): above 0, at most 1,000; None is 1.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from manylabel_core.metrics.inputs import as_pair, mean, outcomes, ratio, weights_of


def precision(Y: Any, P: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean share of the predicted labels that are true.

    scikit-learn: `precision_score(average="samples", zero_division=0)`.

    Examples
    --------
    >>> precision([[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [1, 0, 0]])
    0.75
    """
    tp, fp, _ = outcomes(*as_pair(Y, P), axis=1)
    return mean(ratio(tp, tp + fp), weights_of(sample_weight, tp))


def recall(Y: Any, P: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean share of the true labels that are predicted.

    scikit-learn: `recall_score(average="samples", zero_division=0)`.

    Examples
    --------
    >>> recall([[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [1, 0, 0]])
    0.75
    """
    tp, _, fn = outcomes(*as_pair(Y, P), axis=1)
    return mean(ratio(tp, tp + fn), weights_of(sample_weight, tp))


def f1(Y: Any, P: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the F1 of the mean precision and the mean recall, 2PR / (P + R), as defined in the FALT paper.

    This is not the mean of the examples' F1 (`example_f1`). scikit-learn does not have this metric.

    Examples
    --------
    >>> f1([[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [1, 0, 0]])
    0.75
    """
    tp, fp, fn = outcomes(*as_pair(Y, P), axis=1)
    weights = weights_of(sample_weight, tp)
    p, r = mean(ratio(tp, tp + fp), weights), mean(ratio(tp, tp + fn), weights)
    return 2 * p * r / (p + r) if p + r else 0.0


def example_f1(Y: Any, P: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean of the F1 of each example.

    scikit-learn: `f1_score(average="samples", zero_division=0)`.

    Examples
    --------
    >>> round(example_f1([[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [1, 0, 0]]), 3)
    0.667
    """
    tp, fp, fn = outcomes(*as_pair(Y, P), axis=1)
    return mean(ratio(2 * tp, 2 * tp + fp + fn), weights_of(sample_weight, tp))


def hamming_loss(Y: Any, P: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the share of wrong decisions, with one decision per example and label.

    scikit-learn: `hamming_loss`.

    Examples
    --------
    >>> hamming_loss([[1, 0], [1, 1]], [[1, 1], [1, 1]])
    0.25
    """
    Y, P = as_pair(Y, P)
    _, fp, fn = outcomes(Y, P, axis=1)
    n_labels: int = Y.shape[1]
    return mean(fp + fn, weights_of(sample_weight, fp)) / max(1, n_labels)


def subset_accuracy(Y: Any, P: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the share of the examples with all labels correct.

    scikit-learn: `accuracy_score`.

    Examples
    --------
    >>> subset_accuracy([[1, 0], [1, 1]], [[1, 1], [1, 1]])
    0.5
    """
    _, fp, fn = outcomes(*as_pair(Y, P), axis=1)
    return mean(fp + fn == 0, weights_of(sample_weight, fp))
