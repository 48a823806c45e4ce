"""Undoing a change of labels: an entry that restores only the facts that the change has replaced.

The entry contains these facts, computed from the state before the change, so that a replica can apply it without the
history. A rollback would not undo such a change, because it retains names, groups and dismissed suggestions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from manylabel_core.alike import AlikeNames
from manylabel_core.label_health import KINDS
from manylabel_service.errors import CannotUndo, ServiceError
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.controls import MANY_GROUPED, Control, Dismiss, LabelChange, Regroup, Relabel
from manylabel_service.online.state.groups import Groups
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.storage import position_key

_LABEL_BYTES = 4
"""Minimum bytes of a label in packed groups."""


class LabelState(NamedTuple):
    """State of a label, without its weights; `into` is the column of the label into which it was merged."""

    name: str
    retired: bool
    paused: bool
    into: int | None

    @classmethod
    def of(cls, model: OnlineModel, column: int) -> LabelState:
        """Return the state of the label in a column, which the model has."""
        name = model.labels.names[column]
        retired = name in model.retired
        return cls(name, retired, name in model.paused, model.old_names.find(name) if retired else None)


class _OfLabel(NamedTuple):
    """Inverse of a change of one label.

    Attributes
    ----------
    column : column of the label.
    before, after : its state before and after the change.
    names : its old names, which a merge has moved to the other label.
    place : place of its new name among all old names before it was renamed; None if it was no old name.
    """

    column: int
    before: LabelState
    after: LabelState
    names: tuple[str, ...]
    place: int | None

    def apply(self, model: OnlineModel) -> Iterable[LabelChange]:
        column, before, after = self.column, self.before, self.after
        now = LabelState.of(model, column) if column < len(model.labels) else None
        if now != after:
            raise _changed_later(f"the label {after.name!r}", now == before)
        moved = (*self.names, after.name) if after.into is not None else ()
        if any(model.old_names.find(name) != after.into for name in moved):
            raise ValueError(
                f"a later entry changed the label into which {after.name!r} was merged: undo that entry first"
            )
        if after.into is not None:
            model.old_names.unmerge(after.name, self.names, column)
        if before.name != after.name:
            if model.old_names.find(before.name) != column:
                raise ValueError(f"the name {before.name!r} now belongs to another label: undo that change first")
            model.labels.rename(after.name, before.name)
            model.old_names.unrename(before.name, after.name, self.place, column)
            model.alike = AlikeNames()
        for names, is_in in ((model.retired, before.retired), (model.paused, before.paused)):
            names.discard(after.name)
            if is_in:
                names.add(before.name)
        model.hide()
        model.groups.build(model.labels.names, model.paused)
        model.relabels += 1
        if before.name != after.name:
            return [LabelChange(before.name, "renamed", after.name)]
        if before.retired != after.retired:
            return [LabelChange(before.name, "restored", before.name)]
        return [LabelChange(before.name, "paused" if before.paused else "resumed", before.name)]


class _OfGroups(NamedTuple):
    """Inverse of a change of groups: the groups before and after it, as packed by `Groups.to_array`."""

    before: bytes
    after: bytes

    def apply(self, model: OnlineModel) -> Iterable[LabelChange]:
        now = model.groups.to_array().tobytes()
        if now != self.after:
            raise _changed_later("the groups", now == self.before)
        hidden = (model.paused, model.retired)
        try:
            model.groups = Groups.from_array(np.frombuffer(self.before, np.uint8), model.labels.names, hidden)
        except ValueError as error:
            raise ValueError("a label of the earlier groups has been retired since") from error
        model.relabels += 1
        return ()


class _OfDismissal(NamedTuple):
    """Inverse of a dismissal: its number of examples, and the earlier dismissal of the same suggestion with its place,
    if any."""

    kind: str
    column: int
    other: int | None
    before: tuple[int, float] | None
    after: float

    def apply(self, model: OnlineModel) -> Iterable[LabelChange]:
        which = self.kind, self.column, self.other
        found = model.dismissals.find(*which)
        if found is None or found[1] != self.after:
            raise _changed_later("the dismissal", found == self.before)
        model.dismissals.restore(*which, self.before)
        return ()


def _changed_later(what: str, as_before: bool) -> ValueError:
    """Return the error for a change that is not the last one; `as_before` says that the change has no effect any
    more."""
    if as_before:
        return ValueError("a later entry, such as an undo, has already reverted it")
    return ValueError(f"a later entry changed {what}: undo that entry first")


_Inverse = _OfLabel | _OfGroups | _OfDismissal
_KINDS: tuple[type[_Inverse], ...] = (_OfLabel, _OfGroups, _OfDismissal)


@dataclass(frozen=True, slots=True)
class Undo(Control):
    """Undoing of a change of labels.

    Attributes
    ----------
    undone, previous : position of the change, and of the entry before it.
    inverse : facts that the change has replaced.
    exact : whether the change replaced only these facts; otherwise it also declared labels, which stay.
    """

    undone: str
    previous: str
    inverse: _Inverse
    exact: bool
    key: IdempotencyKey | None = None
    code = 9

    @property
    def facts(self) -> tuple[Any, ...]:
        return self.undone, self.previous, _KINDS.index(type(self.inverse)), tuple(self.inverse), self.exact

    @classmethod
    def read(
        cls, key: IdempotencyKey | None, undone: str, previous: str, kind: int, inverse: list[Any], exact: bool
    ) -> Undo:
        if not position_key(previous) < position_key(undone) or type(exact) is not bool or kind not in (0, 1, 2):
            raise ValueError("an undo must have a position before the undone one, a known kind, and a flag")
        return cls(undone, previous, _READERS[kind](*inverse), exact, key)

    def to_json(self) -> dict[str, Any]:
        label = {"label": self.inverse.before.name} if isinstance(self.inverse, _OfLabel) else {}
        return {"kind": "undo", "undoes": self.undone, **label}

    @property
    def restores_groups(self) -> bool:
        """True if the change was one of groups."""
        return isinstance(self.inverse, _OfGroups)

    @property
    def takes_long(self) -> bool:
        inverse = self.inverse
        return isinstance(inverse, _OfGroups) and len(inverse.before + inverse.after) > _LABEL_BYTES * MANY_GROUPED

    def returns_to(self, model: OnlineModel) -> str | None:
        return self.previous if self.exact and model.position == self.undone else None

    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        try:
            return self.inverse.apply(model)
        except ValueError as error:
            raise CannotUndo(model.spec.name, self.undone, str(error)) from error


def undoing(before: OnlineModel, change: object, position: str, key: IdempotencyKey | None) -> Undo:
    """Return the entry that undoes a change.

    Parameters
    ----------
    before : the state before the change, which is consumed.
    change, position : the change, and its position.
    key : idempotency key of the request.

    Raises
    ------
    CannotUndo
        The entry is no change of labels, or it was rejected.
    """
    name, previous = before.spec.name, before.position
    if not isinstance(change, Relabel | Regroup | Dismiss):
        raise CannotUndo(name, position, "the entry is no change of labels; return to an earlier state by a rollback")
    if change.key is not None and before.keys.find(change.key.key) is not None:
        raise CannotUndo(name, position, "the entry repeats an earlier one, and changed nothing")
    facts = _facts(before, change)
    n_labels = len(before.labels)
    try:
        change.apply(before, position, None)
    except ServiceError as error:
        raise CannotUndo(name, position, f"the entry was rejected: {error}") from error
    return Undo(position, previous, facts(before), len(before.labels) == n_labels, key)


def _facts(model: OnlineModel, change: Relabel | Regroup | Dismiss) -> Callable[[OnlineModel], Any]:
    """Return the function from the model after a change to the inverse of the change, given the model before it."""
    if isinstance(change, Regroup):
        groups = model.groups.to_array().tobytes()
        return lambda after: _OfGroups(groups, after.groups.to_array().tobytes())
    if isinstance(change, Dismiss):
        column = model.labels.get(change.label)
        other = None if change.other is None else model.labels.get(change.other)
        if column is None or (other is None) != (change.other is None):
            return lambda after: None  # the change is rejected
        which = change.kind, column, other
        earlier = model.dismissals.find(*which)
        return lambda after: _OfDismissal(*which, earlier, _of_suggestion(after, *which))
    column = model.labels.get(change.label)
    if column is None:
        return lambda after: None  # the change is rejected
    before = LabelState.of(model, column)
    names = tuple(model.old_names.by_column().get(column, ())) if change.merges else ()
    place = None if change.to is None or change.merges else model.old_names.place(change.to)
    return lambda after: _OfLabel(column, before, LabelState.of(after, column), names, place)


def _of_suggestion(model: OnlineModel, kind: str, column: int, other: int | None) -> float:
    found = model.dismissals.find(kind, column, other)
    assert found is not None, "it was dismissed"
    return found[1]


def _label_state(name: str, retired: bool, paused: bool, into: int | None) -> LabelState:
    if not isinstance(name, str) or type(retired) is not bool or type(paused) is not bool:
        raise ValueError("the state of a label must have a name and two flags")
    return LabelState(name, retired, paused, None if into is None else _count(into))


def _of_label(column: int, before: list[Any], after: list[Any], names: list[str], place: int | None) -> _OfLabel:
    if not all(isinstance(name, str) for name in names):
        raise ValueError("names of labels must be strings")
    states = _label_state(*before), _label_state(*after)
    return _OfLabel(_count(column), *states, tuple(names), None if place is None else _count(place))


def _of_groups(before: bytes, after: bytes) -> _OfGroups:
    if not (isinstance(before, bytes) and isinstance(after, bytes)):
        raise ValueError("groups must be bytes")
    return _OfGroups(before, after)


def _of_dismissal(kind: str, column: int, other: int | None, before: list[Any] | None, after: float) -> _OfDismissal:
    numbers = [after] if before is None else [after, before[1]]
    if kind not in KINDS or any(type(number) is not float or not 0.0 <= number < float("inf") for number in numbers):
        raise ValueError("a dismissal must have a known kind, and finite numbers of examples")
    earlier = None if before is None else (_count(before[0]), before[1])
    return _OfDismissal(kind, _count(column), None if other is None else _count(other), earlier, after)


def _count(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**31:
        raise ValueError("columns and places must be integers from 0 to 2^31 - 1")
    return int(number)


_READERS = (_of_label, _of_groups, _of_dismissal)
