"""Prequential (test-then-train) metrics of a stream: every example is predicted before it is learnt."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics import _prequential
from manylabel_core.metrics.history import History, MeasureHistory
from manylabel_core.metrics.measures import STREAMED
from manylabel_core.metrics.packed_codes import lengths_of, unpacked
from manylabel_core.metrics.prequential_state import check_state, codes_of
from manylabel_core.metrics.reliability import Reliability, relevant_of, reliability_of
from manylabel_core.rows import Targets, as_weights

_MODEL, _BASELINE = _SYSTEMS = (_prequential.MODEL, _prequential.BASELINE)
_NONE = np.empty((0, 0))

GROUP_BOUNDS = _prequential.GROUP_BOUNDS
"""Lower bounds of the groups below; see `_prequential.GROUP_BOUNDS`."""

GROUPS = ("never", "below_5", "below_20", "more")
"""Names of the groups of labels by number of earlier examples; responses have the same names."""


class PartialTruth(NamedTuple):
    """Known part of the true labels of an example, with its predictions."""

    number: int  # number of the example among the measured ones, from 1
    labels: NDArray[np.int32]  # (n_told,): columns of the labels, in the order in which they became known
    truth: NDArray[np.bool_]  # (n_told,)
    # (2, n_told): score minus threshold of the predictions and of the baseline; NaN if missing
    margins: NDArray[np.float64]
    weight: int = _prequential.UNIT  # weight of the example in units of 2^-16, from its first part

    def joined(self, more: PartialTruth) -> PartialTruth:
        """Return this part combined with another part of the same example."""
        return PartialTruth(
            self.number,
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.truth, more.truth]),
            np.concatenate([self.margins, more.margins], axis=1),
            self.weight,
        )


class LabelCounts(NamedTuple):
    """Counts of each label, by column; all except `first` and `last` are sums of weights."""

    relevant: NDArray[np.float64]  # (n_labels,): examples in which it was relevant
    told: NDArray[np.float64]  # (n_labels,): examples with known truth
    first: NDArray[np.int64]  # (n_labels,): number of the first example in which it was relevant, from 1; 0 for none
    last: NDArray[np.int64]  # (n_labels,): number of the last example in which it was relevant
    cumulative: NDArray[np.float64]  # (n_labels, 3): true positives, false positives, false negatives
    window: NDArray[np.float64]  # (n_labels, 3)


class Prequential:
    """Prequential (test-then-train) evaluation: since the start, and over a window of the latest examples.

    A label is predicted when its score is above the threshold. P@k, F1@k and NDCG@k rank labels by score; an example
    without a true label does not count in NDCG@k, and counts 0 in the others.

    Only labels with known truth count; an example without such labels is not counted. A label that did not exist before
    the example counts as not predicted, and `one_error` and `ranking_loss` rank the labels that did exist. Macro F1 is
    the mean over the labels that exist now, except the `hidden` ones. For 0/0 and ties see `manylabel_core.metrics`.

    Each metric has a `baseline`: the metric of predicting, for each example, the labels that were frequent before,
    regardless of its features. These are the labels more frequent than half of the best micro F1 that a constant set of
    labels has reached so far. The frequency of a label is its share of the examples in which its truth is known.

    All metrics are weighted by the weights of the examples, rounded to a multiple of 2^-16, at least one. The window
    has a fixed number of examples, regardless of their weights.

    The results do not depend on how the examples are grouped into calls, bit for bit. The window is exact: its counts
    are integers, and its sums are recomputed at every read.

    Past metrics (`history`) are stored at fewer than 256 equally spaced numbers of examples. If probabilities are
    passed too, their reliability is counted (`reliability`).

    Parameters
    ----------
    window : int, default=1000
        Number of examples in the window, at least 1. Memory is proportional to the number of labels predicted or true
        in these examples.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core.rows import as_targets
    >>> prequential = Prequential(window=1)
    >>> scores = np.array([[0.0, 0.5, -0.5], [0.0, 0.5, -0.5]])  # threshold, label 0, label 1
    >>> prequential.update(scores, as_targets([[1, 0], [1, 1]]), np.array([2, 2]))
    >>> measures = prequential.measures()
    >>> measures["cumulative"]["baseline"]["micro_f1"]
    0.5
    >>> measures["cumulative"]["micro_f1"], measures["cumulative"]["hamming_loss"]
    (0.8, 0.25)
    >>> measures["window"]["hamming_loss"]
    0.5
    """

    def __init__(self, window: int = 1000) -> None:
        if operator.index(window) < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self._window = operator.index(window)
        self._counts = np.zeros((2, 2, 16, 3), dtype=np.int64)
        self._totals = np.zeros((2, _prequential.N_TOTALS), dtype=np.int64)
        self._sums = np.zeros((2, _prequential.N_SUMS), dtype=np.float64)
        self._ring: NDArray[np.int64] = np.zeros((2, min(self._window, 16), _prequential.N_FIELDS), dtype=np.int64)
        self._codes: list[NDArray[np.int32]] = [np.zeros(64, dtype=np.int32) for _ in _SYSTEMS]
        self._seen = np.zeros((16, _prequential.N_SEEN), dtype=np.int64)
        self._bins = np.zeros((_prequential.N_BINS, _prequential.N_BIN_SUMS), dtype=np.float64)
        self._groups = np.zeros((_prequential.N_GROUPS, 3), dtype=np.int64)
        self._label_bins = np.zeros((0, *self._bins.shape), dtype=np.float64)
        self._history = History()
        self._hidden: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def hidden(self) -> list[int]:
        """Columns of the labels that do not count in macro F1, ascending; they are not part of the state.

        A change applies to the current metrics and to later points of the history.
        """
        found: list[int] = self._hidden.tolist()
        return found

    @hidden.setter
    def hidden(self, columns: Iterable[int]) -> None:
        self._hidden = np.array(sorted(columns), dtype=np.int64)

    @property
    def window(self) -> int:
        """Return the number of examples in the window."""
        return self._window

    @property
    def given(self) -> int:
        """Return the number of examples so far, including those with unknown truth, where each part counts as one."""
        return int(self._totals[_MODEL, _prequential.GIVEN])

    @property
    def nbytes(self) -> int:
        """Return the bytes of the arrays."""
        arrays: list[NDArray[Any]] = [self._counts, self._totals, self._sums, self._ring, *self._codes, self._seen]
        arrays += [self._bins, self._groups, self._label_bins]
        return sum([array.nbytes for array in arrays]) + self._history.nbytes

    def update(
        self,
        scores: NDArray[Any],
        targets: Targets,
        n_known: NDArray[np.int64],
        probabilities: NDArray[np.float64] | None = None,
    ) -> None:
        """Measure examples in order.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, 1 + n_labels), float32 or float64
            Finite scores from before learning, as returned by `learn`, with the threshold in column 0.
        targets : Targets
            The truth of the same examples.
        n_known : ndarray of shape (n_samples,), int64
            Number of label columns before each example; at most its `targets.n_labels`.
        probabilities : ndarray of shape (n_samples, n_labels), float64, optional
            Probabilities from before learning. None: their reliability is not counted.

        Raises
        ------
        ValueError
            If the arrays are inconsistent. In that case, nothing has been measured.
        """
        scores = np.ascontiguousarray(scores)  # another memory layout would make numba recompile
        probabilities = _NONE if probabilities is None else np.ascontiguousarray(probabilities)
        _check(scores, targets, n_known, probabilities)
        self._widen(scores.shape[1] - 1)
        if len(probabilities):
            self._start_bins()
        first, end = 0, len(scores)
        while first < end:
            last = min(end, first + self._history.until_next(self.given))
            while (first := self._advance(scores, targets, n_known, probabilities, first, last)) < last:
                self._make_room()
            self._take_point()

    def update_part(
        self,
        scores: NDArray[Any],
        targets: Targets,
        n_known: NDArray[np.int64],
        before: PartialTruth | None = None,
        probabilities: NDArray[np.float64] | None = None,
    ) -> PartialTruth | None:
        """Count one example with partial labels once, with all labels known so far.

        Returns all parts together for the next call, or None if no label of the example is known yet.

        Parameters
        ----------
        scores, targets, n_known
            See `update`, for one example. Its targets are not complete, and list none of the labels of earlier parts.
        before : PartialTruth, optional
            Result of the last call for the same example.
        probabilities : ndarray of shape (1, n_labels), optional
            See `update`.

        Raises
        ------
        ValueError
            See `update`. Nothing has been measured then.
        """
        scores = np.ascontiguousarray(scores)
        probabilities = _NONE if probabilities is None else np.ascontiguousarray(probabilities)
        _check(scores, targets, n_known, probabilities)
        n_before = int(self._totals[_MODEL, _prequential.EXAMPLES])
        number = n_before + 1 if before is None else before.number
        weight = int(_prequential.units(targets.weights, 0)) if before is None else before.weight
        part = self._part(number, scores[0], targets, int(n_known[0]), weight)
        if before is None or not len(part.labels):
            own_weight = np.array([weight / _prequential.UNIT])
            self.update(scores, targets._replace(weights=own_weight), n_known, probabilities)
            return part if len(part.labels) else before
        self._widen(scores.shape[1] - 1)
        joined = before.joined(part)
        for of in _SYSTEMS:
            self._amend(of, part, _judged(before, of)[0], _judged(joined, of)[0])
        if len(probabilities):
            self._start_bins()
            own = probabilities[0], scores[0], part.labels, part.truth, int(n_known[0]), weight
            _prequential.add_to_bins(*own, self._seen, self._bins, self._label_bins)
        listed = slice(targets.indptr[0], targets.indptr[1])
        told = targets.indices[listed], targets.signs[listed]
        _prequential.note(*told, False, targets.n_labels[0], weight, self._totals, self._seen)
        if len(self._label_bins):
            self._widen_bins(int(self._totals[_MODEL, _prequential.ROWS]) + len(part.labels))
            _prequential.give_rows(*told, self._counts[_MODEL, _prequential.ALL], self._totals, self._seen)
        self._take_point()
        return joined

    def note_alarm(self, number: int, column: int) -> None:
        """Record a drift alarm in the history, at an example no earlier than that of the last call.

        The column is 0 for the detector of all labels together, otherwise 1 + the column of the label.
        """
        self._history.alarms.append((number, column))

    def _part(self, number: int, scores: NDArray[Any], targets: Targets, n_known: int, weight: int) -> PartialTruth:
        """Return the truth and the margins of the labels listed in the targets of one example."""
        told = slice(targets.indptr[0], targets.indptr[1])
        labels, n_labels = targets.indices[told], int(self._totals[_MODEL, _prequential.LABELS])
        frequent = np.zeros(1 + max(n_labels, len(scores) - 1))
        _prequential.rate(self._counts[_MODEL, _prequential.ALL], self._totals[_MODEL], self._seen, frequent)
        margins = np.full((2, len(labels)), np.nan)
        for of, (given, n) in enumerate(((scores, n_known), (frequent, n_labels))):
            known = labels < n
            margins[of, known] = given[1 + labels[known]].astype(np.float64) - float(given[0])
        return PartialTruth(number, labels.copy(), targets.signs[told] > 0, margins, weight)

    def check_parts(self, parts: Iterable[PartialTruth]) -> None:
        """Raise ValueError unless these parts can belong to examples that were measured here."""
        windows = [_Window(self._held_ring(of), self._held_codes(of)) for of in _SYSTEMS]
        for part in parts:
            if not 1 <= part.number <= self._totals[_MODEL, _prequential.EXAMPLES]:
                raise ValueError("parts: an example was never measured")
            if not ((part.labels >= 0) & (part.labels < self._totals[_MODEL, _prequential.LABELS])).all():
                raise ValueError("parts: an outcome refers to a label that does not exist")
            place = self._place(part.number)
            if place is not None and not all(windows[of].has(place, *_judged(part, of)) for of in _SYSTEMS):
                raise ValueError("parts must match the stored outcomes of their examples")

    def _amend(self, of: int, part: PartialTruth, old: NDArray[np.int64], new: NDArray[np.int64]) -> None:
        """Replace the counts `old` of an example by `new`, which also contains the outcomes of another part."""
        codes = _judged(part, of)[1]
        if of == _MODEL:
            _prequential.group(codes, self._counts[of, _prequential.ALL], part.weight, self._groups)
        np.add.at(self._counts[of, _prequential.ALL], (codes >> 2, codes & 3), part.weight)
        _prequential.replace(old, new, self._totals[of], self._sums[of])
        if (place := self._place(part.number)) is None:
            return
        np.add.at(self._counts[of, _prequential.RECENT], (codes >> 2, codes & 3), part.weight)
        end = int(self._held_ring(of)[: place + 1, : _prequential.KNOWN].sum())
        held, entries = self._held_codes(of), np.empty_like(codes)
        at = np.searchsorted(np.cumsum(lengths_of(held)), end, side="right")
        held = np.insert(held, at, entries[: _prequential.pack(codes, entries)])
        self._ring[of, (self._totals[of, _prequential.OLDEST] + place) % self._ring.shape[1]] = new
        self._put_codes(of, held)

    def _place(self, number: int) -> int | None:
        """Return the index of an example in the window, counted from the oldest; None if it is not in the window."""
        totals = self._totals[_MODEL]
        place = number - 1 - int(totals[_prequential.EXAMPLES] - totals[_prequential.LENGTH])
        return place if place >= 0 else None

    def _advance(
        self,
        scores: NDArray[Any],
        targets: Targets,
        n_known: NDArray[np.int64],
        probabilities: NDArray[np.float64],
        first: int,
        last: int,
    ) -> int:
        own = self._counts, self._totals, self._sums, self._ring, tuple(self._codes), self._seen
        own_bins = self._bins, self._groups, self._label_bins
        where = first, last, self._window
        return int(_prequential.advance(scores, targets, n_known, probabilities, *where, (*own, *own_bins)))

    def _take_point(self) -> None:
        """Record the metrics in the history if it has a point at this number of examples."""
        if self._history.has_place(self.given):
            self._history.add(self._covered, self._measured_basics())

    @property
    def _covered(self) -> int:
        return int(self._totals[_MODEL, _prequential.EXAMPLES])

    def _measured(self, basic: bool = False) -> NDArray[np.float64]:
        """Return the current metrics in the format of `_prequential.measure`."""
        measured: NDArray[np.float64]
        measured = _prequential.measure(self._counts, self._totals, self._sums, self._ring, basic, self._hidden)
        return measured

    def _measured_basics(self) -> NDArray[np.float64]:
        """Return the current metrics that have a history."""
        return self._measured(basic=True)[..., : _prequential.N_BASIC].copy()

    def measures(self) -> dict[str, dict[str, Any]]:
        """Return the current metrics.

        Returns
        -------
        dict
            "cumulative" and "window", each with the number of `examples` and the metrics of `measures.STREAMED`, named
            as in `manylabel_core.metrics`; None without examples. `baseline` has the metrics of a predictor of the most
            frequent labels so far. "window" also has its `size`.
        """
        measured, covered = self._measured(), self._covered
        cumulative, window = (
            {"examples": n, **_named(measured[_MODEL, part], n), "baseline": _named(measured[_BASELINE, part], n)}
            for part, n in enumerate((covered, min(covered, self._window)))
        )
        return {"cumulative": cumulative, "window": {"size": self._window, **window}}

    def by_seen(self) -> dict[str, dict[str, float]]:
        """Return the quality of predictions since the start, in groups by how often a label was relevant before the
        example.

        The groups are `GROUPS`. Each has `true`, the number of relevant labels, and the `precision`, `recall` and `f1`
        over all its decisions.
        """
        return dict(zip(GROUPS, map(pooled, self._groups / _prequential.UNIT), strict=True))

    def reliability(self, label: int | None = None) -> Reliability:
        """Return the frequency of true labels by predicted probability since the start, of one label or of all together
        (None).

        A label that did not exist before the example has a probability of 0. A single label is counted only after the
        weights of its relevant examples sum to ten, because bins take much memory.
        """
        if label is None:
            return reliability_of(self._bins)
        row = int(self._seen[label, _prequential.ROW]) if label < len(self._seen) else 0
        return reliability_of(self._label_bins[row - 1] if row else np.zeros_like(self._bins))

    def history(self) -> MeasureHistory:
        """Return the metrics at past numbers of examples; the last ones are current."""
        return self._history.of_measures(self.given, self._covered, self._measured_basics())

    @property
    def alarms(self) -> list[tuple[int, int]]:
        """Return the latest calls of `note_alarm`, at most `MAX_ALARMS`, oldest first."""
        return list(self._history.alarms)

    def labels(self) -> LabelCounts:
        """Return the counts of each label, copied."""
        n_labels = int(self._totals[_MODEL, _prequential.LABELS])
        counts, seen = self._counts[_MODEL, :, :n_labels] / _prequential.UNIT, self._seen[:n_labels]
        relevant = counts[_prequential.ALL][:, [_prequential.TP, _prequential.FN]].sum(axis=1)
        told = (seen[:, _prequential.PARTIAL] + self._totals[_MODEL, _prequential.COMPLETE]) / _prequential.UNIT
        first, last = seen[:, _prequential.FIRST].copy(), seen[:, _prequential.LAST].copy()
        return LabelCounts(relevant, told, first, last, counts[_prequential.ALL], counts[_prequential.RECENT])

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays that share no memory with this object; it depends only on the examples and
        their order.
        """
        n_labels = int(self._totals[_MODEL, _prequential.LABELS])
        rows = self._seen[:n_labels, _prequential.ROW] if self._bins.any() else np.zeros(0, dtype=np.int64)
        return {
            "window": np.array([self._window], dtype=np.int64),
            "counts": self._counts[:, _prequential.ALL, :n_labels].copy(),
            "totals": self._totals[:, : _prequential.LABELS + 1].copy(),
            "sums": self._sums.copy(),
            "ring": np.stack([self._held_ring(of) for of in _SYSTEMS]),
            "codes": self._held_codes(_MODEL),
            "baseline_codes": self._held_codes(_BASELINE),
            "seen": self._seen[:n_labels, : _prequential.ORDER].copy(),
            "bins": self._bins.copy(),
            "groups": self._groups.copy(),
            "label_bins": self._label_bins[rows[rows > 0] - 1],
            **self._history.state(),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Inverse of `state`, in place; raise ValueError, without changes, unless it is a state with this window."""
        recent = check_state(arrays, self._window)
        codes, length = codes_of(arrays), arrays["ring"].shape[1]
        counts = np.stack([arrays["counts"], np.zeros_like(arrays["counts"])], axis=1)
        totals = np.zeros((2, _prequential.N_TOTALS), dtype=np.int64)
        totals[:, : _prequential.LABELS + 1] = arrays["totals"]
        for of in _SYSTEMS:
            counts[of, _prequential.RECENT] = recent[of]
            totals[of, _prequential.LENGTH], totals[of, _prequential.N_CODES] = length, len(codes[of])
        self._counts, self._totals = counts, totals
        self._sums, self._bins, self._groups = (arrays[name].copy() for name in ("sums", "bins", "groups"))
        totals[_MODEL, _prequential.ROWS] = len(arrays["label_bins"])
        self._label_bins = _moved(arrays["label_bins"], max(int(self._bins.any()), len(arrays["label_bins"])))
        told = arrays["seen"][:, _prequential.PARTIAL] + totals[_MODEL, _prequential.COMPLETE]
        relevant = relevant_of(arrays["counts"])
        often = relevant >= _prequential.LEAST_RELEVANT
        rows = np.cumsum(often) * often * self._bins.any()
        order = np.argsort(-(relevant / np.maximum(told, 1)), kind="stable")  # initial order for the next sort
        self._seen = np.column_stack([arrays["seen"], order, rows])
        capacity = min(self._window, max(16, length))
        self._ring = np.stack([_moved(arrays["ring"][of], capacity) for of in _SYSTEMS])
        self._codes = [_moved(held, max(64, len(held))) for held in codes]
        self._history = History.restored(arrays)

    def _widen(self, n_labels: int) -> None:
        capacity = len(self._seen)
        if n_labels > capacity:
            counts = np.zeros((2, 2, max(n_labels, _more(capacity)), 3), dtype=np.int64)
            counts[:, :, :capacity] = self._counts
            self._counts, self._seen = counts, _moved(self._seen, counts.shape[2])

    def _start_bins(self) -> None:
        """Allocate the bins of labels, unless they exist."""
        if not len(self._label_bins):
            often = np.flatnonzero(relevant_of(self._counts[:, _prequential.ALL]) >= _prequential.LEAST_RELEVANT)
            self._seen[often, _prequential.ROW] = np.arange(1, 1 + len(often))
            self._totals[_MODEL, _prequential.ROWS] = len(often)
            self._widen_bins(max(1, len(often)))

    def _widen_bins(self, n_rows: int) -> None:
        held = len(self._label_bins)
        if n_rows > held:
            self._label_bins = _moved(self._label_bins, max(n_rows, _more(held)))

    def _make_room(self) -> None:
        """Enlarge the arrays that are full: the bins of labels, the ring of the examples, or the rings of their
        labels."""
        if len(self._label_bins) and (rows := int(self._totals[_MODEL, _prequential.ROWS_NEEDED])) > len(
            self._label_bins
        ):
            self._widen_bins(rows)
            return
        capacity = self._ring.shape[1]
        if self._totals[_MODEL, _prequential.LENGTH] == capacity < self._window:
            # Until the window is full, no example has been dropped and the oldest is in front.
            self._ring = np.stack([_moved(ring, min(self._window, 2 * capacity)) for ring in self._ring])
            return
        for of in _SYSTEMS:
            if (needed := int(self._totals[of, _prequential.NEEDED])) > len(self._codes[of]):
                self._grow_codes(of, max(2 * len(self._codes[of]), needed))

    def _grow_codes(self, of: int, capacity: int) -> None:
        self._codes[of] = _unrolled(self._codes[of], *self._extent(of, _prequential.FIRST_CODE), capacity)
        self._totals[of, _prequential.FIRST_CODE] = 0

    def _put_codes(self, of: int, codes: NDArray[np.int32]) -> None:
        if len(codes) > len(self._codes[of]):
            self._grow_codes(of, max(2 * len(self._codes[of]), len(codes)))
        self._codes[of][: len(codes)] = codes
        self._totals[of, _prequential.FIRST_CODE], self._totals[of, _prequential.N_CODES] = 0, len(codes)

    def _held_ring(self, of: int) -> NDArray[np.int64]:
        """Return the outcomes of the examples in the window, oldest first."""
        return _unrolled(self._ring[of], *self._extent(of, _prequential.OLDEST))

    def _held_codes(self, of: int) -> NDArray[np.int32]:
        """Return the outcomes of the labels in the window, oldest first, as in the ring."""
        return _unrolled(self._codes[of], *self._extent(of, _prequential.FIRST_CODE))

    def _extent(self, of: int, begin: int) -> tuple[int, int]:
        """Return the start and the length of a ring, which are adjacent in `totals`."""
        start, length = self._totals[of, begin : begin + 2].tolist()
        return start, length


class _Window:
    """Counts of the examples of a window, oldest first, to compare with."""

    def __init__(self, ring: NDArray[np.int64], codes: NDArray[np.int32]) -> None:
        self._ring, self._codes, self._held = ring, codes, np.cumsum(lengths_of(codes))
        self._ends = np.cumsum(ring[:, : _prequential.KNOWN].sum(axis=1)).tolist()

    def has(self, place: int, row: NDArray[np.int64], codes: NDArray[np.int32]) -> bool:
        """Return whether the example at the index has this outcome."""
        begin, end = self._ends[place - 1] if place else 0, self._ends[place]
        own = unpacked(self._codes[slice(*np.searchsorted(self._held, [begin, end], side="right"))])
        return bool((self._ring[place] == row).all()) and np.array_equal(np.sort(own), np.sort(codes))


def _judged(part: PartialTruth, of: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the outcome of an example, as a row of the ring, and the codes of its labels predicted or true."""
    row, found = _prequential.judge_part(np.array(part.margins[of]), part.truth)
    row[_prequential.WEIGHT] = part.weight
    return row, ((found & 3) | (part.labels[found >> 2] << 2)).astype(np.int32)


def pooled(counts: NDArray[Any]) -> dict[str, float]:
    """Return precision, recall and F1 of all decisions counted: true positives, false positives, false negatives."""
    tp, fp, fn = map(float, counts)
    precision, recall, f1 = (
        part / whole if whole else 0.0 for part, whole in ((tp, tp + fp), (tp, tp + fn), (2 * tp, 2 * tp + fp + fn))
    )
    return {"true": tp + fn, "precision": precision, "recall": recall, "f1": f1}


def _named(measures: NDArray[np.float64], examples: int) -> dict[str, float | None]:
    return dict(zip(STREAMED, measures.tolist(), strict=True)) if examples else dict.fromkeys(STREAMED)


def _more(capacity: int) -> int:
    """Return the next capacity of an array with a row per label; at most a quarter of it is unused."""
    return max(16, capacity + capacity // 4)


def _unrolled(ring: NDArray[Any], start: int, length: int, capacity: int | None = None) -> NDArray[Any]:
    """Return a new ring with the entries of a ring, oldest first; by default they fill it."""
    moved = np.zeros((length if capacity is None else capacity, *ring.shape[1:]), dtype=ring.dtype)
    first = min(length, len(ring) - start)
    moved[:first] = ring[start : start + first]
    moved[first:length] = ring[: length - first]
    return moved


def _moved(held: NDArray[Any], capacity: int) -> NDArray[Any]:
    """Return a ring of this capacity that starts with `held`."""
    ring = np.zeros((capacity, *held.shape[1:]), dtype=held.dtype)
    ring[: len(held)] = held
    return ring


def _check(
    scores: NDArray[Any], targets: Targets, n_known: NDArray[np.int64], probabilities: NDArray[np.float64]
) -> None:
    n = len(targets.n_labels)
    if scores.ndim != 2 or scores.shape[1] < 1 or len(scores) != n or len(n_known) != n:
        raise ValueError(f"scores and n_known must have {n} rows, like targets")
    if probabilities is not _NONE and probabilities.shape != (n, scores.shape[1] - 1):
        raise ValueError(f"probabilities must have {n} rows, and one column for each label")
    if len(targets.indptr) != n + 1 or len(targets.complete) != n or len(targets.signs) != len(targets.indices):
        raise ValueError("targets: the lengths of the arrays are inconsistent")
    if len(targets.weights):
        as_weights(targets.weights, n, "weights")
    unfit = _prequential.first_unfit(scores.shape[1] - 1, targets.indptr, targets.indices, targets.n_labels, n_known)
    if unfit >= 0:
        raise ValueError(
            f"targets, example {unfit}: labels must be below n_labels, n_known at most n_labels, and "
            "n_labels at most the number of label columns of scores"
        )
