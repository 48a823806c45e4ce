"""Measures of a stream: every example is a test before it is a lesson."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.metrics import _prequential
from manylabel_core.rows import Targets

_FIELDS = {
    "window": (np.int64, (1,)),
    "counts": (np.int64, (None, 3)),
    "totals": (np.int64, (_prequential.LABELS + 1,)),
    "sums": (np.float64, (_prequential.N_SUMS,)),
    "ring": (np.int64, (None, _prequential.N_FIELDS)),
    "codes": (np.int32, (None,)),
}

MAX_EXAMPLES = 2**53
"""More examples than any stream has."""


class PartialTruth(NamedTuple):
    """The part of an example's truth that is known so far, and what was predicted of it.

    Attributes
    ----------
    number : int
        Which of the examples measured it is, from 1.
    labels : ndarray of shape (n_told,), int32
        Columns of the labels, in the order in which they were told.
    truth : ndarray of shape (n_told,), bool
    margins : ndarray of shape (n_told,), float64
        Score minus threshold of each; NaN where there was none.
    """

    number: int
    labels: NDArray[np.int32]
    truth: NDArray[np.bool_]
    margins: NDArray[np.float64]

    def joined(self, more: PartialTruth) -> PartialTruth:
        """Return this part and another of the same example together."""
        return PartialTruth(
            self.number,
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.truth, more.truth]),
            np.concatenate([self.margins, more.margins]),
        )


class Prequential:
    """A prequential measurement is of predictions made before learning: since the start, and over the last examples.

    A label is predicted when its score lies above the threshold. Only labels whose truth is known count, in
    every measure; an example without any such label is not counted at all. A label that did not exist before
    the example counts as not predicted, and `one_error` and `ranking_loss` rank the labels that did exist.
    Macro F1 is the mean over all labels that exist by now. For 0/0 and ties see `manylabel_core.metrics`.

    Nothing depends on how the examples are grouped into calls, bit for bit. The window is exact: its counts
    are integers, and its sums are added anew whenever they are asked for, so they do not drift.

    Parameters
    ----------
    window : int, default=1000
        How many of the last examples the windowed measures cover, at least 1. Memory is bounded by the labels
        that were predicted or true in that many examples.

    Examples
    --------
    >>> import numpy as np
    >>> from manylabel_core.rows import as_targets
    >>> prequential = Prequential(window=1)
    >>> scores = np.array([[0.0, 0.5, -0.5], [0.0, 0.5, -0.5]])  # threshold, label 0, label 1
    >>> prequential.update(scores, as_targets([[1, 0], [1, 1]]), np.array([2, 2]))
    >>> measures = prequential.measures()
    >>> measures["cumulative"]["micro_f1"], measures["cumulative"]["hamming_loss"]
    (0.8, 0.25)
    >>> measures["window"]["hamming_loss"]
    0.5
    """

    def __init__(self, window: int = 1000) -> None:
        if operator.index(window) < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self._window = operator.index(window)
        self._counts = np.zeros((2, 16, 3), dtype=np.int64)
        self._totals = np.zeros(_prequential.N_TOTALS, dtype=np.int64)
        self._sums = np.zeros(_prequential.N_SUMS, dtype=np.float64)
        self._ring: NDArray[np.int64] = np.zeros((min(self._window, 16), _prequential.N_FIELDS), dtype=np.int64)
        self._codes: NDArray[np.int32] = np.zeros(64, dtype=np.int32)

    @property
    def window(self) -> int:
        """Return how many of the last examples the windowed measures cover."""
        return self._window

    @property
    def nbytes(self) -> int:
        """Return the bytes of the arrays held."""
        arrays = (self._counts, self._totals, self._sums, self._ring, self._codes)
        return sum(array.nbytes for array in arrays)

    def update(self, scores: NDArray[Any], targets: Targets, n_known: NDArray[np.int64]) -> None:
        """Measure examples, in their order.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, 1 + n_labels), float32 or float64
            Finite scores made before learning, as `learn` returns them: column 0 the threshold.
        targets : Targets
            The truth of the same examples.
        n_known : ndarray of shape (n_samples,), int64
            How many label columns existed before each example; at most its `targets.n_labels`.

        Raises
        ------
        ValueError
            If the arrays do not fit together. Nothing has been measured then.
        """
        scores = np.ascontiguousarray(scores)  # numba would compile anew for another layout
        _check(scores, targets, n_known)
        self._widen(scores.shape[1] - 1)
        first = 0
        while (first := self._advance(scores, targets, n_known, first)) < len(scores):
            self._make_room()

    def update_part(
        self, scores: NDArray[Any], targets: Targets, n_known: NDArray[np.int64], before: PartialTruth | None = None
    ) -> PartialTruth | None:
        """Measure one example whose truth comes in parts; it counts once, with all that is known of it by now.

        Parameters
        ----------
        scores, targets, n_known : of the one example, as of `update`
            Its targets are not complete, and list none of the labels of the parts before.
        before : PartialTruth, optional
            What the last call for this example returned.

        Returns
        -------
        PartialTruth or None
            All parts together; None if nothing is known of the example yet.

        Raises
        ------
        ValueError
            As `update`. Nothing has been measured then.
        """
        scores = np.ascontiguousarray(scores)
        _check(scores, targets, n_known)
        number = int(self._totals[_prequential.EXAMPLES]) + 1 if before is None else before.number
        part = _part(number, scores[0], targets, int(n_known[0]))
        if before is None or not len(part.labels):
            self.update(scores, targets, n_known)
            return part if len(part.labels) else before
        self._widen(scores.shape[1] - 1)
        self._totals[_prequential.LABELS] = max(self._totals[_prequential.LABELS], targets.n_labels[0])
        joined = before.joined(part)
        self._amend(number, _judged(before)[0], _judged(joined)[0], _judged(part)[1])
        return joined

    def check_parts(self, parts: Iterable[PartialTruth]) -> None:
        """Raise ValueError unless these can be parts of examples measured here."""
        ring = self._ring[self._places(_prequential.OLDEST, len(self._ring))]
        held = self._codes[self._places(_prequential.FIRST_CODE, len(self._codes))]
        ends = np.cumsum(ring[:, : _prequential.KNOWN].sum(axis=1)).tolist()
        for part in parts:
            if not 1 <= part.number <= self._totals[_prequential.EXAMPLES]:
                raise ValueError("parts: an example was never measured")
            if not ((part.labels >= 0) & (part.labels < self._totals[_prequential.LABELS])).all():
                raise ValueError("parts: names a label that does not exist")
            if (place := self._place(part.number)) is None:
                continue
            row, codes = _judged(part)
            own = held[ends[place - 1] if place else 0 : ends[place]]
            if (ring[place] != row).any() or not np.array_equal(np.sort(own), np.sort(codes)):
                raise ValueError("parts: an example was measured otherwise")

    def _amend(self, number: int, old: NDArray[np.int64], new: NDArray[np.int64], codes: NDArray[np.int32]) -> None:
        """Let an example that was measured as `old` count as `new`, by the outcomes of more labels."""
        np.add.at(self._counts[_prequential.ALL], (codes >> 2, codes & 3), 1)
        _prequential.replace(old, new, self._totals, self._sums)
        if (place := self._place(number)) is None:
            return
        np.add.at(self._counts[_prequential.RECENT], (codes >> 2, codes & 3), 1)
        places = self._places(_prequential.OLDEST, len(self._ring))[: place + 1]
        end = int(self._ring[places, : _prequential.KNOWN].sum())
        held = np.insert(self._codes[self._places(_prequential.FIRST_CODE, len(self._codes))], end, codes)
        self._ring[places[-1]] = new
        room = len(self._codes)
        self._codes = _moved(held, room if len(held) <= room else max(2 * room, len(held)))
        self._totals[_prequential.FIRST_CODE], self._totals[_prequential.N_CODES] = 0, len(held)

    def _place(self, number: int) -> int | None:
        """Return which of the window an example is, from 0, the oldest; None if it has left the window."""
        place = number - 1 - int(self._totals[_prequential.EXAMPLES] - self._totals[_prequential.LENGTH])
        return place if place >= 0 else None

    def _advance(self, scores: NDArray[Any], targets: Targets, n_known: NDArray[np.int64], first: int) -> int:
        own = self._counts, self._totals, self._sums, self._ring, self._codes
        return int(_prequential.advance(scores, *targets, n_known, first, self._window, *own))

    def measures(self) -> dict[str, dict[str, float]]:
        """Return the measures so far.

        Returns
        -------
        dict
            "cumulative" and "window", each with `examples`, how many it covers, and the measures that
            `manylabel_core.metrics` has under these names: `precision`, `recall`, `f1`, `micro_f1`,
            `macro_f1`, `hamming_loss`, `one_error`, `ranking_loss`, `subset_accuracy`; 0.0 where nothing was
            seen. "window" also has its `size`.
        """
        n_labels = int(self._totals[_prequential.LABELS])
        cumulative = _named(self._totals, self._sums, self._counts[_prequential.ALL], n_labels)
        totals, sums = _prequential.recent(self._totals, self._ring)
        window = _named(totals, sums, self._counts[_prequential.RECENT], n_labels)
        return {"cumulative": cumulative, "window": {"size": self._window, **window}}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all there is to know, as named arrays that share no memory with this object.

        They depend only on the examples given, not on how they were grouped or on any `restore` in between.
        """
        n_labels = int(self._totals[_prequential.LABELS])
        return {
            "window": np.array([self._window], dtype=np.int64),
            "counts": self._counts[_prequential.ALL, :n_labels].copy(),
            "totals": self._totals[: _prequential.LABELS + 1].copy(),
            "sums": self._sums.copy(),
            "ring": self._ring[self._places(_prequential.OLDEST, len(self._ring))],
            "codes": self._codes[self._places(_prequential.FIRST_CODE, len(self._codes))],
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become what `state` described.

        Raises
        ------
        ValueError
            If the arrays are not a state, or one of another window. Nothing has changed then.
        """
        _check_state(arrays, self._window)
        ring, codes = arrays["ring"], arrays["codes"]
        counts = np.stack([arrays["counts"], np.zeros_like(arrays["counts"])])
        np.add.at(counts[_prequential.RECENT], (codes >> 2, codes & 3), 1)
        totals = np.zeros(_prequential.N_TOTALS, dtype=np.int64)
        totals[: _prequential.LABELS + 1] = arrays["totals"]
        totals[_prequential.LENGTH], totals[_prequential.N_CODES] = len(ring), len(codes)
        self._counts, self._totals, self._sums = counts, totals, arrays["sums"].copy()
        self._ring = _moved(ring, min(self._window, max(16, len(ring))))
        self._codes = _moved(codes, max(64, len(codes)))

    def _widen(self, n_labels: int) -> None:
        capacity = self._counts.shape[1]
        if n_labels > capacity:
            counts = np.zeros((2, max(n_labels, 2 * capacity), 3), dtype=np.int64)
            counts[:, :capacity] = self._counts
            self._counts = counts

    def _make_room(self) -> None:
        """Double the ring that is in the way."""
        if self._totals[_prequential.LENGTH] == len(self._ring) < self._window:
            # Shorter than the window it has lost no example yet, so the oldest is still in front.
            self._ring = _moved(self._ring, min(self._window, 2 * len(self._ring)))
        else:
            codes = self._codes[self._places(_prequential.FIRST_CODE, len(self._codes))]
            self._codes = _moved(codes, 2 * len(self._codes))
            self._totals[_prequential.FIRST_CODE] = 0

    def _places(self, begin: int, capacity: int) -> NDArray[np.int64]:
        """Return where the entries of a ring are, oldest first: `totals` has its beginning, then its length."""
        start, length = self._totals[begin : begin + 2].tolist()
        return np.arange(start, start + length, dtype=np.int64) % capacity


def _part(number: int, scores: NDArray[Any], targets: Targets, n_known: int) -> PartialTruth:
    """Return the truth and the margins of the labels that the targets of one example list."""
    labels = targets.indices[targets.indptr[0] : targets.indptr[1]]
    margins = np.where(labels < n_known, scores[1 + labels].astype(np.float64) - float(scores[0]), np.nan)
    return PartialTruth(number, labels.copy(), targets.signs[targets.indptr[0] : targets.indptr[1]] > 0, margins)


def _judged(part: PartialTruth) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what came of an example, as a row of the ring, and the codes of its labels predicted or true."""
    row, found = _prequential.judge_part(part.margins, part.truth)
    return row, (found & 3 | part.labels[found >> 2] << 2).astype(np.int32)


def _named(
    totals: NDArray[np.int64], sums: NDArray[np.float64], counts: NDArray[np.int64], n_labels: int
) -> dict[str, float]:
    examples = int(totals[_prequential.EXAMPLES])
    precision, recall, hamming_loss, ranking_loss = (_ratio(float(term), examples) for term in sums)
    micro_f1, macro_f1 = _prequential.f1_scores(counts, n_labels)
    return {
        "examples": examples,
        "precision": precision,
        "recall": recall,
        "f1": _ratio(2 * precision * recall, precision + recall),
        "micro_f1": micro_f1,
        "macro_f1": macro_f1,
        "hamming_loss": hamming_loss,
        "one_error": _ratio(int(totals[_prequential.ONE_ERRORS]), examples),
        "ranking_loss": ranking_loss,
        "subset_accuracy": _ratio(int(totals[_prequential.EXACT]), examples),
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _moved(held: NDArray[Any], capacity: int) -> NDArray[Any]:
    """Return a ring of that capacity which begins with `held`."""
    ring = np.zeros((capacity, *held.shape[1:]), dtype=held.dtype)
    ring[: len(held)] = held
    return ring


def _check(scores: NDArray[Any], targets: Targets, n_known: NDArray[np.int64]) -> None:
    n = len(targets.n_labels)
    if scores.ndim != 2 or scores.shape[1] < 1 or len(scores) != n or len(n_known) != n:
        raise ValueError(f"scores and n_known: expected one row each for the {n} examples of targets")
    if len(targets.indptr) != n + 1 or len(targets.complete) != n or len(targets.signs) != len(targets.indices):
        raise ValueError("targets: the lengths of the arrays do not fit together")
    unfit = _prequential.first_unfit(scores.shape[1] - 1, targets.indptr, targets.indices, targets.n_labels, n_known)
    if unfit >= 0:
        raise ValueError(
            f"targets, example {unfit}: labels must lie below n_labels, n_labels must not exceed the columns "
            "of scores, nor n_known n_labels"
        )


def _check_state(arrays: Mapping[str, NDArray[Any]], window: int) -> None:
    for name, (dtype, shape) in _FIELDS.items():
        array = arrays.get(name)
        if (
            array is None
            or array.dtype != dtype
            or len(array.shape) != len(shape)
            or not all(due in (None, found) for due, found in zip(shape, array.shape, strict=True))
        ):
            raise ValueError(f"{name}: expected an array of {dtype.__name__} of shape {shape}")
    if arrays["window"][0] != window:
        raise ValueError(f"window: written with {arrays['window'][0]}, this one has {window}")
    _check_totals(arrays, window)
    _check_ring(arrays["ring"], len(arrays["counts"]))
    _check_codes(arrays["codes"], arrays["ring"], arrays["counts"])


def _check_totals(arrays: Mapping[str, NDArray[Any]], window: int) -> None:
    totals, counts, sums = arrays["totals"], arrays["counts"], arrays["sums"]
    examples = int(totals[_prequential.EXAMPLES])
    if not 0 <= examples < MAX_EXAMPLES or len(arrays["ring"]) != min(examples, window):
        raise ValueError("totals: the examples do not fit ring")
    if totals[_prequential.LABELS] != len(counts):
        raise ValueError("totals: the labels do not fit counts")
    for name, array in (("totals", totals[: _prequential.LABELS]), ("counts", counts), ("sums", sums)):
        if not ((array >= 0) & (array <= examples)).all():
            raise ValueError(f"{name}: outside 0 to the number of examples")


def _check_ring(ring: NDArray[np.int64], n_labels: int) -> None:
    known, pairs = ring[:, _prequential.KNOWN], ring[:, _prequential.PAIRS]
    if not ((ring >= 0) & (ring[:, :4] <= n_labels).all(axis=1, keepdims=True)).all():
        raise ValueError("ring: not counts of labels")
    if (ring[:, : _prequential.KNOWN].sum(axis=1) > known).any() or (pairs > known * known).any():
        raise ValueError("ring: more than the labels known")
    if (ring[:, _prequential.MISRANKED] > pairs).any() or (ring[:, _prequential.ONE_ERROR] > 1).any():
        raise ValueError("ring: more errors than can be made")


def _check_codes(codes: NDArray[np.int32], ring: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    if (codes < 0).any() or (codes >> 2 >= len(counts)).any() or (codes & 3 > _prequential.FN).any():
        raise ValueError("codes: names a label or an outcome that does not exist")
    found = ring[:, : _prequential.KNOWN]
    lengths = found.sum(axis=1)
    if lengths.sum() != len(codes):
        raise ValueError("codes: not as many as ring says")
    outcomes = np.zeros_like(found)
    np.add.at(outcomes, (np.repeat(np.arange(len(ring)), lengths), codes & 3), 1)
    recent = np.zeros_like(counts)
    np.add.at(recent, (codes >> 2, codes & 3), 1)
    if (outcomes != found).any() or (recent > counts).any():
        raise ValueError("codes: not the outcomes that ring and counts say")
