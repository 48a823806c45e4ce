"""Control entries of a log: changes of a model without examples.

A control entry is a barrier: earlier entries are completed, then `apply` changes the model. `ApplyBatch` handles
idempotency, responses and events of all kinds alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from manylabel_core.label_structure import Group
from manylabel_core.parity import ParityTarget
from manylabel_core.parity.parity import MIN_AUDIT_RATE
from manylabel_core.promise import Target
from manylabel_service import ulid
from manylabel_service.errors import InvalidField
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state import groups as label_groups
from manylabel_service.online.state.dismissals import check_suggestion
from manylabel_service.online.state.label_details import MAX_DESCRIBED, Edit, check_edit, nbytes_of
from manylabel_service.online.state.model import OnlineModel
from manylabel_service.online.state.promises import check_parity, check_target, promise_to_json

MANY_DESCRIBED, MANY_CHARACTERS, MANY_GROUPED = 100, 10_000, 500
"""Maximum numbers of described labels, of their characters, and of labels in groups or with a parent, for a change that
takes only some milliseconds."""


class LabelChange(NamedTuple):
    """Change of a label by an entry, for events: new, described, renamed, merged, retired, paused, resumed or restored.

    `before` is the earlier name of a changed label. `alike` is an earlier label that is like the new one.
    """

    label: str
    change: str
    before: str | None = None
    alike: str | None = None


def new_labels(model: OnlineModel, labels: Iterable[str]) -> list[LabelChange]:
    """Return the changes for labels that were just added to a model."""
    return [LabelChange(label, "new", alike=model.alike_to(label)) for label in labels]


class Declared(NamedTuple):
    """Labels that an entry declares if they are unknown, and the maximum bytes that the entry adds."""

    labels: Iterable[str]
    n_bytes: int


class Control(ABC):
    """Change of a model without examples.

    Attributes
    ----------
    code : number of the kind in the bytes of an entry.
    read : returns an entry with a key and `facts`; raises ValueError or TypeError if they are invalid.
    key : idempotency key of the request.
    """

    __slots__ = ()
    code: ClassVar[int]
    read: ClassVar[Callable[..., "Control"]]
    key: IdempotencyKey | None

    @property
    @abstractmethod
    def facts(self) -> tuple[Any, ...]:
        """Values to encode in an entry."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the kind and the contents for clients."""

    @abstractmethod
    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        """Change a model, and return the changes of labels.

        Parameters
        ----------
        model : model after the previous entry.
        position : position of this entry.
        target : state at `needs`, which is consumed; None if the entry needs no state.

        Raises
        ------
        ServiceError
            The entry does not fit the model, which has not changed.
        """

    @property
    def needs(self) -> str | None:
        """Position of an earlier state that `apply` needs."""
        return None

    def returns_to(self, model: OnlineModel) -> str | None:
        """Return the position of the earlier state that `apply` restores completely, or None; `model` is the state
        before."""
        return self.needs

    @property
    def takes_long(self) -> bool:
        """True if `declared` and `apply` may take longer than a few milliseconds; both then run in a thread.

        Requests can read the model while they run. Therefore, such a change may add names, but must not rename labels.
        """
        return False

    def declared(self, model: OnlineModel) -> Declared | None:
        """Return the maximum growth of a model by the entry; None if the entry never enlarges a model. Raises
        InvalidField for an invalid entry."""
        return None


@dataclass(frozen=True, slots=True)
class Rollback(Control):
    """Rollback to the snapshot at `to`."""

    to: str
    key: IdempotencyKey | None = None
    code = 1

    @property
    def facts(self) -> tuple[Any, ...]:
        return (self.to,)

    @classmethod
    def read(cls, key: IdempotencyKey | None, to: str) -> "Rollback":
        return cls(to, key)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "rollback", "to": self.to}

    @property
    def needs(self) -> str | None:
        return self.to

    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        assert target is not None
        model.roll_back(target, self.to, position)
        return ()


