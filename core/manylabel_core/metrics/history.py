"""Past metrics of a stream: a bounded number of points, thinned out as the stream grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics._prequential import EXAMPLES, GIVEN, LABELS, MODEL, N_BASIC, UNIT, WEIGHED

MAX_POINTS = 256
"""Upper bound of the number of points; at least half as many are stored once the stream has this number of examples."""

MAX_LABEL_POINTS = 32
"""Upper bound of the number of points of each label; a point takes 52 bytes for each label whose counts changed."""

MAX_ALARMS = 256
"""Number of latest drift alarms stored."""

T = TypeVar("T")


class MeasureHistory(NamedTuple):
    """Past metrics, oldest first."""

    stride: int  # examples between points; there may be fewer before the last one
    given: list[int]  # examples so far at each point
    covered: list[int]  # measured ones among these examples
    # (n_points, 2, 2, n_measures): of predictions and baseline, from the start and in the window, in the order of
    # `measures.STREAMED`; 0 without measured examples
    measures: NDArray[np.float64]


class LabelHistory(NamedTuple):
    """Past counts of a label, oldest first: true positives, false positives, false negatives, as sums of weights."""

    stride: int  # as in `MeasureHistory`
    given: list[int]
    cumulative: NDArray[np.float64]  # (n_points, 3); 0 while the label did not exist
    window: NDArray[np.float64]  # (n_points, 3)


class History:
    """Metrics at equal steps, and the counts of each label at larger steps.

    A point is stored at each multiple of a stride, in examples. When the maximum number of points is reached, every
    second point is dropped and the stride doubles, so the positions of points depend on the number of examples alone.
    A point of the labels has those whose counts differ from the point before, so a rare label has few.
    `alarms` has the example and the column of the detector of each alarm.
    """

    def __init__(self) -> None:
        self._measures = _Points[tuple[int, NDArray[np.float64]]](MAX_POINTS, lambda first, second: second)
        self._counts = _Points[_Changed](MAX_LABEL_POINTS, _Changed.then)
        self.alarms: deque[tuple[int, int]] = deque(maxlen=MAX_ALARMS)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the arrays."""
        measures = len(self._measures) * 8 * (1 + 4 * N_BASIC)
        return measures + sum([changed.nbytes for changed in self._counts]) + 16 * len(self.alarms)

    def until_next(self, given: int) -> int:
        """Return the number of examples until the next point, at least 1."""
        stride = self._measures.stride(given)
        return stride - given % stride

    def has_place(self, given: int) -> bool:
        """Return whether there is a point at this number of examples."""
        return given % self._measures.stride(given) == 0

    def add(self, given: int, covered: int, measures: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
        """Store the point at this number of examples; the label counts, (2, n_labels, 3) from the start and in the
        window, are copied; the metrics are not.
        """
        self._measures.thin()
        self._measures.append((covered, measures))
        if given % self._counts.stride(given) == 0:
            self._counts.thin()
            by_label = np.ascontiguousarray(counts.transpose(1, 0, 2))
            before = np.zeros_like(by_label)
            for changed in self._counts:
                before[changed.columns] = changed.counts
            columns = np.flatnonzero((by_label != before).any(axis=(1, 2))).astype(np.int32)
            self._counts.append(_Changed(columns, by_label[columns]))

    def of_measures(self, given: int, covered: int, measures: NDArray[np.float64]) -> MeasureHistory:
        """Return the past metrics, and the current ones, which are passed in."""
        stride, numbers = self._measures.numbers(given)
        points = [*self._measures, (covered, measures)][: len(numbers)]
        past = np.array([each for _, each in points]).reshape(-1, 2, 2, N_BASIC)
        return MeasureHistory(stride, numbers, [covered for covered, _ in points], past)

    def of_label(self, given: int, label: int, counts: NDArray[np.int64]) -> LabelHistory:
        """Return the past and current counts of a label; `counts` has the current counts of all labels."""
        stride, numbers = self._counts.numbers(given)
        past = np.zeros((2, len(numbers), 3))
        for at, changed in enumerate(self._counts):
            place = np.searchsorted(changed.columns, label)
            if place < len(changed.columns) and changed.columns[place] == label:
                past[:, at] = changed.counts[place] / UNIT
            elif at:
                past[:, at] = past[:, at - 1]
        if len(numbers) > len(self._counts) and label < counts.shape[1]:
            past[:, -1] = counts[:, label] / UNIT
        return LabelHistory(stride, numbers, *past)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the history as named arrays that share no memory with this object."""
        none = _Changed(np.zeros(0, dtype=np.int32), np.zeros((0, 2, 3), dtype=np.int64))
        counts = np.concatenate([each.counts for each in (none, *self._counts)])
        measures = [each for _, each in self._measures]
        return {
            "covered": np.array([covered for covered, _ in self._measures], dtype=np.int64),
            "points": np.array(measures, dtype=np.float64).reshape(-1, 2, 2, N_BASIC),
            "point_labels": np.array([len(each.columns) for each in self._counts], dtype=np.int64),
            "point_columns": np.concatenate([each.columns for each in (none, *self._counts)]),
            "point_counts": np.ascontiguousarray(counts.transpose(1, 0, 2)),
            "alarms": np.array(self.alarms, dtype=np.int64).reshape(-1, 2),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> History:
        """Inverse of `state`; the arrays have passed `check_history`."""
        history = cls()
        covered = arrays["covered"].tolist()
        history._measures.extend(zip(covered, map(np.copy, arrays["points"]), strict=True))
        columns, counts, end = arrays["point_columns"], arrays["point_counts"].transpose(1, 0, 2), 0
        for n_labels in arrays["point_labels"].tolist():
            own = slice(end, end := end + n_labels)
            history._counts.append(_Changed(columns[own].copy(), counts[own].copy()))
        history.alarms.extend((number, column) for number, column in arrays["alarms"].tolist())
        return history


class _Changed(NamedTuple):
    """Labels whose counts changed since the point before, in ascending order, and their counts."""

    columns: NDArray[np.int32]  # (n_changed,)
    counts: NDArray[np.int64]  # (n_changed, 2, 3): from the start and in the window

    @property
    def nbytes(self) -> int:
        return self.columns.nbytes + self.counts.nbytes

    def then(self, second: _Changed) -> _Changed:
        """Return the changes of two points together."""
        columns = np.union1d(self.columns, second.columns)
        counts = np.empty((len(columns), 2, 3), dtype=np.int64)
        for each in (self, second):
            counts[np.searchsorted(columns, each.columns)] = each.counts
        return _Changed(columns, counts)


class _Points(list[T]):
    """List of fewer than `most` points, with a point at each multiple of the stride.

    `join` returns the point that takes the place of two points, at the second.
    """

    def __init__(self, most: int, join: Callable[[T, T], T]) -> None:
        self._most, self._join = most, join

    def stride(self, given: int) -> int:
        return stride_of(given, self._most)

    def thin(self) -> None:
        """Make room for a point: if the list is full, the stride doubles at it, and the last point is dropped."""
        if len(self) == self._most - 1:
            self[:] = map(self._join, self[:-1:2], self[1::2])

    def numbers(self, given: int) -> tuple[int, list[int]]:
        """Return the stride, and the number of examples at each point; the last one is current."""
        stride = self.stride(given)
        numbers = [stride * number for number in range(1, 1 + len(self))]
        return stride, [*numbers, given] if given % stride else numbers


def stride_of(given: int, most: int) -> int:
    """Return the least power of two with fewer than `most` positive multiples up to this number of examples."""
    return 1 << (given // most).bit_length()


def check_history(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless points and alarms are consistent with the totals."""
    totals = arrays["totals"][MODEL]
    given = int(totals[GIVEN])
    _check_points(arrays["covered"], arrays["points"], given, int(totals[EXAMPLES]))
    _check_counts(arrays["point_labels"], arrays["point_columns"], arrays["point_counts"], given, totals)
    alarms = arrays["alarms"]
    if len(alarms) > MAX_ALARMS or not _ascend(alarms[:, 0], given):
        raise ValueError("alarms: expected numbers of examples, oldest first")
    if ((alarms[:, 1] < 0) | (alarms[:, 1] > totals[LABELS])).any():
        raise ValueError("alarms: refers to a label that does not exist")


def _check_points(covered: NDArray[np.int64], points: NDArray[np.float64], given: int, examples: int) -> None:
    stride = stride_of(given, MAX_POINTS)
    if not len(covered) == len(points) == given // stride:
        raise ValueError(f"points: expected one point for every {stride} examples")
    if not _ascend(covered, examples) or (covered > stride * np.arange(1, 1 + len(covered))).any():
        raise ValueError("covered: expected the number of measured examples at each point")
    if not ((points >= 0) & (points <= 1)).all() or points[covered == 0].any():
        raise ValueError("points: expected metrics from 0 to 1, and 0 without examples")


def _check_counts(
    labels: NDArray[np.int64],
    columns: NDArray[np.int32],
    counts: NDArray[np.int64],
    given: int,
    totals: NDArray[np.int64],
) -> None:
    if len(labels) != given // stride_of(given, MAX_LABEL_POINTS):
        raise ValueError("point_labels: expected a number for each point of the labels")
    if ((labels < 0) | (labels > totals[LABELS])).any() or not int(labels.sum()) == len(columns) == counts.shape[1]:
        raise ValueError("point_labels: expected the number of changed labels at each point")
    begins = np.isin(np.arange(1, len(columns)), np.cumsum(labels))
    if ((columns < 0) | (columns >= totals[LABELS])).any() or not ((np.diff(columns) > 0) | begins).all():
        raise ValueError("point_columns: expected the labels of each point in ascending order")
    if not ((counts >= 0) & (counts <= totals[WEIGHED])).all() or (counts[1] > counts[0]).any():
        raise ValueError("point_counts: outside 0 to the number of examples")


def _ascend(numbers: NDArray[np.int64], most: int) -> bool:
    """Return whether numbers ascend and lie between 0 and `most`."""
    return bool((numbers >= 0).all() and (np.diff(numbers, append=most) >= 0).all())
