"""Promise of parity: its state, deferrals of examples, and learning from the teacher's answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.parity import _rule
from manylabel_core.storage import MAX_COUNT, check_like, check_range, enlarged

AGREEMENTS = ("exact", "f1")
MIN_AUDIT_RATE = 0.01
"""Lowest share of audits; with a lower one, the account would have too little evidence to react."""
_MAX_SUM = 1e15
"""Upper bound of the sums of a plan and of the numbers."""


class ParityTarget(NamedTuple):
    """Level of the promise."""

    parity: float  # mean agreement of answers with the teacher, in the long run, above 0 and below 1
    of: str = "machine"  # source of the teacher's labels, the only one that counts
    agreement: str = "exact"  # "exact": 1 if the label sets are equal, else 0; "f1": F1 of the two sets
    audit_rate: float = 0.05  # least share of sure examples for which the teacher is asked, 0.01 to 1

    @property
    def account(self) -> tuple[float | str, ...]:
        """Return the settings on which the account depends."""
        return self[:3]


class ParityMemory(NamedTuple):
    """Arrays that compiled functions modify."""

    weights: NDArray[np.float64]  # (9,): of the score
    covariance: NDArray[np.float64]  # (9, 9)
    # (4, 64): weighted sums of agreement, of examples, of expected agreement, and of squared weights, by score
    bins: NDArray[np.float64]
    numbers: NDArray[np.float64]  # (19,): the account and counts, see `_rule`
    # (2, at least n_labels): audits in which only the answer had the label; audits in which only the teacher had it
    labels: NDArray[np.float64]


class Deferral(NamedTuple):
    """Decision about an example: to serve the model's answer, or to ask the teacher."""

    values: NDArray[np.float64]  # (14,): all data needed to count the decision later, see `_rule`
    of_people: bool = False  # whether the teacher is a person; False for a decision read from the log

    @property
    def sure(self) -> bool:
        """True if the answer is served unless it is audited."""
        return bool(self.values[_rule.SURE])

    @property
    def rate(self) -> float:
        """Probability with which the teacher is asked."""
        return float(self.values[_rule.RATE])

    @property
    def ask(self) -> bool:
        """True if the teacher is asked."""
        return bool(self.values[_rule.ASK])

    @property
    def why(self) -> str:
        """The reason: "unsure" or "audit" if the teacher is asked, else "sure"."""
        return "sure" if not self.ask else "audit" if self.sure else "unsure"

    @property
    def version(self) -> int:
        """Version of the promise under which the decision was made."""
        return int(self.values[_rule.VERSION])

    def drawn(self, chance: float) -> Deferral:
        """Return the decision with its audit drawn by a uniform number, at least 0 and below 1, that is independent of
        the example."""
        values = self.values.copy()
        values[_rule.ASK] = 1.0 if chance < self.rate else 0.0
        return self._replace(values=values)

    def to_check(self, chance: float) -> bool:
        """Return whether people should check the answer. They check a random share of the answers served without the
        teacher, and none if the teacher is a person. `chance` is the number that drew the audit."""
        return not (self.ask or self.of_people) and chance >= 1.0 - _rule.CHECK_RATE * (1.0 - self.rate)

    def check(self) -> Deferral:
        """Return the decision; raise ValueError if it cannot come from a `Parity`."""
        values = self.values
        if values.shape != (_rule.N_VALUES,) or not np.isfinite(values).all():
            raise ValueError(f"a deferral must have {_rule.N_VALUES} numbers, all finite")
        sure, ask, rate = values[_rule.SURE], values[_rule.ASK], values[_rule.RATE]
        if sure not in (0, 1) or ask not in (0, 1) or not MIN_AUDIT_RATE <= rate <= 1.0:
            raise ValueError("flags of a deferral must be 0 or 1, and its rate from 0.01 to 1")
        if not sure and (rate < 1.0 or not ask):
            raise ValueError("a deferral of an unsure example must ask the teacher, with a rate of 1")
        if (np.abs(values[_rule.INPUTS :]) > 4.0).any() or abs(values[_rule.SCORE]) > 8.0:
            raise ValueError("inputs of a deferral must be from -4 to 4, and its score from -8 to 8")
        return self


