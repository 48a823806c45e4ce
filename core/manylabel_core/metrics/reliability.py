"""Reliability of probabilities: frequency of true labels by predicted probability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics._prequential import (
    FN,
    LABELS,
    LEAST_RELEVANT,
    MODEL,
    N_BINS,
    NUMBER,
    PROBABILITY,
    SQUARE,
    TP,
    TRUE,
    UNIT,
    WEIGHED,
)

EDGES = np.arange(N_BINS + 1) / N_BINS
"""Bounds of the bins. Each bin includes its lower bound; the last one also includes 1."""

_ROUNDING = 1e-6
"""Relative tolerance of sums of probabilities."""


class Reliability(NamedTuple):
    """Comparison of probabilities with frequencies of true labels in bins of equal width.

    The points (mean_probability, share_true) are the reliability diagram (Murphy and Winkler, Applied Statistics 26,
    1977). They lie on the diagonal if the probabilities are calibrated. The means of empty bins are NaN, and without
    labels the errors are too.
    """

    number: NDArray[np.float64]  # (n_bins,): weighted number of labels with known truth, by probability
    mean_probability: NDArray[np.float64]  # (n_bins,)
    share_true: NDArray[np.float64]  # (n_bins,)
    # mean of |share_true - mean_probability| over the labels (Naeini, Cooper and Hauskrecht, AAAI 2015)
    expected_calibration_error: float
    brier_score: float  # mean of (probability - truth)^2 (Brier, Monthly Weather Review 78, 1950)


def reliability_of(bins: NDArray[np.float64]) -> Reliability:
    """Return a copy of the bins of a prequential measurement."""
    number, true, probability, square = bins[:, [NUMBER, TRUE, PROBABILITY, SQUARE]].T.copy()
    with np.errstate(invalid="ignore"):
        means, total = (probability / number, true / number), number.sum()
        return Reliability(number, *means, float(np.abs(true - probability).sum() / total), float(square.sum() / total))


def check_bins(name: str, bins: NDArray[np.float64], totals: NDArray[np.int64]) -> None:
    """Raise ValueError unless these bins, of shape (..., N_BINS, N_BIN_SUMS), are consistent with the totals."""
    number = bins[..., NUMBER]
    shares = (bins >= 0) & (bins <= number[..., np.newaxis] * (1 + _ROUNDING))
    if not shares.all() or (bins[..., TRUE] > number).any():
        raise ValueError(f"{name}: sums must not exceed the number of counted labels")
    if number.sum() > (1 + _ROUNDING) * float(totals[WEIGHED]) / UNIT * float(totals[LABELS]):
        raise ValueError(f"{name}: the bins count more labels than the examples have")
    least, most = EDGES[:-1] * (1 - _ROUNDING), EDGES[1:] * (1 + _ROUNDING)
    if not ((bins[..., PROBABILITY] >= least * number) & (bins[..., PROBABILITY] <= most * number)).all():
        raise ValueError(f"{name}: a mean probability lies outside its bin")


def relevant_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the weight of the relevant examples of each label, in units, from counts of shape (2, n_labels, 3)."""
    weights: NDArray[np.int64] = counts[MODEL][:, [TP, FN]].sum(axis=1)
    return weights


def check_label_bins(
    label_bins: NDArray[np.float64], bins: NDArray[np.float64], counts: NDArray[np.int64], totals: NDArray[np.int64]
) -> None:
    """Raise ValueError unless the bins of labels are valid. They must be consistent with `bins`, which are of all
    labels together, and exist for the labels that have been relevant often enough.
    """
    check_bins("label_bins", label_bins, totals)
    if len(label_bins) != (relevant_of(counts) >= LEAST_RELEVANT).sum() * bins.any():
        raise ValueError("label_bins: the labels do not match counts")
    if not (label_bins.sum(axis=0) <= bins * (1 + _ROUNDING) + _ROUNDING).all():
        raise ValueError("label_bins: the sum over the labels exceeds bins")
