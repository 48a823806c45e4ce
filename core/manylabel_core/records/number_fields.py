"""Optional number fields of records, and the features that state which of them a record has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from manylabel_core.records.bounds import MAX_NAME_BYTES, bounded

MAX_NUMBER_FIELDS = 256
"""Maximum number of number fields; a model with more has words or other sparse features, whose presence is their
value."""

SETTLED = 10
"""Minimum number of records with a settled field: see `NumberFields.is_settled`."""


@dataclass(frozen=True, slots=True)
class NumberFields:
    """Number fields of the records so far, an immutable value: `after` returns another one.

    A number is optional if a record lacks it. Then its presence may matter as much as its size, so records with the
    number also get the feature `given_name` of the field, with the value 1. The feature begins with the first record
    that lacks the number, so later records need not be known.

    A feature name without "=" is a number. No number is optional before the first category or text, because examples
    that contain only numbers are sparse features. None is optional with more than `MAX_NUMBER_FIELDS` number fields.

    Attributes
    ----------
    seen : number of records with each field, counted up to `SETTLED`; None with too many fields.
    always : the fields of all records so far; None before the first record.
    of_records : whether a record had a category or a text.

    Examples
    --------
    >>> fields = NumberFields().after(["price"], True).after([], True)
    >>> fields.given(["price", "size"])
    ['price=given', 'size=given']
    >>> NumberFields().after(["price"], True).given(["price"])
    []
    """

    seen: Mapping[str, int] | None = field(default_factory=dict)
    always: frozenset[str] | None = None
    of_records: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the pickles of equal fields equal, although sets have no order."""
        seen = None if self.seen is None else dict(sorted(self.seen.items()))
        always = None if self.always is None else [name for name in seen or () if name in self.always]
        return _of_parts, (seen, always, self.of_records)

    def after(self, numbers: Sequence[str], has_others: bool) -> NumberFields:
        """Return the fields after a record with these numbers; `has_others` is true if the record has other
        features."""
        if self.seen is None:
            return self
        always = frozenset(numbers) if self.always is None else self.always
        if not always.issubset(numbers):
            always = always.intersection(numbers)
        seen = self.seen
        new = {name: seen.get(name, 0) + 1 for name in numbers if seen.get(name, 0) < SETTLED}
        if new:
            seen = {**seen, **new}
            if len(seen) > MAX_NUMBER_FIELDS:
                return NumberFields(None, None)
        of_records = self.of_records or has_others
        if new or always is not self.always or of_records != self.of_records:
            return NumberFields(seen, always, of_records)
        return self

    def given(self, numbers: Sequence[str]) -> list[str]:
        """Return the additional features of a record with these numbers; the fields are those `after` the record."""
        if self.seen is None or self.always is None or not self.of_records:
            return []
        return [given_name(name) for name in numbers if name not in self.always]

    def is_settled(self, name: str) -> bool:
        """Return whether at least `SETTLED` records had this number, so that it is not a mistake."""
        return self.seen is None or self.seen.get(name, 0) >= SETTLED

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as JSON values, which are equal for equal fields."""
        seen = None if self.seen is None else dict(sorted(self.seen.items()))
        always = None if self.always is None else sorted(self.always)
        return {"seen": seen, "always": always, "of_records": self.of_records}

    @classmethod
    def from_json(cls, value: Any) -> NumberFields:
        """Return the fields from the output of `to_json`; raises ValueError if no records could lead to them."""
        if not isinstance(value, dict) or value.keys() != {"seen", "always", "of_records"}:
            raise ValueError("number fields: the fields must be seen, always and of_records")
        seen, always, of_records = value["seen"], value["always"], value["of_records"]
        if type(of_records) is not bool:
            raise ValueError("number fields: of_records must be true or false")
        if seen is None:
            if always is not None or of_records:
                raise ValueError("number fields: if seen is null, always must be null and of_records must be false")
            return cls(None, None)
        if not (isinstance(seen, dict) and len(seen) <= MAX_NUMBER_FIELDS and all(map(_is_number, seen))):
            raise ValueError(f"number fields: seen must have at most {MAX_NUMBER_FIELDS} names of numbers")
        if not all(type(count) is int and 0 <= count <= SETTLED for count in seen.values()):
            raise ValueError(f"number fields: counts must be integers from 0 to {SETTLED}")
        if always is None:
            if seen or of_records:
                raise ValueError("number fields: always is missing after a record")
            return cls()
        if not (isinstance(always, list) and all(isinstance(name, str) and name in seen for name in always)):
            raise ValueError("number fields: always must be a list of fields that were seen")
        return cls(dict(seen), frozenset(always), of_records)


def _of_parts(seen: dict[str, int] | None, always: list[str] | None, of_records: bool) -> NumberFields:
    return NumberFields(seen, None if always is None else frozenset(always), of_records)


def numbers_of(names: Iterable[str]) -> list[str]:
    """Return the feature names that are names of numbers."""
    return [name for name in names if "=" not in name]


def given_name(name: str) -> str:
    """Return the name, of at most 256 bytes, of the feature that is 1 for records with this number."""
    return bounded(f"{name}=given")


def given_names(names: Collection[str]) -> dict[str, str]:
    """Return the `given_name` of each number whose `given_name` is also one of these names.

    These are the optional numbers of a trained model, by the names of its features, a set or a mapping.
    """
    numbers = numbers_of(names)
    if len(numbers) == len(names):
        return {}
    return {name: given for name in numbers if (given := given_name(name)) in names}


class GivenPairs:
    """Pairs of the columns of a number and of its `given_name`, in a growing list of names.

    Attributes
    ----------
    pairs : list of pairs so far.
    """

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []
        self._columns: dict[str, list[int]] = {}
        self._n_read = 0

    def read(self, n_names: int, newest: Callable[[int], Sequence[Any]]) -> list[tuple[int, int]]:
        """Return the pairs of all names.

        Only names since the last call are read, through `newest`, which returns the last n names. A name that
        `given_name` shortened is not in a pair.
        """
        for column, name in enumerate(newest(n_names - self._n_read), self._n_read):
            if isinstance(name, str):
                self._add(name, column)
        self._n_read = n_names
        return self.pairs

    def _add(self, name: str, column: int) -> None:
        number = name.removesuffix("=given")
        if "=" in number:
            return
        found = self._columns.setdefault(number, [-1, -1])
        found[len(number) < len(name)] = column
        if min(found) >= 0:
            self.pairs.append((found[0], found[1]))


def _is_number(name: Any) -> bool:
    return isinstance(name, str) and "=" not in name and 1 <= len(name.encode()) <= MAX_NAME_BYTES