def agreement_of(kind: str, answer: Collection[object], teacher: Collection[object]) -> float:
    """Return the agreement of two label sets, from 0 to 1.

    Parameters
    ----------
    kind : {"exact", "f1"}
    answer, teacher : collection
        Labels without repetitions.

    Examples
    --------
    >>> agreement_of("f1", ["a", "b"], ["a"])
    0.6666666666666666
    """
    if kind == "exact":
        return float(set(answer) == set(teacher))
    size = len(answer) + len(teacher)
    return 2.0 * len(set(answer).intersection(teacher)) / size if size else 1.0


class Parity:
    """Choice of the examples that a model answers alone, with an account of its disagreements with a teacher.

    Deferrals depend only on the state, and the state only on the outcomes in order, so they are identical bit for bit
    everywhere. `version` distinguishes deferrals of this promise from earlier ones, which are not counted.

    Notes
    -----
    If the teacher answers at once, the disagreements of sure examples, as estimated from audits, never exceed (1 -
    parity) times the examples, plus 7, plus 1 for each reopening of the gate. `_rule` has the account.
    """

    def __init__(self, target: ParityTarget, version: int = 1) -> None:
        self.target, self.version = target, version
        self.memory = ParityMemory(
            weights=_rule.WEIGHTS.copy(),
            covariance=np.diag(_rule.VARIANCES),
            bins=np.zeros((4, _rule.BINS)),
            numbers=np.zeros(_rule.N_NUMBERS),
            labels=np.zeros((2, 0)),
        )
        self.memory.numbers[[_rule.ACCOUNT, _rule.WEIGHT]] = _rule.STAKE - _rule.RESERVE, 1.0
        self.n_labels = 0
        self._settings = _settings(target, version)

    def change(self, target: ParityTarget, version: int) -> None:
        """Change the promise. The state is reset if the version or a setting of the account has changed; the score
        model is reset only if the teacher or the agreement has changed."""
        if version != self.version or target.account != self.target.account:
            fresh = Parity(target, version).memory
            if target[1:3] == self.target[1:3]:
                fresh = fresh._replace(weights=self.memory.weights, covariance=self.memory.covariance)
            self.memory = fresh._replace(labels=np.zeros((2, self.n_labels)))
        self.target, self.version = target, version
        self._settings = _settings(target, version)

    def grow(self, n_labels: int) -> None:
        """Grow to at least this many labels."""
        self.memory = self.memory._replace(labels=enlarged(self.memory.labels, (2, n_labels)))
        self.n_labels = max(n_labels, self.n_labels)

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of memory."""
        return sum(array.nbytes for array in self.memory)

    @property
    def open(self) -> bool:
        """True if sure examples are answered, except for audits."""
        return bool(self.memory.numbers[_rule.ACCOUNT] > _rule.STAKE)

    @property
    def audit_rate(self) -> float:
        """Share of sure examples that are audited now; 1 while the gate is closed."""
        return float(_rule.audit_rate(self.memory.numbers, self._settings))

    def defer(self, probabilities: NDArray[np.float64], scores: NDArray[np.float64]) -> list[Deferral]:
        """Decide about examples in the current state; audits are not drawn, see `Deferral.drawn`.

        Parameters
        ----------
        probabilities : ndarray of shape (n_samples, n_labels), float64
            0 for labels that must not be predicted.
        scores : ndarray of shape (n_samples, 1 + n_labels), float64
            Threshold first. The labels with a score above it are the answer.
        """
        rows = np.empty((len(probabilities), _rule.N_VALUES))
        _rule.defer_rows(self.memory, self._settings, probabilities, scores, rows)
        of_people = self.target.of == "human"
        return [Deferral(row.copy(), of_people) for row in rows]

    def note_served(self, answered: int, empty: int, unsure: int, audits: int) -> None:
        """Count served predictions.

        Parameters
        ----------
        answered, empty : number of answers that were served without the teacher, and how many of them have no label.
        unsure, audits : number of examples for which the teacher was asked because they were unsure, and as an audit.
        """
        counts = self.memory.numbers
        counts[[_rule.ANSWERED, _rule.EMPTY, _rule.UNSURE, _rule.AUDITS]] += (answered, empty, unsure, audits)

    def learn(self, deferral: Deferral, answer: Collection[int], teacher: Collection[int], n_others: int = 0) -> None:
        """Learn the teacher's answer to an example for which it was asked.

        Parameters
        ----------
        deferral : the served decision. It is not learnt if it has another version.
        answer, teacher : columns of the served labels, and of the teacher's labels.
        n_others : number of the teacher's labels without a column.
        """
        if deferral.version != self.version:
            return
        agreement = agreement_of(self.target.agreement, answer, [*teacher, *range(-n_others, 0)])
        _rule.learn(self.memory, self._settings, deferral.values.astype(np.float64), agreement)

    def settle(self, rate: float, answer: Collection[int], teacher: Collection[int], n_others: int = 0) -> None:
        """Count the outcome of an audit that was drawn with probability `rate`; see `learn`."""
        agreement = agreement_of(self.target.agreement, answer, [*teacher, *range(-n_others, 0)])
        _rule.settle(self.memory, self._settings, rate, 1.0 - agreement)
        added, missed = set(answer).difference(teacher), set(teacher).difference(answer)
        self.grow(1 + max(added | missed, default=-1))
        self.memory.labels[0, list(added)] += 1.0
        self.memory.labels[1, list(missed)] += 1.0

    def expire(self, rate: float) -> None:
        """Count an audit without an answer as wrong; it was drawn with probability `rate`."""
        self.memory.numbers[_rule.EXPIRED] += 1.0
        _rule.settle(self.memory, self._settings, rate, 1.0)

    def count_person(self, right: bool, *, teacher: bool, drawn: bool = False) -> None:
        """Count the judgement of a person about an answer of the model or of the teacher. `drawn` is true if the answer
        was drawn for a check."""
        numbers = self.memory.numbers
        numbers[_rule.PEOPLE + 2 * teacher + (not right)] += 1.0
        if drawn:
            numbers[_rule.DRAWN + (not right)] += 1.0

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the state; views, not copies."""
        arrays = self.memory._asdict()
        arrays["labels"] = self.memory.labels[:, : self.n_labels]
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_labels: int) -> None:
        """Restore the arrays of a state with at most this number of labels; raise ValueError, without changes, if
        invalid.
        """
        check_like("parity", arrays, self.state(), n_labels)
        check_range("parity.labels", arrays["labels"], 0.0, MAX_COUNT)
        check_range("parity.bins", arrays["bins"], 0.0, _MAX_SUM)
        numbers = arrays["numbers"]
        check_range("parity.numbers", numbers, 0.0, _MAX_SUM)
        most = _rule.CAPACITY / MIN_AUDIT_RATE  # the minimum rate may have been lower before
        check_range("parity.numbers (account)", numbers[: _rule.ACCOUNT + 1], _rule.STAKE - _rule.RESERVE, most)
        check_range("parity.numbers (weight)", numbers[_rule.WEIGHT : _rule.WEIGHT + 1], 1.0, 2e6)
        self.memory = ParityMemory(**{name: arrays[name] for name in ParityMemory._fields})
        self.n_labels = arrays["labels"].shape[1]


def _settings(target: ParityTarget, version: int) -> NDArray[np.float64]:
    return np.array([target.parity, target.audit_rate, version])
