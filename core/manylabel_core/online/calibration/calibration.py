"""Calibration of a learner: probabilities of its scores, and a decision threshold for every label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.calibration import _logistic, _thresholds
from manylabel_core.online.calibration._calibrate import calibrate_rows, decide_rows, find_row_probabilities
from manylabel_core.rows import Targets
from manylabel_core.storage import MAX_COUNT, check_range, enlarged

MEASURES = {
    "none": _thresholds.NONE,
    "micro_f1": _thresholds.MICRO_F1,
    "macro_f1": _thresholds.MACRO_F1,
    "hamming": _thresholds.HAMMING,
}
"""Measures that decision thresholds may be chosen for; "none": there are no such thresholds."""

RANGES = {
    "slope": (0.0, _logistic.MAX_SLOPE),
    "intercept": (-_logistic.MAX_INTERCEPT, _logistic.MAX_INTERCEPT),
    "centre": (-_logistic.MAX_MARGIN, _logistic.MAX_MARGIN),
    "spread": (1.0, 4.0 * _logistic.MAX_MARGIN**2 * MAX_COUNT),
    "weight": (1.0, MAX_COUNT),
    "positives": (0.0, MAX_COUNT),
}
"""Bounds of the rows of the table of labels."""

_NOT_WANTED = np.empty((0, 0))

MIN_TOTAL = 1e-20
"""Lower bound of totals, below the smallest total that a probability can lead to."""


def make_calibration(calibrate: bool, optimise: str, fitted: bool = True) -> Calibration | None:
    """Return the calibration, None without `calibrate`; raise ValueError if the metric needs one."""
    measure = MEASURES[optimise]
    if calibrate:
        return Calibration(measure, fitted)
    if measure != _thresholds.NONE:
        raise ValueError(
            f"optimise must be 'none' with calibrate=False, not {optimise!r}: decision thresholds need probabilities"
        )
    return None


class PlattParameters(NamedTuple):
    """Probability curves of labels: the sigmoid of slope times margin plus intercept, bent at the upper end.

    Attributes
    ----------
    threshold : ndarray of shape (n_labels,), float64
        The probability above which the label is predicted.
    slope, intercept : ndarray of shape (n_labels,), float64
    bend : float
        Log-odds above `KNOT` count for KNOT plus `bend` times what they are above it.
    """

    threshold: NDArray[np.float64]
    slope: NDArray[np.float64]
    intercept: NDArray[np.float64]
    bend: float


class Calibration:
    """Calibration of probabilities, and tuning of decision thresholds.

    Every label has a logistic curve from score minus threshold to probability, fitted online, as in Gupta and Ramdas:
    Online Platt Scaling with Calibeating, ICML 2023. It never falls: probabilities are in the order of the scores.
    `_logistic` and `_thresholds` have the equations.

    Both are prequential: an example's probabilities and thresholds come from the examples before it. A label does not
    count in the example that brings it, nor where its truth is unknown.

    Parameters
    ----------
    measure : int
        Metric that the decision thresholds optimise; `NONE`: labels that score above the threshold are predicted.
    fitted : bool
        Whether curves are fitted; else a margin stands for log-odds, as it is.
    """

    def __init__(self, measure: int, fitted: bool) -> None:
        self._measure, self._fitted = measure, fitted
        self._start = _logistic.START if fitted else _logistic.LOG_ODDS
        self._patience = _thresholds.PATIENCE if fitted else 0.0
        self._existing = np.zeros(1, dtype=np.int64)
        self._labels = np.empty((len(_logistic.START), 0))
        self._counts = _columns(_thresholds.START_COUNTS, self._n_counted(0))
        self._bend = np.array(_logistic.START_BEND)
        self._n_labels = 0

    def reserve(self, n_labels: int) -> None:
        """Allocate memory for this number of labels, without other changes."""
        self._labels = _lengthened(self._labels, n_labels, self._start)
        if self._measure == _thresholds.MACRO_F1:
            self._counts = enlarged(self._counts, (len(self._counts), 1 + n_labels))

    def grow(self, n_labels: int) -> None:
        """Grow to at least this many labels."""
        self.reserve(n_labels)
        self._n_labels = max(n_labels, self._n_labels)

    def learn(self, scores: NDArray[np.float64], targets: Targets, probabilities: NDArray[np.float64] | None) -> None:
        """Lower raw scores of examples by the thresholds, write their probabilities, and learn from them, in order."""
        wanted = _NOT_WANTED if probabilities is None else probabilities
        how = self._measure, self._patience, self._fitted
        calibrate_rows(self._labels, self._counts, self._bend, *how, self._existing, *targets, scores, wanted)

    def decide(self, scores: NDArray[np.float64]) -> None:
        """Lower raw scores of shape (n_samples, 1 + n_labels) by the decision thresholds; learnt threshold first."""
        if self._measure != _thresholds.NONE:
            decide_rows(self._labels, self._counts, self._measure, self._patience, scores)

    def set_offsets(self, offsets: NDArray[np.float64], slopes: NDArray[np.float64]) -> None:
        """Write the offset and slope by which `decide` lowers the margin of every label (0 and 1: unchanged).

        Both are of shape (n_labels,).
        """
        if self._measure == _thresholds.NONE:
            offsets[:], slopes[:] = 0.0, 1.0
            return
        table = np.ascontiguousarray(self._labels[:, : self._n_labels])
        rows = table[_logistic.SLOPE], table[_logistic.INTERCEPT], table[_logistic.POSITIVES]
        counts = np.ascontiguousarray(self._counts[:, : self._n_counted(self._n_labels)])
        _thresholds.find_offsets(*rows, counts, self._measure, self._patience, offsets, slopes)

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities, (n_samples, n_labels), that belong to scores lowered by the thresholds."""
        probabilities = np.empty((len(scores), self._n_labels), dtype=np.float64)
        how = self._measure, self._patience
        find_row_probabilities(self._labels, self._counts, self._bend, *how, scores, probabilities)
        return probabilities

    def curves(self) -> PlattParameters:
        """Return the curves of the labels, and where they are cut."""
        n = self._n_labels
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
        """Note whether a label has a title: then its threshold needs no example of it."""
        positives = self._labels[_logistic.POSITIVES]
        if has_title:
            positives[label] = max(positives[label], _thresholds.TITLED)
        elif positives[label] == _thresholds.TITLED:
            positives[label] = 0.0

    def nbytes(self, n_labels: int, n_samples: int) -> int:
        """Return the bytes of the state for this number of labels, after any number of examples."""
        return (
            self._existing.nbytes
            + self._bend.nbytes
            + 8 * (len(self._labels) * n_labels + len(self._counts) * self._n_counted(n_labels))
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the number of labels so far, their table and the counts; views, not copies."""
        n_counted = self._n_counted(self._n_labels)
        return {
            "calibration.existing": self._existing,
            "calibration.labels": self._labels[:, : self._n_labels],
            "calibration.counts": self._counts[:, :n_counted],
            "calibration.bend": self._bend,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> None:
        """Restore a state for this number of labels; raises ValueError, without changes, if it is invalid."""
        existing, labels, counts = (arrays[f"calibration.{name}"] for name in ("existing", "labels", "counts"))
        if existing.shape != (1,) or labels.shape != (len(RANGES), n_labels):
            raise ValueError(
                f"state must hold one calibration.existing, and {len(RANGES)} rows of n_labels calibration.labels"
            )
        if counts.shape != (len(_thresholds.START_COUNTS), self._n_counted(n_labels)):
            n_rows, n_columns = len(_thresholds.START_COUNTS), self._n_counted(n_labels)
            raise ValueError(f"state must hold {n_rows} rows of {n_columns} calibration.counts")
        check_range("calibration.existing", existing, 0, n_labels)
        for (name, (least, most)), row in zip(RANGES.items(), labels, strict=True):
            check_range(f"calibration.labels ({name})", row, least, most)
        check_range("calibration.counts (hits)", counts[_thresholds.HITS], 0.0, MAX_COUNT)
        check_range("calibration.counts (common total)", counts[_thresholds.TOTAL, :1], MIN_TOTAL, MAX_COUNT)
        check_range("calibration.counts (total)", counts[_thresholds.TOTAL], 0.0, MAX_COUNT)
        bend = arrays["calibration.bend"]
        if bend.shape != (len(_logistic.START_BEND),):
            raise ValueError("state must hold two numbers of calibration.bend")
        check_range("calibration.bend (bend)", bend[:1], _logistic.MIN_BEND, _logistic.MAX_BEND)
        check_range("calibration.bend (curvature)", bend[1:], 0.0, MAX_COUNT)
        self._existing, self._labels, self._counts, self._n_labels = existing, labels, counts, n_labels
        self._bend = bend

    def _n_counted(self, n_labels: int) -> int:
        """Return the columns of the counts for this number of labels."""
        return {_thresholds.MICRO_F1: 1, _thresholds.MACRO_F1: 1 + n_labels}.get(self._measure, 0)


def _columns(column: tuple[float, ...], n: int) -> NDArray[np.float64]:
    """Return as many columns like this one."""
    return np.repeat(np.array(column)[:, np.newaxis], n, axis=1)


def _lengthened(table: NDArray[np.float64], n_labels: int, start: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the table enlarged to this number of labels; new labels have start values."""
    larger = enlarged(table, (len(table), n_labels))
    n_new = larger.shape[1] - table.shape[1]
    larger[:, table.shape[1] :] = _columns(start, n_new)
    return larger
