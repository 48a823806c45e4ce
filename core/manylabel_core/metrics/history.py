"""Past metrics of a stream: a bounded number of points, thinned out as the stream grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics._prequential import EXAMPLES, GIVEN, LABELS, MODEL, N_BASIC

MAX_POINTS = 256
"""Upper bound of the number of points. At least half as many are stored once the stream has this number of examples."""

MAX_ALARMS = 256
"""Number of latest drift alarms stored."""


class MeasureHistory(NamedTuple):
    """Past metrics, oldest first."""

    stride: int  # examples between points; there may be fewer before the last one
    given: list[int]  # examples so far at each point
    covered: list[int]  # how many of these examples were measured
    # (n_points, 2, 2, n_measures): of predictions and baseline, from the start and in the window, in the order of
    # `measures.STREAMED`; 0 without measured examples
    measures: NDArray[np.float64]


class History:
    """Metrics at equal steps.

    A point is stored at each multiple of a stride, in examples. When the maximum number of points is reached, every
    second point is dropped and the stride doubles, so the positions of points depend on the number of examples alone.
    `alarms` has the example and the column of the detector of each alarm.
    """

    def __init__(self) -> None:
        self._points: list[tuple[int, NDArray[np.float64]]] = []
        self.alarms: deque[tuple[int, int]] = deque(maxlen=MAX_ALARMS)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the arrays."""
        return len(self._points) * 8 * (1 + 4 * N_BASIC) + 16 * len(self.alarms)

    def until_next(self, given: int) -> int:
        """Return the number of examples until the next point, at least 1."""
        stride = stride_of(given)
        return stride - given % stride

    def has_place(self, given: int) -> bool:
        """Return whether there is a point after `given` examples."""
        return given % stride_of(given) == 0

    def add(self, covered: int, measures: NDArray[np.float64]) -> None:
        """Store the point at the present number of examples. If there is no space, the stride doubles, and the last
        point is dropped.
        """
        if len(self._points) == MAX_POINTS - 1:
            self._points[:] = self._points[1::2]
        self._points.append((covered, measures))

    def of_measures(self, given: int, covered: int, measures: NDArray[np.float64]) -> MeasureHistory:
        """Return the past metrics, and the current ones, which are passed in."""
        stride = stride_of(given)
        numbers = [stride * number for number in range(1, 1 + len(self._points))]
        points = self._points
        if given % stride:
            numbers, points = [*numbers, given], [*points, (covered, measures)]
        past = np.array([each for _, each in points]).reshape(-1, 2, 2, N_BASIC)
        return MeasureHistory(stride, numbers, [covered for covered, _ in points], past)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the history as named arrays that share no memory with this object."""
        return {
            "covered": np.array([covered for covered, _ in self._points], dtype=np.int64),
            "points": np.array([each for _, each in self._points], dtype=np.float64).reshape(-1, 2, 2, N_BASIC),
            "alarms": np.array(self.alarms, dtype=np.int64).reshape(-1, 2),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> History:
        """Inverse of `state`; the arrays have passed `check_history`."""
        history = cls()
        points = [each.copy() for each in arrays["points"]]
        history._points.extend(zip(arrays["covered"].tolist(), points, strict=True))
        history.alarms.extend(map(tuple, arrays["alarms"].tolist()))
        return history


def stride_of(given: int) -> int:
    """Return the least power of two with fewer than `MAX_POINTS` positive multiples up to this number of examples."""
    return 1 << (given // MAX_POINTS).bit_length()


def check_history(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless points and alarms are consistent with the totals."""
    totals = arrays["totals"][MODEL]
    given = int(totals[GIVEN])
    _check_points(arrays["covered"], arrays["points"], given, int(totals[EXAMPLES]))
    alarms = arrays["alarms"]
    if len(alarms) > MAX_ALARMS or not _ascend(alarms[:, 0], given):
        raise ValueError("alarms: expected numbers of examples, oldest first")
    if ((alarms[:, 1] < 0) | (alarms[:, 1] > totals[LABELS])).any():
        raise ValueError("alarms: an alarm refers to a label that does not exist")


def _check_points(covered: NDArray[np.int64], points: NDArray[np.float64], given: int, examples: int) -> None:
    stride = stride_of(given)
    if not len(covered) == len(points) == given // stride:
        raise ValueError(f"points: expected one point for every {stride} examples")
    if not _ascend(covered, examples) or (covered > stride * np.arange(1, 1 + len(covered))).any():
        raise ValueError("covered: expected the number of measured examples at each point")
    if not ((points >= 0) & (points <= 1)).all() or points[covered == 0].any():
        raise ValueError("points: expected metrics from 0 to 1, and 0 without examples")


def _ascend(numbers: NDArray[np.int64], most: int) -> bool:
    """Return whether numbers ascend and lie between 0 and `most`."""
    return bool((numbers >= 0).all() and (np.diff(numbers, append=most) >= 0).all())
