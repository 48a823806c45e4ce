"""Calibration of a learner: probabilities of its scores, and a decision threshold for every label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.calibration import _logistic, _thresholds
from manylabel_core.online.calibration._calibrate import calibrate_rows, decide_rows, find_row_probabilities
from manylabel_core.part import Array, Part, Sizes
from manylabel_core.rows import Targets
from manylabel_core.storage import MAX_COUNT, check_range

MEASURES = {
    "none": _thresholds.NONE,
    "micro_f1": _thresholds.MICRO_F1,
    "macro_f1": _thresholds.MACRO_F1,
    "hamming": _thresholds.HAMMING,
}
"""Metrics that decision thresholds may optimise; "none" disables decision thresholds."""

_NOT_WANTED = np.empty((0, 0))

LABEL_BOUNDS = (
    (0.0, _logistic.MAX_SLOPE),
    (-_logistic.MAX_INTERCEPT, _logistic.MAX_INTERCEPT),
    (-_logistic.MAX_MARGIN, _logistic.MAX_MARGIN),
    (1.0, 4.0 * _logistic.MAX_MARGIN**2 * MAX_COUNT),
    (1.0, MAX_COUNT),
    (0.0, MAX_COUNT),
)
"""Bounds of the slope, intercept, centre, spread, weight and positives of a label."""

MIN_TOTAL = 1e-20
"""Lower bound of totals, below the smallest total that a probability can contribute."""


def check_calibration(calibrate: bool, optimise: str) -> None:
    """Raise ValueError if the metric needs a calibration, which is disabled."""
    if not calibrate and MEASURES[optimise] != _thresholds.NONE:
        raise ValueError(
            f"optimise must be 'none' with calibrate=False, not {optimise!r}: decision thresholds need probabilities"
        )


def make_calibration(calibrate: bool, optimise: str, fitted: bool = True) -> Calibration | None:
    """Return a new calibration, or None if `calibrate` is False."""
    return Calibration(MEASURES[optimise], fitted) if calibrate else None


class PlattParameters(NamedTuple):
    """Probability curves of labels: the sigmoid of slope times margin plus intercept, bent at the upper end."""

    threshold: NDArray[np.float64]  # (n_labels,): probability above which the label is predicted
    slope: NDArray[np.float64]  # (n_labels,)
    intercept: NDArray[np.float64]  # (n_labels,)
    bend: float  # log-odds above `KNOT` count for KNOT plus `bend` times their excess


class Calibration(Part):
    """Calibration of probabilities, and tuning of decision thresholds.

    Every label has a logistic curve from score minus threshold to probability, fitted online (Gupta and Ramdas: Online
    Platt Scaling with Calibeating, ICML 2023). The curve never decreases, so probabilities have the order of the
    scores. `_logistic` and `_thresholds` have the equations.

    Both are prequential: the probabilities and thresholds of an example come from earlier examples. A label counts
    neither in its first example nor in examples for which its truth is unknown. Without `fitted`, the margin is the
    log-odds.
    """

    prefix = "calibration."
    _existing: NDArray[np.int64]
    _labels: NDArray[np.float64]
    _counts: NDArray[np.float64]
    _bend: NDArray[np.float64]

    def __init__(self, measure: int, fitted: bool) -> None:
        self._measure, self._fitted = measure, fitted
        self._start = _logistic.START if fitted else _logistic.LOG_ODDS
        self._patience = _thresholds.PATIENCE if fitted else 0.0
        counts = (0.0, MAX_COUNT), (0.0, MAX_COUNT)
        bend = (_logistic.MIN_BEND, _logistic.MAX_BEND), (0.0, MAX_COUNT)
        super().__init__(
            {
                "existing": Array((1,), ((0, "labels"),), dtype="int64"),
                "labels": Array((len(LABEL_BOUNDS), "labels"), LABEL_BOUNDS, self._start),
                "counts": Array((len(counts), "counted"), counts),
                "bend": Array((len(bend),), bend, _logistic.START_BEND),
            }
        )
        self._counts[:] = np.array(_thresholds.START_COUNTS)[:, np.newaxis]

    def learn(self, scores: NDArray[np.float64], targets: Targets, probabilities: NDArray[np.float64] | None) -> None:
        """Subtract the thresholds from the scores of each example in order, write its probabilities, and learn it."""
        wanted = _NOT_WANTED if probabilities is None else probabilities
        how = self._measure, self._patience, self._fitted
        learnt = self._existing, tuple(targets), scores, wanted
        calibrate_rows(self._labels, self._counts, self._bend, *how, *learnt)

    def decide(self, scores: NDArray[np.float64]) -> None:
        """Subtract the decision thresholds from scores, (n_samples, 1 + n_labels), with the learnt threshold first."""
        if self._measure != _thresholds.NONE:
            decide_rows(self._labels, self._counts, self._measure, self._patience, scores)

    def set_offsets(self, offsets: NDArray[np.float64], slopes: NDArray[np.float64]) -> None:
        """Write the offset and slope, each (n_labels,), by which `decide` changes the margin of every label (0 and 1:
        no change).
        """
        if self._measure == _thresholds.NONE:
            offsets[:], slopes[:] = 0.0, 1.0
            return
        table = np.ascontiguousarray(self._labels[:, : self.n_labels])
        rows = table[_logistic.SLOPE], table[_logistic.INTERCEPT], table[_logistic.POSITIVES]
        counts = np.ascontiguousarray(self._counts[:, : self._n_counted(self.n_labels)])
        _thresholds.find_offsets(*rows, counts, self._measure, self._patience, offsets, slopes)

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of scores, (n_samples, 1 + n), after `decide`, for the first n labels."""
        probabilities = np.empty((len(scores), scores.shape[1] - 1), dtype=np.float64)
        how = self._measure, self._patience
        find_row_probabilities(self._labels, self._counts, self._bend, *how, scores, probabilities)
        return probabilities

    def curves(self) -> PlattParameters:
        """Return the curves and thresholds of the labels."""
        n = self.n_labels
        table = np.ascontiguousarray(self._labels[:, :n])
        slope, intercept = table[_logistic.SLOPE], table[_logistic.INTERCEPT]
        offsets, threshold = np.empty(n), np.empty(n)
        self.set_offsets(offsets, np.empty(n))
        _logistic.find_probabilities(slope, intercept, offsets, threshold)
        _logistic.bend_probabilities(self._bend, slope, intercept, offsets, threshold)
        return PlattParameters(threshold, slope.copy(), intercept.copy(), float(self._bend[_logistic.BEND]))

    def forget(self, label: int) -> None:
        """Reset a label."""
        self._labels[:, label] = self._start
        if self._measure == _thresholds.MACRO_F1:
            self._counts[:, 1 + label] = 0.0

    def note_title(self, label: int, has_title: bool) -> None:
        """Record whether a label has a title; if it has, its threshold does not need an example of the label."""
        positives = self._labels[_logistic.POSITIVES]
        if has_title:
            positives[label] = max(positives[label], _thresholds.TITLED)
        elif positives[label] == _thresholds.TITLED:
            positives[label] = 0.0

    def _check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        check_range("calibration.counts (common total)", arrays["counts"][_thresholds.TOTAL, :1], MIN_TOTAL, MAX_COUNT)

    def _sizes(self, n_features: int, n_labels: int, arrays: Mapping[str, NDArray[Any]] | None = None) -> Sizes:
        return {**super()._sizes(n_features, n_labels, arrays), "counted": self._n_counted(n_labels)}

    def _n_counted(self, n_labels: int) -> int:
        """Return the number of columns of the counts for `n_labels` labels."""
        return {_thresholds.MICRO_F1: 1, _thresholds.MACRO_F1: 1 + n_labels}.get(self._measure, 0)
