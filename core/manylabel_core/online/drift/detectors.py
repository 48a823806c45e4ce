"""Detectors of drift: which labels are predicted worse than they were, and when that was noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.drift._adwin import CLOCK, COUNT, EXAMPLES, LAST, RUNS, are_windows, watch
from manylabel_core.rows import Targets
from manylabel_core.storage import MAX_COUNT, check_range, enlarged

DETECTORS = ("adwin",)
"""Kinds of detectors."""

REACTIONS = ("raise", "restart")
"""Reactions to an alarm: let a label's steps be large again, or restart the label."""


class Alarms(NamedTuple):
    """Alarms of drift detectors.

    Attributes
    ----------
    counts : ndarray of shape (1 + n_labels,), int64
        Number of alarms: of the detector for all labels together, then of that for each label.
    last : ndarray of shape (1 + n_labels,), int64
        Number of examples learnt at the last alarm, that example included; 0 if missing.
    """

    counts: NDArray[np.int64]
    last: NDArray[np.int64]


def make_detectors(drift: str | None, on_drift: str | None) -> Detectors | None:
    """Return the detectors, None without `drift`; raise ValueError if `on_drift` has none to react to."""
    if drift is not None:
        return Detectors()
    if on_drift is not None:
        raise ValueError(f"on_drift must be None without drift, not {on_drift!r}")
    return None


class Detectors:
    """One ADWIN detector watches every label, and one all of them together.

    A label's detector is given whether the label was predicted wrongly, 0 or 1, for each example where its truth is
    known; that for all labels together the part of an example's known labels that were. Predictions are those shown, as
    they were before an example was learnt. Labels that appear with an example had none, and do not count in it.

    A detector alarms when the mean error has risen: when the newer part of its window has the higher mean. When it has
    fallen, the model has become better, and no alarm is raised. Either way the detector then restarts, as river's does.
    It looks for a change with 32, 64, ... errors since it began, never in between.

    The state is a function of the examples in their order and their scores, however they are grouped into calls.

    Notes
    -----
    `river.drift.ADWIN` with its default parameters alarms at the same examples. A window takes memory in proportion to
    the logarithm of its length: about 0.5 kB after 10,000 examples, 0.8 kB after a million.

    References
    ----------
    A. Bifet, R. Gavalda: Learning from time-changing data with adaptive windowing, SDM 2007.
    """

    def __init__(self) -> None:
        self._n_labels = 0
        self._seen = np.zeros(2, dtype=np.int64)
        self._alarms = np.zeros((2, 1), dtype=np.int64)
        self._lengths = np.zeros(1, dtype=np.int64)
        self._sums = np.zeros((1, 2), dtype=np.float64)
        self._runs = np.zeros((n_rows(0), 1, RUNS), dtype=np.float64)

    @property
    def n_until_check(self) -> int:
        """Number of examples until the next check of a detector; no alarm is possible before."""
        return int((CLOCK - self._lengths[: 1 + self._n_labels] % CLOCK).min())

    def alarms(self) -> Alarms:
        """Return the alarms so far."""
        live = self._alarms[:, : 1 + self._n_labels]
        return Alarms(live[COUNT].copy(), live[LAST].copy())

    def reserve(self, n_labels: int) -> None:
        """Allocate memory for this number of labels, without other changes."""
        n_columns = 1 + n_labels
        self._alarms = enlarged(self._alarms, (2, n_columns))
        self._lengths = enlarged(self._lengths, (n_columns,))
        self._sums = enlarged(self._sums, (n_columns, 2))
        self._runs = enlarged(self._runs, (len(self._runs), n_columns, RUNS))

    def grow(self, n_labels: int) -> None:
        """Grow to at least this many labels."""
        self.reserve(n_labels)
        self._n_labels = max(n_labels, self._n_labels)

    def watch(self, scores: NDArray[np.float64], targets: Targets) -> list[tuple[int, int]]:
        """Process the predictions for examples in order.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, 1 + n_labels), float64
            Before each example was learnt, threshold first; a label above the threshold was predicted.
        targets : Targets of the same examples

        Returns
        -------
        list of (int, int)
            Every alarm in order: its example, and the column of its detector as in `alarms`.
        """
        if n_rows(int(self._seen[EXAMPLES]) + len(scores)) > len(self._runs):
            self._runs = enlarged(self._runs, (n_rows(self._longest + len(scores)), *self._runs.shape[1:]))
        alarmed = np.zeros(scores.shape, dtype=np.bool_)
        state = self._seen, self._lengths, self._sums, self._runs, self._alarms
        if not watch(scores, *targets[:-1], *state, alarmed):  # the weight of an example is ignored
            return []
        return [(int(i), int(column)) for i, column in np.argwhere(alarmed)]

    @property
    def _longest(self) -> int:
        return int(self._lengths[: 1 + self._n_labels].max())

    def nbytes(self, n_labels: int, n_samples: int) -> int:
        """Return the maximum bytes of the state for these labels after this number of further examples."""
        runs = RUNS * n_rows(self._longest + n_samples)
        integers, floats = self._alarms.itemsize * (2 + 1), self._runs.itemsize * (2 + runs)
        return self._seen.nbytes + (integers + floats) * (1 + n_labels)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return alarms and windows; views, not copies."""
        live = slice(1 + self._n_labels)
        return {
            "drift.seen": self._seen,
            "drift.alarms": self._alarms[:, live],
            "drift.lengths": self._lengths[live],
            "drift.sums": self._sums[live],
            "drift.runs": self._runs[: n_rows(self._longest), live],
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> None:
        """Restore a state for this number of labels; raises ValueError, without changes, if it is invalid."""
        seen, alarms, lengths = arrays["drift.seen"], arrays["drift.alarms"], arrays["drift.lengths"]
        sums, runs = arrays["drift.sums"], arrays["drift.runs"]
        n_columns = 1 + n_labels
        if seen.shape != (2,) or alarms.shape != (2, n_columns) or lengths.shape != (n_columns,):
            raise ValueError("state must hold two drift.seen, and two drift.alarms and a drift.lengths per detector")
        check_range("drift.seen", seen[:1], 0, MAX_COUNT)
        check_range("drift.seen", seen[1:], 0, n_labels)
        check_range("drift.alarms", alarms, 0, int(seen[EXAMPLES]))
        check_range("drift.lengths", lengths, 0, int(seen[EXAMPLES]))
        rows = n_rows(int(lengths.max()))
        if sums.shape != (n_columns, 2) or runs.shape != (rows, n_columns, RUNS):
            raise ValueError(f"state must hold two drift.sums and {rows} x {RUNS} drift.runs per detector")
        if not are_windows(lengths, sums, runs):
            raise ValueError("state must hold drift.sums and drift.runs of as many errors from 0 to 1 as drift.lengths")
        self._n_labels = n_labels
        self._seen, self._alarms, self._lengths, self._sums, self._runs = seen, alarms, lengths, sums, runs


def n_rows(length: int) -> int:
    """Return the rows of runs of a window with this number of errors; see `_adwin.n_runs`."""
    return (length + 4).bit_length() - 2
