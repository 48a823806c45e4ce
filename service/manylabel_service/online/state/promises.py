"""Promises of a model, of precision and of parity: their settings, validation and accounts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_core.parity import Deferral, Parity, ParityTarget
from manylabel_core.parity import report as report_parity
from manylabel_core.parity.parity import AGREEMENTS, MIN_AUDIT_RATE
from manylabel_core.promise import Promise, Target, report
from manylabel_core.state import DamagedState, State
from manylabel_service import ulid
from manylabel_service.errors import InvalidField
from manylabel_service.hosting.examples import Source

DEFAULT = Target(0.95)
"""Defaults of the optional fields."""

MAX_WAITING = 10_000
"""Maximum number of audits that wait for the teacher's answer; above it, the oldest count as wrong."""

_WAITING_BYTES = 250
"""Estimated bytes of an audit that waits."""


def check_target(target: Target) -> None:
    """Raise InvalidField unless this target can be promised."""
    for name, share in zip(("precision", "settled", "missed"), target[:3], strict=True):
        if share is None and name == "settled":
            continue
        if type(share) is not float or not 0.0 < share < 1.0:
            raise InvalidField((name,), "must be a number above 0 and below 1")
    if type(target.audit_rate) is not float or not 0.0 <= target.audit_rate <= 1.0:
        raise InvalidField(("audit_rate",), "must be a number from 0 to 1")


def check_parity(target: ParityTarget) -> None:
    """Raise InvalidField unless this parity can be promised."""
    if type(target.parity) is not float or not 0.0 < target.parity < 1.0:
        raise InvalidField(("parity",), "must be a number above 0 and below 1")
    for name, value, allowed in (("of", target.of, get_args(Source)), ("agreement", target.agreement, AGREEMENTS)):
        if value not in allowed:
            raise InvalidField((name,), f"must be one of {', '.join(allowed)}")
    if type(target.audit_rate) is not float or not MIN_AUDIT_RATE <= target.audit_rate <= 1.0:
        raise InvalidField(("audit_rate",), f"must be a number from {MIN_AUDIT_RATE} to 1 to promise parity")


def promise_to_json(target: Target | None, parity: ParityTarget | None) -> dict[str, Any] | None:
    """Return the promises as JSON values; null without promises. Both promises have the same audit rate."""
    if target is None and parity is None:
        return None
    return {**({} if target is None else target._asdict()), **({} if parity is None else parity._asdict())}


class Waiting(NamedTuple):
    """Audit that waits for the teacher's answer."""

    rate: float
    expires_ms: int


