"""Columns of features, by name or index, in order of first appearance.

Memory therefore depends on the features seen, not on the largest index. In a dense example, the position of a feature
is its column.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manylabel_core import Vocabulary
from manylabel_core.index_columns import IndexColumns
from manylabel_core.records.bounds import MAX_NAME_BYTES, MAX_VECTOR_FIELDS, MAX_VECTOR_LENGTH
from manylabel_core.records.number_fields import SETTLED, GivenPairs, NumberFields, numbers_of
from manylabel_core.rows import MAX_COLUMNS, VECTOR_COLUMNS
from manylabel_service.errors import InvalidExample
from manylabel_service.hosting.examples import Features
from manylabel_service.online.spec.limits import FeatureLimit, check_ignored, most_of
from manylabel_service.online.state.category_fields import CategoryFields, number_fields, state_of_numbers
from manylabel_service.online.state.feature_hashing import hashed, sources

Columns = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Ascending columns of one example, and their values, including zeros; NaN is a missing value of a dense example."""


_NO_NUMBERS = NumberFields()

MAX_LENGTHS = 3
"""Maximum number of lengths of the vectors of a field while no length is settled."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of the features, determined by the examples so far.

    `kind` is None before the first example. `size` is the number of numbered features so far: the highest index plus 1.
    If `fixed`, the model accepts no other features, because they are declared or it has learnt a dense example. Indices
    of sparse examples from `most` on are ignored and do not affect the layout.

    `vectors` are the blocks of vectors in order of first appearance: fields with their lengths. `n_vectors` is the
    number of examples with each block, counted up to `SETTLED`. A block with `SETTLED` examples is settled, and its
    field accepts no other length. Before that, vectors of each length are separate blocks, so that a mistake in the
    first example does not fix the length of the field. `numbers` are the number fields, except declared features.
    """

    kind: Literal["named", "numbered"] | None = None
    size: int = 0
    fixed: bool = False
    declared: bool = False
    most: int | None = None
    vectors: tuple[tuple[str, int], ...] = ()
    n_vectors: tuple[int, ...] = ()
    numbers: NumberFields = _NO_NUMBERS

    @property
    def vector_fields(self) -> dict[str, int]:
        """Length of the vectors of each field: the settled length, else the newest one."""
        newest = dict(self.vectors)
        return newest | {
            name: n for (name, n), seen in zip(self.vectors, self.n_vectors, strict=True) if seen >= SETTLED
        }

    @property
    def vector_lengths(self) -> tuple[int, ...]:
        """Length of the vectors of each field."""
        return tuple([length for _, length in self.vectors]) if self.vectors else ()

    @property
    def n_vector_values(self) -> int:
        """Total number of values of one vector of each field."""
        return sum(self.vector_lengths)

    @property
    def n_dense(self) -> int | None:
        """Number of columns of every example; None unless examples are dense."""
        return self.size if self.kind == "numbered" and self.fixed else None

    def problem(self, x: Features) -> str | None:
        """Return why an example of this kind cannot be used; None if it can."""
        if x.names is not None:
            numbered = self.kind == "numbered"
            return "this model has numbered features: send a list, or indices and values" if numbered else None
        if self.kind == "named" and not self.declared:
            return "this model has named features: send an object of names and values"
        if x.indices is not None:
            highest = int(x.indices[-1]) if len(x.indices) else -1
            return f"indices must be below {self.size}" if self.fixed and highest >= self.size else None
        n_given = len(x.values)
        if n_given == self.size > 0 or (not self.fixed and n_given > self.size):
            return None
        due = str(self.size) if self.fixed else f"at least {max(self.size, 1)}"
        return f"must have {due} numbers, has {n_given}"

    def vector_problem(self, x: Features, is_category: Callable[[str], bool]) -> tuple[str, str] | None:
        """Return the first field of an example whose vector does not match earlier examples, and the problem; None if
        all match."""
        for name, vector in (x.vectors or {}).items():
            problem = self._problem_of_vector(name, len(vector), is_category)
            if problem is not None:
                return name, problem
        new, room = self._new_vectors(x), MAX_VECTOR_FIELDS - len(self.vectors)
        if len(new) > room:
            return new[room][0], f"exceeds the limit of {MAX_VECTOR_FIELDS} vector fields of a model"
        return None

    def _problem_of_vector(self, name: str, length: int, is_category: Callable[[str], bool]) -> str | None:
        lengths = {n: seen for (own, n), seen in zip(self.vectors, self.n_vectors, strict=True) if own == name}
        settled = [n for n, seen in lengths.items() if seen >= SETTLED]
        if settled:
            wanted = f"must have {settled[0]:,} numbers, as in the examples before; has {length:,}"
            return wanted if length != settled[0] else None
        if length == 0:
            return None
        if self.declared:
            return "is not one of the features declared for this model"
        if self.numbers.seen is not None and self.numbers.is_settled(name):
            return (
                "must be a number, as in the examples before, not a list of numbers: send 42 instead of [42], or the "
                "vector as a field of another name"
            )
        if is_category(name):
            return (
                "must be a string, as in the examples before, not a list of numbers: send the vector as a field of "
                "another name"
            )
        if length not in lengths and len(lengths) == MAX_LENGTHS:
            known = " or ".join(f"{n:,}" for n in lengths)
            return f"must have {known} numbers, as in the examples before; has {length:,}"
        return None

    def agrees_with(self, other: "Layout") -> bool:
        """Return whether two layouts differ only in the counts of numbers, and in those of vectors that stay
        unsettled."""
        if self == other:
            return True
        own, numbers = self.numbers, other.numbers
        same = own.always == numbers.always and own.of_records == numbers.of_records
        same = same and (own.seen is None) == (numbers.seen is None)
        same = same and all(
            (a >= SETTLED) == (b >= SETTLED) for a, b in zip(self.n_vectors, other.n_vectors, strict=False)
        )
        return same and replace(self, numbers=numbers, n_vectors=other.n_vectors) == other

    def has_unsettled(self, x: Features) -> bool:
        """Return whether an example has a vector whose length is not settled."""
        blocks = dict(zip(self.vectors, self.n_vectors, strict=True))
        return any(len(v) and blocks.get((name, len(v)), 0) < SETTLED for name, v in (x.vectors or {}).items())

    def brings_vectors(self, x: Features) -> bool:
        """Return whether an example has the first vector of a field, or the first of its length."""
        return bool(x.vectors) and bool(self._new_vectors(x))

    def _new_vectors(self, x: Features) -> tuple[tuple[str, int], ...]:
        return tuple(
            (name, len(v)) for name, v in (x.vectors or {}).items() if len(v) and (name, len(v)) not in self.vectors
        )

    def _after_vectors(self, x: Features) -> "Layout":
        """Return the layout after the vectors of the example are learnt."""
        if not self.has_unsettled(x):
            return self
        blocks = dict(zip(self.vectors, self.n_vectors, strict=True))
        for name, vector in (x.vectors or {}).items():
            if len(vector):
                blocks[name, len(vector)] = min(blocks.get((name, len(vector)), 0) + 1, SETTLED)
        return replace(self, vectors=tuple(blocks), n_vectors=tuple(blocks.values()))

    def numbers_of(self, x: Features) -> list[str]:
        """Return the numbers of a named example, if the layout has number fields."""
        return [] if x.names is None or self.declared or self.numbers.seen is None else numbers_of(x.names)

    def learning(self, x: Features, numbers: Sequence[str]) -> tuple["Layout", list[str]]:
        """Return the layout after the example is learnt, and the additional features of the example, with the value 1.

        `numbers` is the result of `numbers_of`.
        """
        after = self.after(x, numbers)
        given = after.numbers.given(numbers) if numbers else []
        return after, [name for name in given if name not in (x.names or ())]

    def given(self, x: Features, numbers: Sequence[str]) -> list[str]:
        """Return the additional features of an example, like `learning`, without the layout after it."""
        always, of_records = self.numbers.always, self.numbers.of_records or len(numbers) < len(x.names or ())
        if always is None or not of_records or always.issuperset(numbers):
            return []
        return self.learning(x, numbers)[1]

    def after(self, x: Features, numbers: Sequence[str] | None = None) -> "Layout":
        """Return the layout after the example is learnt; named features are counted by their vocabulary.

        `numbers` is the result of `numbers_of`.
        """
        if x.vectors:
            return self._after_vectors(x).after(x._replace(vectors=None), numbers)
        if self.fixed:
            return self
        if x.names is not None:
            numbers = self.numbers_of(x) if numbers is None else numbers
            fields = self.numbers.after(numbers, len(numbers) < len(x.names))
            if fields is self.numbers and self.kind == "named":
                return self
            return replace(self, kind="named", numbers=fields)
        if x.indices is None:
            return replace(self, kind="numbered", size=len(x.values), fixed=True)
        size = max(self.size, int(x.indices[-1]) + 1 if len(x.indices) else 0)
        size = size if self.most is None else min(size, self.most)
        return self if (size, self.kind) == (self.size, "numbered") else replace(self, kind="numbered", size=size)

    def rolled_back(self, target: "Layout") -> "Layout":
        """Return the layout after a rollback: settled fields are those of the target; blocks and numbers stay."""
        seen, kept = self.numbers.seen, target.numbers
        if seen is None or kept.seen is None:
            numbers = NumberFields(None)
        else:
            numbers = replace(kept, seen={name: kept.seen.get(name, 0) for name in seen})
        n_vectors = (*target.n_vectors, *(0,) * (len(self.vectors) - len(target.vectors)))
        return replace(self, numbers=numbers, n_vectors=n_vectors)


