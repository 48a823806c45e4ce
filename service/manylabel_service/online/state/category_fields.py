"""Fields of records that have been categories or texts, and the state of the number fields."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core import Vocabulary
from manylabel_core.records.number_fields import MAX_NUMBER_FIELDS, SETTLED, NumberFields, given_name, numbers_of

MAX_CATEGORY_FIELDS = 256
"""Maximum number of category fields that are counted. In models with more category fields, no field is settled."""

Arrays = Mapping[str, NDArray[Any]]


class CategoryFields:
    """Number of learnt examples with each category or text field, counted up to `SETTLED`.

    The features of such a field have names `field=value`. A field is settled after `SETTLED` examples, because it is
    then hardly a mistake; from then on, a vector in the field is refused. Only names of unsettled fields are looked up,
    so counting costs nothing later.

    Attributes
    ----------
    seen : number of examples by field; None with more than `MAX_CATEGORY_FIELDS`.
    """

    def __init__(self) -> None:
        self.seen: dict[str, int] | None = {}
        self._unsettled: dict[str, str] = {}
        """Field of each feature name of the fields that are not settled."""

    def count(self, names: Sequence[str], new: Sequence[str]) -> None:
        """Count an example that is about to be learnt, from the names of its features and of its new features."""
        if self.seen is None:
            return
        self._watch(new)
        if not self._unsettled or self._unsettled.keys().isdisjoint(names):
            return
        for field in dict.fromkeys(self._unsettled[name] for name in names if name in self._unsettled):
            self.seen[field] = self.seen.get(field, 0) + 1
            if self.seen[field] == SETTLED:
                self._unsettled = {name: own for name, own in self._unsettled.items() if own != field}
        if len(self.seen) > MAX_CATEGORY_FIELDS:
            self.seen, self._unsettled = None, {}

    def _watch(self, names: Sequence[str]) -> None:
        seen = self.seen or {}
        for name in names:
            field, equals, _ = name.partition("=")
            if equals and seen.get(field, 0) < SETTLED:
                self._unsettled[name] = field

    def is_settled(self, field: str) -> bool:
        """Return whether at least `SETTLED` examples had categories in this field."""
        return self.seen is not None and self.seen.get(field, 0) >= SETTLED

    def roll_back(self, target: "CategoryFields", names: Vocabulary) -> None:
        """Return to the counts of an earlier state; `names` are the current features."""
        if self.seen is not None and target.seen is not None:
            self.seen, self._unsettled = dict(target.seen), {}
            self._watch(names.names)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays for `from_arrays`."""
        fields = {} if self.seen is None else self.seen
        counts = np.array(list(fields.values()) if self.seen is not None else [-1], dtype=np.int8)
        return {**_named("categories", Vocabulary(fields).state()), "categories.seen": counts}

    @classmethod
    def from_arrays(cls, arrays: Arrays, names: Vocabulary) -> "CategoryFields":
        """Return the fields of a `state`, with the names of all features; raise ValueError if it is invalid."""
        found = cls()
        fields = Vocabulary.from_state(_group("categories", arrays)).names
        if not fields and arrays["categories.seen"].tolist() == [-1]:
            found.seen = None
            return found
        counts = _counts("categories", arrays, len(fields))
        if len(fields) > MAX_CATEGORY_FIELDS:
            raise ValueError(f"categories: at most {MAX_CATEGORY_FIELDS} fields are allowed")
        found.seen = dict(zip(fields, counts, strict=True))
        if any(seen < SETTLED for seen in counts):
            found._watch(names.names)
        return found


def state_of_numbers(fields: NumberFields) -> tuple[dict[str, NDArray[Any]], dict[str, bool]]:
    """Return number fields as arrays, and facts for a JSON header, for `number_fields`."""
    seen, always = fields.seen or {}, fields.always or frozenset()
    arrays = {
        **_named("numbers", Vocabulary(seen).state()),
        "numbers.seen": np.array(list(seen.values()), dtype=np.int8),
        "numbers.always": np.array([name in always for name in seen], dtype=np.bool_),
    }
    facts = {"counted": fields.seen is not None, "begun": fields.always is not None, "of_records": fields.of_records}
    return arrays, facts


def number_fields(arrays: Arrays, facts: Any) -> NumberFields:
    """Return the number fields of a state; raise ValueError or TypeError if it is invalid."""
    names = Vocabulary.from_state(_group("numbers", arrays)).names
    seen, always = _counts("numbers", arrays, len(names)), arrays["numbers.always"]
    if always.ndim != 1 or always.dtype != np.bool_ or len(always) != len(names) or len(names) > MAX_NUMBER_FIELDS:
        raise ValueError(f"numbers: at most {MAX_NUMBER_FIELDS} fields are allowed, each with a flag")
    if not isinstance(facts, dict) or any(type(fact) is not bool for fact in facts.values()):
        raise ValueError("numbers: facts must be an object of booleans")
    counted, begun, of_records = facts["counted"], facts["begun"], facts["of_records"]
    if (not counted and (names or begun or of_records)) or (not begun and (always.any() or of_records)):
        raise ValueError("numbers: the facts and the fields contradict each other")
    if not counted:
        return NumberFields(None)
    in_all = frozenset(name for name, is_in in zip(names, always.tolist(), strict=True) if is_in)
    return NumberFields(dict(zip(names, seen, strict=True)), in_all if begun else None, of_records)


def numbers_among(features: Sequence[str]) -> NumberFields:
    """Return the number fields of a model that has learnt these features; an optional number also has the feature
    `given_name`."""
    numbers, known = numbers_of(features), set(features)
    if len(numbers) > MAX_NUMBER_FIELDS:
        return NumberFields(None)
    always = frozenset(name for name in numbers if given_name(name) not in known)
    return NumberFields(dict.fromkeys(numbers, SETTLED), always, len(numbers) < len(features))


def _counts(part: str, arrays: Arrays, n_fields: int) -> list[int]:
    counts = arrays[f"{part}.seen"]
    if counts.shape != (n_fields,) or counts.dtype != np.int8 or ((counts < 0) | (counts > SETTLED)).any():
        raise ValueError(f"{part}: each field must have a number of examples from 0 to {SETTLED}")
    listed: list[int] = counts.tolist()
    return listed


def _named(part: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {f"{part}.{name}": array for name, array in arrays.items()}


def _group(part: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {name: arrays[f"{part}.{name}"] for name in ("bytes", "offsets")}
