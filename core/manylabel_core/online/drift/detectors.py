"""Drift detectors, which detect labels whose predictions have become worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.drift._adwin import CLOCK, COUNT, EXAMPLES, LAST, RUNS, are_windows, watch
from manylabel_core.part import Array, Part, Sizes
from manylabel_core.rows import Targets
from manylabel_core.storage import MAX_COUNT, check_range, enlarged

DETECTORS = ("adwin",)
"""Kinds of detectors."""

REACTIONS = ("raise", "restart")
"""Reactions to an alarm: reset a label's step sizes, or restart the label."""


class Alarms(NamedTuple):
    """Alarms of drift detectors, of all labels together and then of each label, shape (1 + n_labels,)."""

    counts: NDArray[np.int64]  # number of alarms
    last: NDArray[np.int64]  # number of examples learnt up to and including the last alarm; 0 without an alarm


def check_detectors(drift: str | None, on_drift: str | None) -> None:
    """Raise ValueError if `on_drift` is set without `drift`."""
    if drift is None and on_drift is not None:
        raise ValueError(f"on_drift must be None without drift, not {on_drift!r}")


class Detectors(Part):
    """ADWIN detectors: one for every label, and one for all labels together.

    The detector of a label receives an error, 0 or 1, for each example with known truth. The detector of all labels
    receives the share of wrong labels among the known ones. Predictions are made before the example is learnt, so a
    label does not count in the first example that has it.

    A detector raises an alarm when the newer part of its window has a higher mean error. A lower mean raises no alarm.
    In both cases the detector restarts, like river's. It checks for a change after 32, 64, ... errors since its start.

    Notes
    -----
    `river.drift.ADWIN` with its default parameters raises alarms at the same examples. The memory of a window grows
    with the logarithm of its length: about 0.5 kB after 10,000 examples, 0.8 kB after a million.

    References
    ----------
    A. Bifet, R. Gavalda: Learning from time-changing data with adaptive windowing, SDM 2007.
    """

    prefix = "drift."
    _seen: NDArray[np.int64]
    _alarms: NDArray[np.int64]
    _lengths: NDArray[np.int64]
    _sums: NDArray[np.float64]
    _runs: NDArray[np.float64]

    def __init__(self) -> None:
        self._lengths = np.zeros(1, dtype=np.int64)
        count = (0, MAX_COUNT)
        super().__init__(
            {
                "seen": Array((2,), (count, (0, "labels")), dtype="int64"),
                "alarms": Array((2, "columns"), (count, count), dtype="int64"),
                "lengths": Array(("columns",), (count,), dtype="int64"),
                "sums": Array(("columns", 2), ()),
                "runs": Array(("runs", "columns", RUNS), ()),
            }
        )

    @property
    def n_until_check(self) -> int:
        """Return the number of examples until the next check of a detector, which is the earliest possible alarm."""
        return int((CLOCK - self._lengths[: 1 + self.n_labels] % CLOCK).min())

    def alarms(self) -> Alarms:
        """Return the alarms so far."""
        live = self._alarms[:, : 1 + self.n_labels]
        return Alarms(live[COUNT].copy(), live[LAST].copy())

    def watch(self, scores: NDArray[np.float64], targets: Targets) -> list[tuple[int, int]]:
        """Process the predictions for examples in order; return each alarm as an example and the column of a detector.

        `scores`, (n_samples, 1 + n_labels), are from before each example was learnt, threshold first.
        """
        if n_rows(int(self._seen[EXAMPLES]) + len(scores)) > len(self._runs):
            self._runs = enlarged(self._runs, (n_rows(self._longest() + len(scores)), *self._runs.shape[1:]))
        alarmed = np.zeros(scores.shape, dtype=np.bool_)
        state = self._seen, self._lengths, self._sums, self._runs, self._alarms
        if not watch(scores, *targets[:-1], *state, alarmed):  # the weight of an example is ignored
            return []
        return [(int(i), int(column)) for i, column in np.argwhere(alarmed)]

    def _longest(self, arrays: Mapping[str, NDArray[Any]] | None = None) -> int:
        """Return the length of the longest window, of these detectors or of a state."""
        lengths = self._lengths if arrays is None else arrays["lengths"]
        return int(lengths.max(initial=0))

    def _sizes(self, n_features: int, n_labels: int, arrays: Mapping[str, NDArray[Any]] | None = None) -> Sizes:
        return {**super()._sizes(n_features, n_labels), "runs": n_rows(self._longest(arrays))}

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int, n_distinct: int = 0) -> int:
        """Return the maximum bytes of the state after more examples, which lengthen the windows."""
        n_longer = n_rows(self._longest() + n_samples) - n_rows(self._longest())
        of_runs = self._runs.itemsize * RUNS * n_longer * (1 + n_labels)
        return super().nbytes_after(n_features, n_labels, n_samples, n_values) + of_runs

    def _check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name in ("alarms", "lengths"):
            check_range(f"drift.{name}", arrays[name], 0, int(arrays["seen"][EXAMPLES]))
        if not are_windows(arrays["lengths"], arrays["sums"], arrays["runs"]):
            raise ValueError("state: drift.sums and drift.runs must match the errors counted by drift.lengths")


def n_rows(length: int) -> int:
    """Return the number of rows of a window with `length` errors; see `_adwin.n_runs`."""
    return (length + 4).bit_length() - 2