@dataclass(frozen=True, slots=True)
class Relabel(Control):
    """Change of one label: renamed to `to`, merged into `to` (`merges`), or retired (`to` is None).

    With `paused`, the label is paused (True) or resumed (False) instead, and `to` is None.
    """

    label: str
    to: str | None
    key: IdempotencyKey | None = None
    merges: bool = False
    paused: bool | None = None
    code = 2

    @property
    def facts(self) -> tuple[Any, ...]:
        facts = (self.label, self.to, self.merges)
        return facts if self.paused is None else (*facts, self.paused)

    @classmethod
    def read(
        cls,
        key: IdempotencyKey | None,
        label: str,
        to: str | None,
        merges: bool,
        paused: bool | None = None,
    ) -> "Relabel":
        if not isinstance(label, str) or not (to is None or isinstance(to, str)) or type(merges) is not bool:
            raise ValueError("a renaming must have a label, a new label and a merge flag")
        if paused is not None and (type(paused) is not bool or to is not None or merges):
            raise ValueError("a pause must have a pause flag, and no second label")
        return cls(label, to, key, merges, paused)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "label", "label": self.label, "change": self._change, "to": self.to}

    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        if self.paused is not None:
            model.pause(self.label, self.paused)
        elif self.to is None:
            model.retire(self.label)
        elif self.merges:
            model.merge(self.label, self.to)
        else:
            model.rename(self.label, self.to)
        return [LabelChange(self.to or self.label, self._change, self.label)]

    @property
    def _change(self) -> str:
        if self.paused is not None:
            return "paused" if self.paused else "resumed"
        return "retired" if self.to is None else "merged" if self.merges else "renamed"


@dataclass(frozen=True, slots=True)
class Describe(Control):
    """Change of titles, descriptions and URIs of labels; unknown labels are declared."""

    edits: Mapping[str, Edit]
    key: IdempotencyKey | None = None
    code = 3

    @property
    def facts(self) -> tuple[Any, ...]:
        return (self.edits,)

    @classmethod
    def read(cls, key: IdempotencyKey | None, edits: dict[str, dict[str, Any]]) -> "Describe":
        known = isinstance(edits, dict) and len(edits) <= MAX_DESCRIBED
        if not (known and all(isinstance(label, str) for label in edits)):
            raise ValueError(f"label details must be an object of at most {MAX_DESCRIBED} labels")
        for edit in edits.values():
            check_edit(edit)
        return cls(edits, key)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "describe", "labels": self.edits}

    @property
    def takes_long(self) -> bool:
        n_characters = sum(len(text) for edit in self.edits.values() for text in edit.values() if text is not None)
        return n_characters > MANY_CHARACTERS or len(self.edits) > MANY_DESCRIBED

    def declared(self, model: OnlineModel) -> Declared:
        words = 0 if model.titles is None else model.titles.nbytes_of(self.edits.values())
        return Declared(self.edits, nbytes_of(self.edits.values()) + words)

    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        new = model.describe(self.edits)
        described = [label for label in self.edits if label not in new]
        return [*new_labels(model, new), *(LabelChange(each, "described") for each in described)]


@dataclass(frozen=True, slots=True)
class Regroup(Control):
    """Replacement of the groups and parents of all labels; unknown labels are declared."""

    groups: tuple[Group, ...]
    parents: Mapping[str, str]
    key: IdempotencyKey | None = None
    code = 4

    @property
    def facts(self) -> tuple[Any, ...]:
        return self.groups, self.parents

    @classmethod
    def read(cls, key: IdempotencyKey | None, groups: list[list[Any]], parents: dict[str, str]) -> "Regroup":
        try:
            found = tuple(Group(name, tuple(labels), choose) for name, labels, choose in groups)
            names = [*parents, *parents.values(), *(label for group in found for label in group.labels)]
            if not all(isinstance(label, str) for label in names):
                raise ValueError("groups and parents must contain names of labels")
            label_groups.check_written(found, parents)
        except (InvalidField, AttributeError) as error:
            raise ValueError(str(error)) from error
        return cls(found, parents, key)

    def to_json(self) -> dict[str, Any]:
        groups = [{**group._asdict(), "labels": list(group.labels)} for group in self.groups]
        return {"kind": "groups", "groups": groups, "parents": self.parents}

    @property
    def takes_long(self) -> bool:
        return len(self.parents) + sum(len(group.labels) for group in self.groups) > MANY_GROUPED

    def declared(self, model: OnlineModel) -> Declared:
        label_groups.check_written(self.groups, self.parents)
        names = dict.fromkeys(label for label, _ in label_groups.places(self.groups, self.parents))
        return Declared(names, label_groups.nbytes_of(len(names)))

    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        return new_labels(model, model.regroup(self.groups, self.parents))


