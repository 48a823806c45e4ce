"""Promise of precision: its state, decisions about examples, and learning from their true labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.promise import _gate, _pass, _score
from manylabel_core.rows import Targets
from manylabel_core.storage import MAX_COUNT, check_like, check_range, enlarged

MAX_CANDIDATES = _pass.MAX_CANDIDATES
NO_PARENTS = np.zeros(0, dtype=np.int32)
NO_COLUMNS = np.zeros(0, dtype=np.int64)
_MAX_SUM = 1e15
"""Upper bound of the numbers of a plan, whose weights stay below 1e9 times the number of remembered decisions."""


class Target(NamedTuple):
    """Level of the promise."""

    precision: float  # share of correct labels among the applied labels, above 0 and below 1
    # share of entirely correct examples among the settled ones, above 0 and below 1; None: no example is settled
    settled: float | None = 0.9
    missed: float = 0.02  # maximum share of all true labels missed in settled examples, above 0 and below 1
    audit_rate: float = 0.05  # share of settled examples sent to review as an audit, from 0 to 1

    @property
    def accounts(self) -> tuple[float | None, ...]:
        """Return the shares on which the accounts depend."""
        return self[:3]


class Memory(NamedTuple):
    """Arrays that compiled functions modify."""

    # (5, at least n_labels): sums for the shift, the blame, and how often the label was applied, and wrongly
    labels: NDArray[np.float64]
    label_weights: NDArray[np.float64]  # (8,)
    label_covariance: NDArray[np.float64]  # (8, 8)
    example_weights: NDArray[np.float64]  # (7,)
    example_covariance: NDArray[np.float64]  # (7, 7)
    bins: NDArray[np.float64]  # (2, 3, 64): plans of labels and of examples
    gates: NDArray[np.float64]  # (2, 9): accounts of labels and of examples
    counts: NDArray[np.float64]  # (7,)
    recent_applied: NDArray[np.bool_]  # (1000,): whether each of the latest labels applied was wrong
    # (1000, 4): true labels, labels applied, labels missed, and 0 if the example was not settled, 1 if wrong, 2 if
    # right
    recent_examples: NDArray[np.int32]


class Decision(NamedTuple):
    """Decision about an example: the labels to apply, and whether the example is settled."""

    values: NDArray[np.float64]  # (12 + 5 n_candidates,): all data needed to count the decision later, see `_pass`

    @property
    def applied(self) -> list[int]:
        """Return the columns of the labels that may be applied without review, ascending."""
        candidates = self._candidates
        flags = candidates[:, _pass.CANDIDATE_FLAGS].astype(np.int64)
        listed: list[int] = candidates[(flags & _pass.APPLIED) > 0, _pass.COLUMN].astype(np.int64).tolist()
        return listed

    @property
    def settled(self) -> bool:
        """True if the whole example needs no review."""
        return bool(int(self.values[_pass.FLAGS]) & _pass.SETTLED)

    @property
    def review(self) -> bool:
        """True if the example needs review: it is not settled, or it is audited."""
        return (int(self.values[_pass.FLAGS]) & (_pass.SETTLED | _pass.AUDITED)) != _pass.SETTLED

    @property
    def _candidates(self) -> NDArray[np.float64]:
        return self.values[_pass.HEADER :].reshape(-1, _pass.FIELDS)

    def check(self) -> Decision:
        """Return the decision; raise ValueError if it cannot come from a `Promise`."""
        values = self.values
        if values.ndim != 1 or len(values) < _pass.HEADER or not np.isfinite(values).all():
            raise ValueError("a decision must have at least 12 numbers, all finite")
        if len(values) != _pass.HEADER + _pass.FIELDS * values[_pass.N] or values[_pass.N] > MAX_CANDIDATES:
            raise ValueError(f"a decision must have at most {MAX_CANDIDATES} candidates, with 5 numbers each")
        candidates, flags = self._candidates, values[_pass.FLAGS]
        columns = candidates[:, _pass.COLUMN]
        if flags not in range(8) or not np.isin(candidates[:, _pass.CANDIDATE_FLAGS], (0, 2, 3)).all():
            raise ValueError("flags of a decision must be 0 to 7, and those of a candidate 0, 2 or 3")
        if (columns != np.floor(columns)).any() or (np.diff(columns, prepend=-1) <= 0).any():
            raise ValueError("columns of a decision must be ascending integers, at least 0")
        probabilities = candidates[:, _pass.PROBABILITY]
        if (probabilities < 0).any() or (probabilities > 1).any() or (values[_pass.TOTAL : _pass.SCORE] < 0).any():
            raise ValueError("probabilities of a decision must be from 0 to 1, and their sums at least 0")
        return self


class Promise:
    """Selection of the labels to apply, with an account of the wrong ones.

    Decisions depend only on the state, and the state only on the learnt decisions in order, so they are identical bit
    for bit everywhere. `version` distinguishes decisions of this promise from earlier ones, which are not counted.

    Notes ----- The number of wrong labels never exceeds (1 - precision) times the labels applied, plus 2, plus 1.5 for
    each reopening of the gate, plus the wrong labels in the examples that close it and those applied before the truth
    was known. `_gate` has the account.
    """

    def __init__(self, target: Target, version: int = 1) -> None:
        self.target, self.version = target, version
        self.memory = Memory(
            labels=np.zeros((5, 0)),
            label_weights=_score.LABEL_WEIGHTS.copy(),
            label_covariance=np.diag(_score.LABEL_VARIANCES),
            example_weights=_score.EXAMPLE_WEIGHTS.copy(),
            example_covariance=np.diag(_score.EXAMPLE_VARIANCES),
            bins=np.zeros((2, 3, _gate.BINS)),
            gates=np.zeros((2, _gate.N_NUMBERS)),
            counts=np.zeros(_pass.N_COUNTS),
            recent_applied=np.zeros(_pass.RECENT, dtype=np.bool_),
            recent_examples=np.zeros((_pass.RECENT, 4), dtype=np.int32),
        )
        self.memory.gates[:, _gate.WEIGHT] = 1.0
        self.n_labels = 0
        self._settings = _settings(target, version)

    def change(self, target: Target, version: int) -> None:
        """Change the promise. A new version, or different targets, start new accounts; the score models stay."""
        if version != self.version or target.accounts != self.target.accounts:
            memory = self.memory
            for numbers in (memory.bins, memory.gates, memory.counts, memory.recent_applied, memory.recent_examples):
                numbers[...] = 0
            memory.labels[_pass.LABEL_APPLIED :] = 0.0
            memory.gates[:, _gate.WEIGHT] = 1.0
        self.target, self.version = target, version
        self._settings = _settings(target, version)

    def grow(self, n_labels: int) -> None:
        """Grow to at least this many labels."""
        self.memory = self.memory._replace(labels=enlarged(self.memory.labels, (5, n_labels)))
        self.n_labels = max(n_labels, self.n_labels)

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of memory."""
        return sum(array.nbytes for array in self.memory)

    def decide(
        self,
        probabilities: NDArray[np.float64],
        scores: NDArray[np.float64],
        parents: NDArray[np.int32] = NO_PARENTS,
    ) -> list[Decision]:
        """Decide about examples in the current state.

        Parameters
        ----------
        probabilities : ndarray of shape (n_samples, n_labels), float64
            0 for labels that must not be predicted.
        scores : ndarray of shape (n_samples, 1 + n_labels), float64
            Threshold first. A label is applied only if its score is above the threshold.
        parents : ndarray of int32
            Column of each label's parent, -1 for none. A label is applied only with its ancestors.
        """
        self.grow(probabilities.shape[1])
        rows = self._rows(probabilities)
        _pass.decide_rows(self.memory, self._settings, probabilities, scores, parents, rows)
        return _decisions(rows)

    def learn(
        self,
        probabilities: NDArray[np.float64],
        scores: NDArray[np.float64],
        targets: Targets,
        complete: NDArray[np.bool_],
        parents: NDArray[np.int32] = NO_PARENTS,
        hidden: Sequence[int] = (),
    ) -> list[Decision]:
        """Decide about each example in order, and then learn its truth; return the decisions.

        Probabilities and scores, as in `decide`, are from before the example was learnt. `complete` is True if the
        targets include all labels except the `hidden` columns, whose truth is not counted.
        """
        self.grow(probabilities.shape[1])
        rows = self._rows(probabilities)
        truth = targets.indptr, targets.indices, targets.signs, complete
        columns = np.array(hidden, dtype=np.int64) if hidden else NO_COLUMNS
        _pass.learn_rows(self.memory, self._settings, probabilities, scores, parents, *truth, columns, rows)
        return _decisions(rows)

    def learn_served(self, decision: Decision, targets: Targets, complete: bool, hidden: Sequence[int] = ()) -> None:
        """Learn the true labels, or some of them, of an example decided earlier; see `learn`."""
        n_labels = max(self.n_labels, int(targets.n_labels[0]))
        self.grow(n_labels)
        candidates = decision._candidates
        if len(candidates) and candidates[-1, _pass.COLUMN] >= n_labels:
            return  # columns of labels that do not exist
        truth = np.full(n_labels, -1 if complete else 0, dtype=np.int8)
        truth[targets.indices] = targets.signs
        truth[list(hidden)] = 0
        _pass.learn(self.memory, self._settings, decision.values.astype(np.float64), truth, complete)

    def _rows(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        n_samples, n_labels = probabilities.shape
        return np.empty((n_samples, _pass.HEADER + _pass.FIELDS * min(n_labels, MAX_CANDIDATES)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the state; views, not copies."""
        arrays = self.memory._asdict()
        arrays["labels"] = self.memory.labels[:, : self.n_labels]
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> None:
        """Restore the arrays of a state with at most this number of labels; raise ValueError, without changes, if
        invalid.
        """
        check_like("promise", arrays, self.state(), n_labels)
        check_range("promise.labels", arrays["labels"][1:], 0.0, MAX_COUNT)
        check_range("promise.bins", arrays["bins"], 0.0, _MAX_SUM)
        check_range("promise.gates (counts)", arrays["gates"][:, _gate.OPEN :], 0.0, _MAX_SUM)
        check_range("promise.gates (weight)", arrays["gates"][:, _gate.WEIGHT], 1e-9, _MAX_SUM)
        check_range("promise.counts", arrays["counts"][1:], 0.0, MAX_COUNT)
        check_range("promise.recent_examples", arrays["recent_examples"], 0, 2**31 - 1)
        self.memory = Memory(**{name: arrays[name] for name in Memory._fields})
        self.n_labels = arrays["labels"].shape[1]


def _settings(target: Target, version: int) -> NDArray[np.float64]:
    return np.array([target.precision, target.settled or 0.0, target.missed, target.audit_rate, version])


def _decisions(rows: NDArray[np.float64]) -> list[Decision]:
    ends = _pass.HEADER + _pass.FIELDS * rows[:, _pass.N].astype(np.int64)
    return [Decision(row[:end].copy()) for row, end in zip(rows, ends.tolist(), strict=True)]
