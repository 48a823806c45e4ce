"""Promise of precision of a model: its setting, validation and account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from manylabel_core.promise import Promise, Target, report
from manylabel_core.state import DamagedState, State
from manylabel_service.errors import InvalidField

DEFAULT = Target(0.95)
"""Defaults of the optional fields."""


def check_target(target: Target) -> None:
    """Raise InvalidField unless this can be promised."""
    for name, share in zip(("precision", "settled", "missed"), target[:3], strict=True):
        if share is None and name == "settled":
            continue
        if type(share) is not float or not 0.0 < share < 1.0:
            raise InvalidField((name,), "must be a number above 0 and below 1")
    if type(target.audit_rate) is not float or not 0.0 <= target.audit_rate <= 1.0:
        raise InvalidField(("audit_rate",), "must be a number from 0 to 1")


class Promises:
    """Promise of a model, if any, and the number of promises so far.

    The target is a setting: like groups, it is not rolled back. The learnt scores and the account are rolled back with
    the metrics.
    """

    def __init__(self) -> None:
        self.promise: Promise | None = None
        self._version = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return 0 if self.promise is None else self.promise.nbytes

    def set(self, target: Target | None) -> None:
        """Set the promise, or end it (None). A different target begins new accounts."""
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

    def roll_back(self, to: Promises) -> None:
        """Restore from another state, which is consumed. If its promise differs, the accounts start from zero."""
        if self.promise is None:
            return
        target, earlier = self.promise.target, to.promise
        if earlier is None:
            self.promise = Promise(target, self._version)
            return
        self.promise = earlier
        earlier.change(target, self._version)

    def to_json(self) -> dict[str, Any]:
        """Return the current promise, or null."""
        return {"promise": None if self.promise is None else self.promise.target._asdict()}

    def to_metrics(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the account of the promise for labels with these names; empty without a promise."""
        return {} if self.promise is None else {"promise": report(self.promise, names)}

    def to_array(self) -> NDArray[np.uint8]:
        """Return the promise and its account as bytes."""
        promise = self.promise
        parts = (None, None) if promise is None else (promise.target, State(promise.state(), {}).to_bytes())
        return np.frombuffer(msgpack.packb([self._version, *parts]), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8], n_labels: int) -> Promises:
        """Restore from the output of `to_array` for this number of labels; raises ValueError."""
        found = cls()
        try:
            found._version, target, state = msgpack.unpackb(packed.tobytes())
            if type(found._version) is not int or not 0 <= found._version < 2**53:
                raise ValueError("expected a number of promises")
            if target is not None:
                promise = Promise(Target(*target), found._version)
                check_target(promise.target)
                promise.restore(State.from_bytes(state)[0], n_labels)
                found.promise = promise
        except (ValueError, TypeError, KeyError, msgpack.UnpackException, DamagedState, InvalidField) as error:
            raise ValueError(f"promise: {error}") from error
        return found
