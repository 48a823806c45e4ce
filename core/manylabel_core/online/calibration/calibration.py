"""What a learner makes of its scores: probabilities, and a cut for every label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.checks import check_choice, check_flag
from manylabel_core.online.calibration import _logistic, _thresholds
from manylabel_core.online.calibration._calibrate import cut_rows, decide_rows, rate_rows
from manylabel_core.online.scaling.scaling import MAX_COUNT
from manylabel_core.online.storage import check_range, enlarged
from manylabel_core.rows import Targets

MEASURES = {
    "none": _thresholds.NONE,
    "micro_f1": _thresholds.MICRO_F1,
    "macro_f1": _thresholds.MACRO_F1,
    "hamming": _thresholds.HAMMING,
}
"""What cuts may be chosen for; "none": there are none."""

RANGES = {
    "slope": (0.0, _logistic.MAX_SLOPE),
    "intercept": (-_logistic.MAX_INTERCEPT, _logistic.MAX_INTERCEPT),
    "centre": (-_logistic.MAX_MARGIN, _logistic.MAX_MARGIN),
    "spread": (1.0, 4.0 * _logistic.MAX_MARGIN**2 * MAX_COUNT),
    "weight": (1.0, MAX_COUNT),
    "positives": (0.0, MAX_COUNT),
}
"""What may stand in the rows of the table of labels."""

LEAST_TOTAL = 1e-20
"""No total gets there: probabilities end before it."""


def chosen_decisions(calibrate: object, optimise: object) -> Decisions | NoDecisions:
    """Check the two parameters; make what they ask for.

    Raises
    ------
    ValueError
        If one is not allowed, or cuts are to be chosen without probabilities.
    """
    measure = MEASURES[check_choice("optimise", optimise, MEASURES)]
    if check_flag("calibrate", calibrate):
        return Decisions(measure)
    if measure != _thresholds.NONE:
        raise ValueError(f"optimise must be 'none' with calibrate=False, not {optimise!r}: cuts need probabilities")
    return NoDecisions()


class NoDecisions:
    """Scores as they are: no probabilities, no cuts, no state."""

    def reserve(self, n_labels: int) -> None:
        """Nothing to do."""

    def grow(self, n_labels: int) -> None:
        """Nothing to do."""

    def learn(self, scores: NDArray[np.float64], targets: Targets, probabilities: NDArray[np.float64] | None) -> None:
        """Nothing to do."""

    def cut(self, scores: NDArray[np.float64]) -> None:
        """Nothing to do."""

    def rate(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """There are no probabilities."""
        raise ValueError("calibrate must be True for probabilities")

    def restart(self, label: int) -> None:
        """Nothing to do."""

    def nbytes(self, n_labels: int) -> int:
        """None."""
        return 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Nothing."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> None:
        """Nothing to do."""


class Decisions:
    """Calibrated probabilities of the labels, and cuts chosen by them.

    Every label has a logistic curve from score minus threshold to probability, fitted online, as in Gupta and Ramdas:
    Online Platt Scaling with Calibeating, ICML 2023. It never falls: probabilities are in the order of the scores.
    `_logistic` and `_thresholds` have the equations.

    Both are prequential: an example's probabilities and cuts come from the examples before it. A label does not count
    in the example that brings it, nor where its truth is unknown.

    Parameters
    ----------
    measure : int
        What cuts are chosen for; `NONE`: labels are predicted where they score above the threshold.
    """

    def __init__(self, measure: int) -> None:
        self._measure = measure
        self._existing = np.zeros(1, dtype=np.int64)
        self._labels = np.empty((len(_logistic.START), 0))
        self._counts = np.empty((len(_thresholds.START_COUNTS), 0))
        self._n_labels = 0
        if measure == _thresholds.MICRO_F1:
            self._counts = _columns(_thresholds.START_COUNTS, 1)

    def reserve(self, n_labels: int) -> None:
        """Take the memory for this many labels, changing nothing else."""
        self._labels = _lengthened(self._labels, n_labels, _logistic.START)
        if self._measure == _thresholds.MACRO_F1:
            self._counts = _lengthened(self._counts, n_labels, _thresholds.START_COUNTS)

    def grow(self, n_labels: int) -> None:
        """Have at least this many labels."""
        self.reserve(n_labels)
        self._n_labels = max(n_labels, self._n_labels)

    def learn(self, scores: NDArray[np.float64], targets: Targets, probabilities: NDArray[np.float64] | None) -> None:
        """Take the cuts off raw scores of examples, fill in their probabilities, and learn from them, in order."""
        wanted = np.empty((0, 0)) if probabilities is None else probabilities
        decide_rows(self._labels, self._counts, self._measure, self._existing, *targets, scores, wanted)

    def cut(self, scores: NDArray[np.float64]) -> None:
        """Take the cuts off raw scores of shape (n_samples, 1 + n_labels), threshold first."""
        if self._measure != _thresholds.NONE:
            cut_rows(self._labels, self._counts, self._measure, scores)

    def rate(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities, (n_samples, n_labels), that belong to scores with the cuts taken off."""
        probabilities = np.empty((len(scores), self._n_labels), dtype=np.float64)
        rate_rows(self._labels, self._counts, self._measure, scores, probabilities)
        return probabilities

    def restart(self, label: int) -> None:
        """Forget what was seen of a label."""
        self._labels[:, label] = _logistic.START
        if self._measure == _thresholds.MACRO_F1:
            self._counts[:, label] = _thresholds.START_COUNTS

    def nbytes(self, n_labels: int) -> int:
        """Bytes of the state for so many labels."""
        return self._existing.nbytes + 8 * (
            len(self._labels) * n_labels + len(self._counts) * self._n_counted(n_labels)
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """The number of labels so far, their table and the counts of the cuts; views, not copies."""
        n_counted = self._n_counted(self._n_labels)
        return {
            "decisions.existing": self._existing,
            "decisions.labels": self._labels[:, : self._n_labels],
            "decisions.counts": self._counts[:, :n_counted],
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> None:
        """Take over a state for so many labels; raises ValueError, changing nothing, if it is none."""
        existing, labels, counts = (arrays[f"decisions.{name}"] for name in ("existing", "labels", "counts"))
        if existing.shape != (1,) or labels.shape != (len(RANGES), n_labels):
            raise ValueError(f"state must hold one decisions.existing, and {len(RANGES)} rows of n_labels decisions")
        if counts.shape != (len(_thresholds.START_COUNTS), self._n_counted(n_labels)):
            raise ValueError(
                f"state must hold {len(_thresholds.START_COUNTS)} rows of {self._n_counted(n_labels)} decisions.counts"
            )
        check_range("decisions.existing", existing, 0, n_labels)
        for (name, (least, most)), row in zip(RANGES.items(), labels, strict=True):
            check_range(f"decisions.labels ({name})", row, least, most)
        check_range("decisions.counts (hits)", counts[_thresholds.HITS], 0.0, MAX_COUNT)
        check_range("decisions.counts (total)", counts[_thresholds.TOTAL], LEAST_TOTAL, MAX_COUNT)
        self._existing, self._labels, self._counts, self._n_labels = existing, labels, counts, n_labels

    def _n_counted(self, n_labels: int) -> int:
        """Columns of the counts for so many labels."""
        return {_thresholds.MICRO_F1: 1, _thresholds.MACRO_F1: n_labels}.get(self._measure, 0)


def _columns(column: tuple[float, ...], n: int) -> NDArray[np.float64]:
    """As many columns like this one."""
    return np.repeat(np.array(column)[:, np.newaxis], n, axis=1)


def _lengthened(table: NDArray[np.float64], n_labels: int, start: tuple[float, ...]) -> NDArray[np.float64]:
    """The table with room for so many labels; new ones are as at the start."""
    larger = enlarged(table, (len(table), n_labels))
    n_new = larger.shape[1] - table.shape[1]
    larger[:, table.shape[1] :] = _columns(start, n_new)
    return larger