class FeatureSpace:
    """Features of one model. Its state is the layout, the names or the indices, the category fields, and the count of
    ignored features.

    An example with an optional number also has a feature that marks the number as present, see `NumberFields`. This
    feature follows from earlier examples, so it is not in the log.

    Parameters
    ----------
    declared : names or number of columns, if only declared features are accepted.
    limit : limit of the number of columns.

    Attributes
    ----------
    ignored : number of times that a feature above the limit was omitted from a learnt example.
    columns : columns of the indices of numbered features.
    categories : category fields.
    """

    def __init__(self, declared: list[str] | int | None, limit: FeatureLimit | None = None) -> None:
        self.names = Vocabulary()
        self.columns = IndexColumns()
        self.categories = CategoryFields()
        self.ignored = 0
        self._pairs = GivenPairs()
        self._limit = limit
        self._n_hashed, self._n_kept = most_of(limit, "hash"), most_of(limit, "ignore")
        if isinstance(declared, int):
            self.layout = Layout("numbered", declared, fixed=True, declared=True)
        elif declared is not None:
            self.names.add(declared)
            self.columns = IndexColumns(len(declared))
            self.layout = Layout("named", len(declared), fixed=True, declared=True)
        else:
            self.layout = Layout(most=self._n_kept)

    def __len__(self) -> int:
        """Return the number of features, including unseen features below the highest index."""
        if self._n_hashed is not None:
            return self._n_hashed
        if self.layout.kind != "numbered":
            return len(self.names)
        return self.layout.size if self._n_kept is None else min(self.layout.size, self._n_kept)

    @property
    def n_columns(self) -> int:
        """Number of columns of the learner for features."""
        if self._n_hashed is not None:
            return self._n_hashed
        return len(self.columns) if self.layout.kind == "numbered" else len(self.names)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Columns of each optional number, and of the feature that marks it as present."""
        return [] if self.layout.declared else self._pairs.read(len(self.names), self.names.newest)

    @property
    def nbytes(self) -> int:
        """Memory of names and indices in bytes."""
        return self.names.nbytes + self.columns.nbytes

    @property
    def keeps_names(self) -> bool:
        """True if new names get separate columns."""
        return self._n_hashed is None and not self.layout.declared

    @property
    def knows_numbers(self) -> bool:
        """True if the number fields include every numeric feature that has a column."""
        return self._n_hashed is None and self._n_kept is None

    def continues(self, earlier: "FeatureSpace") -> bool:
        """Return whether the columns of an earlier state are the first columns here, with the same input kind."""
        old, new = earlier.layout, self.layout
        if new.vectors[: len(old.vectors)] != old.vectors:
            return False
        old, new = (replace(each, vectors=(), n_vectors=(), numbers=_NO_NUMBERS) for each in (old, new))
        may_follow = new == old if old.fixed else old.kind in (None, new.kind) and old.size <= new.size
        same_names = self.names.names[: len(earlier.names)] == earlier.names.names
        return may_follow and same_names and self.columns.begins_with(earlier.columns)

    def roll_back(self, target: "FeatureSpace") -> None:
        """Return to the facts about fields in an earlier state; names and columns stay."""
        self.layout = self.layout.rolled_back(target.layout)
        self.categories.roll_back(target.categories, self.names)

    def check(self, index: int, x: Features, layout: Layout | None = None) -> None:
        """Raise InvalidExample if an example cannot be used.

        Parameters
        ----------
        index : index of the example in its request.
        layout : layout after the preceding examples; None: the current layout.
        """
        layout = layout or self.layout
        problem = layout.problem(x)
        if problem is not None:
            raise InvalidExample(index, ("x",), problem)
        if x.vectors:
            found = layout.vector_problem(x, self.categories.is_settled)
            if found is not None:
                raise InvalidExample(index, ("x", found[0]), found[1])
        if x.names is not None and layout.declared:
            for name in x.names:
                if name not in self.names:
                    raise InvalidExample(index, ("x", name), "is not one of the features declared for this model")

    def fits(self, x: Features) -> bool:
        """Return whether an example is valid, see `check`."""
        try:
            self.check(0, x)
        except InvalidExample:
            return False
        return True

    def new_indices(self, x: Features) -> NDArray[np.int32]:
        """Return the indices of an example that would get new columns; an empty list for named features."""
        if x.names is not None or self._n_hashed is not None:
            return _NO_INDICES
        return self.columns.unknown(self._below(_indices(x)))

    def add(self, x: Features) -> Columns:
        """Return the columns of an example about to be learnt; new features get columns within the limit."""
        if x.names is not None and self._n_hashed is None:
            found = self._add_names(x, x.names)
            return self._with_vectors(x, found) if x.vectors else found
        self.layout, given = self.layout.learning(x, self.layout.numbers_of(x))
        found = self._found(_with_given(x, given), add=True)
        if x.names is None and self._n_kept is not None:
            self.ignored += int(np.count_nonzero(x.values) - np.count_nonzero(found[1]))
        return self._with_vectors(x, found) if x.vectors else found

    def _with_vectors(self, x: Features, found: Columns) -> Columns:
        """Return the columns of an example, including those of its vectors in known blocks."""
        assert x.vectors is not None
        columns, values, first = [found[0]], [found[1]], VECTOR_COLUMNS
        for name, length in self.layout.vectors:
            vector = x.vectors.get(name)
            if vector is not None and len(vector) == length:
                columns.append(np.arange(first, first + length, dtype=np.int32))
                values.append(vector)
            first += length
        return np.concatenate(columns), np.concatenate(values)

    def _add_names(self, x: Features, names: tuple[str, ...]) -> Columns:
        n_before = len(self.names)
        if self._n_kept is None:
            columns = self.names.add(names)
        elif n_before < self._n_kept:
            self.names.add(self.names.unknown(names)[: self._n_kept - n_before])
        new = self.names.newest(len(self.names) - n_before)
        if not self.layout.declared:
            self.categories.count(names, new)
        self.layout, given = self.layout.learning(x, self.numbers_in(x, bool(new) or not self.knows_numbers))
        if given:
            x = _with_given(x, given)
        if self._n_kept is None:
            if given:
                columns += self.names.add(given)
            return _ascending(np.array(columns, dtype=np.int32), x.values)
        self.names.add(self.names.unknown(given)[: self._n_kept - len(self.names)])
        found = self._placed(x, self.names.lookup(x.names or ()))
        self.ignored += int(np.count_nonzero(x.values) - np.count_nonzero(found[1]))
        return found

    def numbers_in(self, x: Features, has_new: bool) -> list[str]:
        """Return the numbers of an example, like `Layout.numbers_of`; `has_new` says whether some of its names are new.

        All numbers among known names are number fields, so nothing is looked up for an example of texts.
        """
        return self.layout.numbers_of(x) if has_new or self.layout.numbers.seen else []

    def complete(self, x: Features) -> Features:
        """Return an example with the additional features that it would have if it were learnt next."""
        return _with_given(x, self.layout.given(x, self.layout.numbers_of(x)))

    def find(self, x: Features) -> Columns:
        """Return the columns of an example to predict; nothing is added.

        Features that were never learnt get the columns that learning would assign: they have no weight, but count in
        the norm of the example. Features that learning would ignore are omitted.
        """
        found = self._found(x)
        return self._with_vectors(x, found) if x.vectors else found

    def name_in(self, x: Features) -> Callable[[int], str | int]:
        """Return the name or index of the feature in a column of an example; if several share the column, the one with
        the largest value.
        """
        name_of = self._name_in(x)
        if not self.layout.vectors:
            return name_of
        starts = accumulate(self.layout.vector_lengths, initial=VECTOR_COLUMNS)
        fields = {first: name for first, (name, _) in zip(starts, self.layout.vectors, strict=False)}
        return lambda column: fields[column] if column >= VECTOR_COLUMNS else name_of(column)

    def _name_in(self, x: Features) -> Callable[[int], str | int]:
        if self._n_hashed is not None:
            names: Mapping[int, str | int] = sources(self.complete(x), self._n_hashed)
            return names.__getitem__
        if x.names is not None:
            return self.names.names.__getitem__
        indices = self.columns.indices
        return lambda column: int(indices[column])

    def _found(self, x: Features, add: bool = False) -> Columns:
        """Return the columns of features. With `add`, the example must be complete, and new indices get columns."""
        if self._n_hashed is not None:
            return hashed(x if add else self.complete(x), self._n_hashed)
        if x.names is None:
            indices = self._below(_indices(x))
            return self.columns.place(indices, x.values[: len(indices)], add)
        columns = self.names.lookup(x.names)
        numbers = self.numbers_in(x, -1 in columns)
        if numbers:
            x = _with_given(x, given := self.layout.given(x, numbers))
            columns += self.names.lookup(given)
        return self._placed(x, columns)

    def _placed(self, x: Features, columns: list[int]) -> Columns:
        """Return the columns of a complete example; -1 for a new feature."""
        if -1 in columns:
            new = count(len(self.names))
            columns = [next(new) if column < 0 else column for column in columns]
        found = _ascending(np.array(columns, dtype=np.int32), x.values)
        if self._n_kept is None:
            return found
        n_kept = int(np.searchsorted(found[0], self._n_kept))
        return found[0][:n_kept], found[1][:n_kept]

    def _below(self, indices: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return ascending indices without ignored ones."""
        return indices if self._n_kept is None else indices[: np.searchsorted(indices, self._n_kept)]

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays, and facts for a JSON header."""
        layout: dict[str, Any] = {"kind": self.layout.kind, "size": self.layout.size, "fixed": self.layout.fixed}
        columns = self.columns if self.layout.kind == "numbered" else IndexColumns()
        numbers, layout["numbers"] = state_of_numbers(self.layout.numbers)
        arrays = {**self.names.state(), "indices": columns.to_array(), **numbers, **self.categories.state()}
        if self.layout.vectors:
            blocks = zip(self.layout.vectors, self.layout.n_vectors, strict=True)
            layout["vectors"] = [[*field, seen] for field, seen in blocks]
        return arrays, layout if self._n_kept is None else {**layout, "ignored": self.ignored}

    def restore(self, arrays: dict[str, NDArray[Any]], layout: dict[str, Any]) -> None:
        """Restore a `state` with the same declared features. Raises ValueError or TypeError."""
        facts = dict(layout)
        ignored = facts.pop("ignored", None) if self._n_kept is not None else 0
        names = self.names if _are_alike(self.names.state(), arrays) else Vocabulary.from_state(arrays)
        vectors, n_vectors = _checked_vectors(facts.pop("vectors", []))
        numbers = number_fields(arrays, facts.pop("numbers"))
        categories = CategoryFields.from_arrays(arrays, names)
        found = replace(self.layout, **facts, vectors=vectors, n_vectors=n_vectors, numbers=numbers)
        if type(found.size) is not int or type(found.fixed) is not bool or not 0 <= found.size <= MAX_COLUMNS:
            raise ValueError("layout must have a size, and a flag that says whether the size is fixed")
        as_declared = found == self.layout and names == self.names
        bare = found.numbers == _NO_NUMBERS and not categories.seen
        if not (as_declared and bare if found.declared else _undeclared(found, names, bare)):
            raise ValueError("layout does not match the names or the declared features")
        columns = IndexColumns.from_array(arrays["indices"])
        self._check_indices(columns.indices, found)
        if self._limit is not None:
            _check_limit(names, found, self._limit)
        n_columns = max(len(names), min(found.size, self._n_kept or 0))
        self.ignored = check_ignored(ignored, n_columns, self._limit)
        self.names, self.layout, self.categories = names, found, categories
        self._pairs = GivenPairs()
        if found.kind == "numbered":
            self.columns = columns

    def _check_indices(self, indices: NDArray[np.int32], layout: Layout) -> None:
        """Raise ValueError unless the layout can have exactly these indices."""
        numbered = layout.kind == "numbered" and self._n_hashed is None
        size = layout.size if self._n_kept is None else min(layout.size, self._n_kept)
        if indices.size and not (numbered and indices.max() < size):
            raise ValueError("indices: an index is missing or too high")
        if numbered and layout.fixed and not layout.declared and len(indices) != size:
            raise ValueError(f"indices of a model with dense examples must be all {size}, not {len(indices)}")


def _are_alike(own: dict[str, NDArray[Any]], arrays: dict[str, NDArray[Any]]) -> bool:
    """Return whether names are the declared ones. There may be hundreds of thousands, so they are not copied."""
    pairs = [(own[part], arrays[part]) for part in own]
    return all(one.dtype == other.dtype and np.array_equal(one, other) for one, other in pairs)


_NO_INDICES = np.zeros(0, dtype=np.int32)


def _checked_vectors(given: Any) -> tuple[tuple[tuple[str, int], ...], tuple[int, ...]]:
    """Return the blocks of vectors, and their numbers of examples, from a state; raise ValueError or TypeError."""
    blocks = {(name, length): seen for name, length, seen in given}
    for (name, length), seen in blocks.items():
        named = isinstance(name, str) and 1 <= len(name.encode()) <= MAX_NAME_BYTES
        counts = type(length) is int and 1 <= length <= MAX_VECTOR_LENGTH and type(seen) is int and 0 <= seen <= SETTLED
        if not (named and counts):
            raise ValueError("layout: a vector must have a name, a length and a number of examples")
    if len(blocks) != len(given) or len(blocks) > MAX_VECTOR_FIELDS:
        raise ValueError(f"layout: at most {MAX_VECTOR_FIELDS} vectors are allowed, with distinct names and lengths")
    return tuple(blocks), tuple(blocks.values())


def _undeclared(layout: Layout, names: Vocabulary, has_no_fields: bool) -> bool:
    """Return whether a layout can occur with these names."""
    if layout.kind == "numbered":
        return not (len(names) or layout.vectors) and has_no_fields and (layout.size > 0 or not layout.fixed)
    bare = layout.size == 0 and not layout.fixed
    kind = layout.kind == "named" or (layout.kind is None and not (len(names) or layout.vectors) and has_no_fields)
    return bare and kind


def _check_limit(names: Vocabulary, layout: Layout, limit: FeatureLimit) -> None:
    """Raise ValueError above the limit."""
    if limit.policy == "hash":
        if len(names):
            raise ValueError("layout: hashed features must have no names")
        return
    may_be_longer = limit.policy == "ignore" and layout.fixed
    if max(len(names), 0 if may_be_longer else layout.size) > limit.most:
        raise ValueError(f"layout: the features exceed the limit of {limit.most}")


def _indices(x: Features) -> NDArray[np.int32]:
    return np.arange(len(x.values), dtype=np.int32) if x.indices is None else x.indices


def _with_given(x: Features, given: Sequence[str]) -> Features:
    """Return an example with additional features of the value 1."""
    if not given:
        return x
    return x._replace(names=(*(x.names or ()), *given), values=np.append(x.values, np.ones(len(given), np.float32)))


def _ascending(columns: NDArray[np.int32], values: NDArray[np.float32]) -> Columns:
    order = np.argsort(columns)
    return columns[order], values[order]