@dataclass(frozen=True, slots=True)
class SetPromise(Control):
    """Start of a promise of precision, of parity with a teacher, or of both; without targets, end of the promises."""

    target: Target | None
    key: IdempotencyKey | None = None
    parity: ParityTarget | None = None
    code = 5

    @property
    def facts(self) -> tuple[Any, ...]:
        return (self.target,) if self.parity is None else (self.target, self.parity)

    @classmethod
    def read(
        cls, key: IdempotencyKey | None, target: list[float | None] | None, parity: list[Any] | None = None
    ) -> "SetPromise":
        try:
            found = None if target is None else Target(*target)  # type: ignore[arg-type]
            found_parity = None if parity is None else ParityTarget(*parity)
            if found is not None:
                check_target(found)
            if found_parity is not None:
                check_parity(found_parity)
        except InvalidField as error:
            raise ValueError(str(error)) from error
        return cls(found, key, found_parity)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "promise", "promise": promise_to_json(self.target, self.parity)}

    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        model.set_promise(self.target, self.parity)
        return ()


@dataclass(frozen=True, slots=True)
class Served(Control):
    """Entry about predictions that were served under a promise of parity: audits that wait for the teacher, and counts.

    Attributes
    ----------
    version : number of the promise.
    audits : ids of the predictions that are audits, and the probability of each audit.
    counts : numbers of answers, of answers without a label, and of unsure examples.
    now_ms, expires_ms : time of the server, and expiry of these audits, in milliseconds of Unix time.
    """

    version: int
    audits: tuple[tuple[str, float], ...]
    counts: tuple[int, int, int]
    now_ms: int
    expires_ms: int
    key: IdempotencyKey | None = None
    code = 6

    @property
    def facts(self) -> tuple[Any, ...]:
        return self.version, self.audits, self.counts, self.now_ms, self.expires_ms

    @classmethod
    def read(
        cls,
        key: IdempotencyKey | None,
        version: int,
        audits: list[Any],
        counts: list[int],
        now_ms: int,
        expires_ms: int,
    ) -> "Served":
        numbers = (version, *counts, now_ms, expires_ms)
        if len(counts) != 3 or any(type(number) is not int or not 0 <= number < 2**53 for number in numbers):
            raise ValueError("counts and times must be integers from 0 to 2^53 - 1")
        for id, rate in audits:
            if not ulid.valid(id) or type(rate) is not float or not MIN_AUDIT_RATE <= rate <= 1.0:
                raise ValueError("an audit must have the id of a prediction and an audit rate")
        answered, empty, unsure = counts
        return cls(
            version, tuple((id, rate) for id, rate in audits), (answered, empty, unsure), now_ms, expires_ms, key
        )

    def to_json(self) -> dict[str, Any]:
        answered, empty, unsure = self.counts
        audits = [{"id": id, "rate": rate} for id, rate in self.audits]
        return {"kind": "served", "audits": audits, "answered": answered, "empty": empty, "unsure": unsure}

    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        model.promises.note_served(self.version, self.audits, self.counts, self.now_ms, self.expires_ms)
        return ()

    def as_followed(self) -> "Served":
        """Return the entry for a follower, which has served nothing."""
        return replace(self, audits=(), counts=(0, 0, 0))


@dataclass(frozen=True, slots=True)
class Dismiss(Control):
    """Dismissal of a suggestion of a kind for a label, and for another one if the suggestion is about two labels."""

    kind: str
    label: str
    other: str | None
    key: IdempotencyKey | None = None
    code = 8

    @property
    def facts(self) -> tuple[Any, ...]:
        return self.kind, self.label, self.other

    @classmethod
    def read(cls, key: IdempotencyKey | None, kind: str, label: str, other: str | None) -> "Dismiss":
        check_suggestion(kind, label, other)
        return cls(kind, label, other, key)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "dismissal", "suggestion": self.kind, "label": self.label, "other": self.other}

    def apply(self, model: OnlineModel, position: str, target: OnlineModel | None) -> Iterable[LabelChange]:
        model.dismiss(self.kind, self.label, self.other)
        return ()


CONTROLS: tuple[type[Control], ...] = (Rollback, Relabel, Describe, Regroup, SetPromise, Served, Dismiss)
"""All kinds of control entries."""