class Promises:
    """Promises of a model, if any, and the numbers of promises so far.

    The targets are settings, which are not rolled back, like groups. The learnt scores and the accounts are rolled back
    with the metrics. Waiting audits are part of the state of requests, because the teacher answers only once.

    Attributes
    ----------
    promise : promise of precision.
    parity : promise of parity with a teacher.
    waiting : audits of the current promise of parity that wait for the teacher's answer, by id of the prediction, the
        oldest first.
    """

    def __init__(self) -> None:
        self.promise: Promise | None = None
        self.parity: Parity | None = None
        self.waiting: dict[str, Waiting] = {}
        self._version = self._parity_version = 0

    def __bool__(self) -> bool:
        return self.promise is not None or self.parity is not None

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        parts = (part.nbytes for part in (self.promise, self.parity) if part is not None)
        return sum(parts) + _WAITING_BYTES * len(self.waiting)

    @property
    def open(self) -> bool:
        """True if sure examples are answered without the teacher, except for audits."""
        return self.parity is not None and self.parity.open

    def set(self, target: Target | None, parity: ParityTarget | None = None) -> None:
        """Set the promises, or end them (None). A different target begins new accounts."""
        self._set_parity(parity)
        if target is None:
            self.promise = None
            return
        if self.promise is not None and self.promise.target.accounts == target.accounts:
            self.promise.change(target, self._version)
            return
        self._version += 1
        if self.promise is None:
            self.promise = Promise(target, self._version)
        else:
            self.promise.change(target, self._version)

    def _set_parity(self, target: ParityTarget | None) -> None:
        same = target is not None and self.parity is not None and self.parity.target.account == target.account
        if not same:
            self._parity_version += target is not None
            self.waiting = {}
        if target is None:
            self.parity = None
        elif self.parity is None:
            self.parity = Parity(target, self._parity_version)
        else:
            self.parity.change(target, self._parity_version)

    def note_served(
        self, version: int, audits: Sequence[tuple[str, float]], counts: Sequence[int], now_ms: int, expires_ms: int
    ) -> None:
        """Count served predictions, and the audits that have expired as wrong.

        Parameters
        ----------
        version : number of the promise of parity under which the predictions were served.
        audits : ids of predictions that are audits, and the probability of each audit.
        counts : numbers of answers, of answers without a label, and of unsure examples.
        now_ms, expires_ms : time of the server, and expiry of these audits, in milliseconds of Unix time.
        """
        if self.parity is None or version != self._parity_version:
            return
        answered, empty, unsure = counts
        self.parity.note_served(answered, empty, unsure, len(audits))
        self.waiting.update({id: Waiting(rate, expires_ms) for id, rate in audits})
        while self.waiting and (self._oldest.expires_ms <= now_ms or len(self.waiting) > MAX_WAITING):
            self.parity.expire(self.waiting.pop(next(iter(self.waiting))).rate)

    @property
    def _oldest(self) -> Waiting:
        return next(iter(self.waiting.values()))

    def count_teacher(
        self, id: str, deferral: Deferral, answer: Collection[int], teacher: Collection[int], n_others: int
    ) -> None:
        """Count the teacher's labels of a stored prediction. An audit counts only once, and not after it has expired.

        Parameters
        ----------
        id : id of the prediction.
        deferral : the served decision.
        answer, teacher : columns of the predicted labels, and of the teacher's labels.
        n_others : number of the teacher's labels without a column.
        """
        if self.parity is None or not deferral.ask or deferral.version != self._parity_version:
            return
        self.parity.learn(deferral, answer, teacher, n_others)
        if (waiting := self.waiting.pop(id, None)) is not None:
            self.parity.settle(waiting.rate, answer, teacher, n_others)

    def count_person(
        self, id: str, deferral: Deferral, answer: Collection[int], truth: Mapping[int, bool], complete: bool
    ) -> None:
        """Count the first labels that a person gives to an answer that was served without the teacher.

        Parameters
        ----------
        id : id of the prediction.
        deferral : the served decision.
        answer : columns of the labels that were predicted.
        truth : whether each known label is true, by column; -1 for those without a column.
        complete : whether all other labels are false. Partial labels that agree do not count, because the other labels
            may be wrong.
        """
        if not self._above_teacher or deferral.ask or deferral.version != self._parity_version:
            return
        right = all((column in answer) == true for column, true in truth.items())
        right = right and (not complete or all(truth.get(column) for column in answer))
        if complete or not right:
            assert self.parity is not None
            self.parity.count_person(right, teacher=False, drawn=deferral.to_check(ulid.chance(id)))

    def count_correction(self, source: str, right: bool) -> None:
        """Count a person's first verdict on a learnt example with labels of this source."""
        if self._above_teacher and self.parity is not None and source == self.parity.target.of:
            self.parity.count_person(right, teacher=True)

    @property
    def _above_teacher(self) -> bool:
        """True if people can correct a teacher."""
        return self.parity is not None and self.parity.target.of != "human"

    def without_waiting(self) -> Promises:
        """Return the promises for a new model, without the state of requests; the parts are shared."""
        found = Promises()
        found.promise, found.parity = self.promise, self.parity
        found._version, found._parity_version = self._version, self._parity_version
        return found

    def roll_back(self, to: Promises) -> None:
        """Restore from another state, which is consumed. If a promise differs from the one in that state, its account
        starts from zero."""
        if self.parity is not None:
            target, earlier_parity = self.parity.target, to.parity
            if earlier_parity is None:
                self.parity = Parity(target, self._parity_version)
            else:
                self.parity = earlier_parity
                earlier_parity.change(target, self._parity_version)
        self._roll_back_precision(to)

    def _roll_back_precision(self, to: Promises) -> None:
        if self.promise is None:
            return
        target, earlier = self.promise.target, to.promise
        if earlier is None:
            self.promise = Promise(target, self._version)
            return
        self.promise = earlier
        earlier.change(target, self._version)

    def to_json(self) -> dict[str, Any]:
        """Return the current promises, or null."""
        target = None if self.promise is None else self.promise.target
        return {"promise": promise_to_json(target, None if self.parity is None else self.parity.target)}

    def to_metrics(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the accounts of the promises for labels with these names; empty without a promise."""
        if not self:
            return {}
        found = {} if self.promise is None else report(self.promise, names)
        if self.parity is not None:
            found["parity"] = report_parity(self.parity, names, len(self.waiting))
        return {"promise": found}

    def to_array(self) -> NDArray[np.uint8]:
        """Return the promises and their accounts as bytes."""
        fields = [self._version, *_packed(self.promise)]
        if self._parity_version:
            fields += [self._parity_version, *_packed(self.parity), list(self.waiting.items())]
        return np.frombuffer(msgpack.packb(fields), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8], n_labels: int, requests: bool = True) -> Promises:
        """Restore from the output of `to_array` for this number of labels; raises ValueError.

        Without `requests`, no audits wait.
        """
        found = cls()
        try:
            found._version, target, state, *more = msgpack.unpackb(packed.tobytes())
            _check_version(found._version)
            if target is not None:
                promise = Promise(Target(*target), found._version)
                check_target(promise.target)
                promise.restore(State.from_bytes(state)[0], n_labels)
                found.promise = promise
            if more:
                found._restore_parity(n_labels, *more)
        except (ValueError, TypeError, KeyError, msgpack.UnpackException, DamagedState, InvalidField) as error:
            raise ValueError(f"promise: {error}") from error
        if not requests:
            found.waiting = {}
        return found

    def _restore_parity(self, n_labels: int, version: int, target: Any, state: bytes, waiting: list[Any]) -> None:
        self._parity_version = _check_version(version)
        if target is None:
            return
        parity = Parity(ParityTarget(*target), version)
        check_parity(parity.target)
        parity.restore(State.from_bytes(state)[0], n_labels)
        self.parity = parity
        for id, (rate, expires_ms) in waiting:
            if not ulid.valid(id) or type(rate) is not float or not MIN_AUDIT_RATE <= rate <= 1.0:
                raise ValueError("an audit must have the id of a prediction and an audit rate")
            if type(expires_ms) is not int or not 0 <= expires_ms <= 2**53:
                raise ValueError("the expiry of an audit must be milliseconds from 0 to 2^53")
            self.waiting[id] = Waiting(rate, expires_ms)
        if len(self.waiting) > MAX_WAITING or len(self.waiting) < len(waiting):
            raise ValueError(f"audits must be distinct, and at most {MAX_WAITING:,}")


def _packed(part: Promise | Parity | None) -> tuple[Any, Any]:
    return (None, None) if part is None else (part.target, State(part.state(), {}).to_bytes())


def _check_version(version: object) -> int:
    if type(version) is not int or not 0 <= version < 2**53:
        raise ValueError("the number of promises must be an integer of at least 0")
    return version
