"""Dry run of an update: the growth of the model, and whether its examples can be learnt."""

from collections.abc import Callable, Iterable, Sequence
from operator import add, sub
from typing import NamedTuple

from manylabel_core import Vocabulary
from manylabel_core.index_columns import IndexColumns
from manylabel_core.label_structure import Contradiction, LabelStructure
from manylabel_service.errors import InvalidExample
from manylabel_service.hosting.examples import Example, Features, Labels
from manylabel_service.online.spec.limits import FeatureLimit, LabelLimit, most_of
from manylabel_service.online.state.feature_space import Layout
from manylabel_service.online.state.model import OnlineModel


class SizeDelta(NamedTuple):
    """Growth of a model by one or several updates.

    `features` counts features up to the highest index, and `columns` the features seen, which need memory. `vectors`
    counts the values of vectors of new fields, and `distinct` the distinct features of each update.
    """

    features: int = 0
    labels: int = 0
    examples: int = 0
    values: int = 0
    columns: int = 0
    vectors: int = 0
    distinct: int = 0

    def plus(self, other: "SizeDelta") -> "SizeDelta":
        """Return the sum of both growths."""
        return SizeDelta(*map(add, self, other))

    def minus(self, other: "SizeDelta") -> "SizeDelta":
        """Return this growth minus the other."""
        return SizeDelta(*map(sub, self, other))


class Checked(NamedTuple):
    """Result of a dry run: the layout of the features after an update, and its growth.

    `settled` is true if the same numbers were optional before each example, and the lengths of all vectors were
    settled.
    """

    layout: Layout
    growth: SizeDelta
    known: Vocabulary
    settled: bool
    relabels: int = 0

    def still_valid(self, model: OnlineModel) -> bool:
        """Return whether the update stays valid without another check, regardless of what the model learns
        meanwhile."""
        if not (self.settled and self.layout.agrees_with(model.features.layout)):
            return False
        if self.known is not model.features.names:
            return False
        if self.relabels != model.relabels:
            return False
        return not (model.limits.rejects and _exceeds(model, self.growth))


def grown(model: OnlineModel, growth: SizeDelta) -> tuple[int, int]:
    """Return the maximum features and labels of a model after several updates."""
    return model.limits.within(len(model.features) + growth.features, len(model.labels) + growth.labels)


def grown_columns(model: OnlineModel, growth: SizeDelta) -> tuple[int, int]:
    """Return the maximum columns of features and labels after the update, see `grown`."""
    return model.limits.within(model.features.n_columns + growth.columns, len(model.labels) + growth.labels)


def _exceeds(model: OnlineModel, growth: SizeDelta) -> bool:
    limitless = len(model.features) + growth.features, len(model.labels) + growth.labels
    return grown(model, growth) != limitless


class _Gain:
    """New names that an update would add to a model.

    Parameters
    ----------
    known : existing names.
    limit : limit of their number.
    """

    def __init__(self, known: Vocabulary, limit: FeatureLimit | LabelLimit | None) -> None:
        self._known = known
        self._most = None if limit is None else limit.most
        self.rejects = most_of(limit, "reject") is not None
        self._new: set[str] = set()

    def size_with(self, new: Sequence[str] = ()) -> int:
        """Return the number of names that the model would gain if some more names were added."""
        size = len(self._new) + len(new)
        return size if self._most is None else min(size, self._most - len(self._known))

    def of(self, names: Iterable[str]) -> list[str]:
        """Return the names that the model would gain from these."""
        return [name for name in self._known.unknown(names) if name not in self._new]

    def first_beyond(self, new: list[str]) -> str | None:
        """Return the first new name above the limit if the policy rejects such names."""
        if not (self.rejects and new):
            return None
        assert self._most is not None
        self._new.difference_update([name for name in self._new if name in self._known])
        room = self._most - len(self._known) - len(self._new)
        return new[room] if len(new) > room else None

    def take(self, new: list[str]) -> None:
        """Count new names, except those that will be ignored."""
        room = len(new) if self._most is None else max(self._most - len(self._known) - len(self._new), 0)
        self._new.update(new[:room])


class DryRun:
    """Check of successive examples against the limits of a model, without learning them.

    Attributes
    ----------
    layout : layout of the features after the examples so far.
    n_examples, n_values : numbers of examples and of their feature values.
    """

    def __init__(self, model: OnlineModel) -> None:
        self._model = model
        self._relabels = model.relabels  # the current ones, because labels may change between two examples
        self._features = model.features
        self._new_features = _Gain(model.features.names, model.limits.features)
        self._new_labels = _Gain(model.labels, model.limits.labels)
        self._new_indices = IndexColumns()
        self._listed = set[str | int]()
        self._n_dense = 0
        self.layout = model.features.layout
        self._settled = True
        self.n_examples = 0
        self.n_values = 0

    @property
    def checked(self) -> Checked:
        """Result for the examples so far."""
        growth = self._growth(self.layout, self._new_features.size_with(), self._new_labels.size_with(), 0)
        return Checked(self.layout, growth, self._features.names, self._settled, self._relabels)

    def _growth(self, layout: Layout, n_names: int, n_labels: int, n_indices: int) -> SizeDelta:
        n_features, _ = self._model.limits.within(max(layout.size, len(self._features.names) + n_names), 0)
        n_features = max(n_features - len(self._features), 0)
        n_columns = n_names if layout.kind == "named" else len(self._new_indices) + n_indices
        n_vectors = layout.n_vector_values - self._features.layout.n_vector_values
        n_distinct = len(self._listed) + self._n_dense + layout.n_vector_values
        return SizeDelta(n_features, n_labels, self.n_examples, self.n_values, n_columns, max(n_vectors, 0), n_distinct)

    def check(self, example: Example) -> None:
        """Try the next example. Raises InvalidExample."""
        example = self._checked(example)
        if not self._model.learns(example):
            self.n_examples += 1
            return
        if self._model.limits.rejects:
            layout, _, features, labels = self._learning(example)
            self._new_features.take(features)
            self._new_labels.take(labels)
        else:
            layout = self.layout.after(example.x)
        self._learn(layout, example.x)

    def add(self, example: Example, check: Callable[[SizeDelta], None] | None = None) -> None:
        """Check the next example, and add its growth; raise like `check`.

        The check gets the growth including the example; if the check raises, the example is not counted.
        """
        example = self._checked(example)
        if not self._model.learns(example):
            self.n_examples += 1
            return
        layout, given, features, labels = self._learning(example)
        indices = self._features.new_indices(example.x)
        if len(indices):
            indices = self._new_indices.unknown(indices)
        n_values = example.x.n_values + len(given)
        if check is not None:
            sizes = self._new_features.size_with(features), self._new_labels.size_with(labels), len(indices)
            growth = self._growth(layout, *sizes)
            n_distinct = len(example.x.values) + len(given)
            check(growth.plus(SizeDelta(examples=1, values=n_values, distinct=n_distinct)))
        self._new_features.take(features)
        self._new_labels.take(labels)
        if len(indices):
            self._new_indices.add(indices)
        self._learn(layout, example.x)
        self.n_values += n_values
        self._list_features(example.x, given)

    def _learn(self, layout: Layout, x: Features) -> None:
        """Count an example, with the layout after it."""
        before, after = self.layout.numbers, layout.numbers
        same = before is after or not after.of_records
        same = same or (before.of_records and before.always == after.always)
        self._settled = self._settled and same and not (x.vectors and self.layout.has_unsettled(x))
        self.layout = layout
        self.n_examples += 1

    def _list_features(self, x: Features, given: Sequence[str]) -> None:
        """Record the features of an example, and its additional features, to count distinct features."""
        if x.names is not None:
            self._listed.update(x.names, given)
        elif x.indices is not None:
            self._listed.update(x.indices.tolist())
        else:
            self._n_dense = max(self._n_dense, len(x.values))

    def _checked(self, example: Example) -> Example:
        """Return a well-formed example with the current names of its labels."""
        self._features.check(self.n_examples, example.x, self.layout)
        if len(self._model.old_names):
            self._check_old_names(example.y)
            example = example._replace(y=self._model.resolve(example.y))
        self._check_labels(example.y)
        if (structure := self._model.groups.all) is not None:  # a thread may replace it
            self._check_consistent(structure, example.y)
        return example

    def _check_consistent(self, structure: LabelStructure, y: Labels) -> None:
        columns = self._model.labels.lookup(y.names)
        try:
            structure.imply(columns, y.signs, y.complete)
        except Contradiction as error:
            path: tuple[str | int, ...] = ("y",)
            if error.column is not None:
                place = columns.index(error.column)
                path = ("y", place if y.complete else y.names[place])
            raise self._beyond(path, error.detail) from error

    def _check_old_names(self, y: Labels) -> None:
        """Raise InvalidExample if old names are refused, or if an old name contradicts another name of the same
        label."""
        model, signs = self._model, dict[str, tuple[str, int]]()
        for place, (name, sign) in enumerate(zip(y.names, y.signs.tolist(), strict=True)):
            current = model.old_names.current(name, model.labels.names)
            path = ("y", place if y.complete else name)
            if name != current and model.online_spec.old_names == "refuse":
                raise self._beyond(path, f"is an old name of {current!r}; use that name")
            other, before = signs.setdefault(current, (name, sign))
            if before != sign:
                raise self._beyond(path, f"contradicts {other!r}, because both are names of {current!r}")

    def _learning(self, example: Example) -> tuple[Layout, list[str], list[str], list[str]]:
        """Return the layout after an example, its additional features, and its new features and labels."""
        x, y, *_ = example
        names = x.names if x.names is not None and self._features.keeps_names else ()
        features, labels = self._new_features.of(names), self._new_labels.of(y.names)
        has_numbers = bool(features or self.layout.numbers.seen) or not self._features.knows_numbers
        layout, given = self.layout.learning(x, self._features.numbers_in(x, has_numbers))
        if self._features.keeps_names:
            features += self._new_features.of(given)
        self._check_room(x, y, features, labels)
        return layout, given, features, labels

    def _check_room(self, x: Features, y: Labels, features: list[str], labels: list[str]) -> None:
        limits = self._model.limits
        if (most := most_of(limits.features, "reject")) is not None:
            beyond = self._new_features.first_beyond(features)
            if beyond is not None:
                raise self._beyond(("x", beyond), f"exceeds the limit of {most} features of this model")
            if (problem := _numbers_beyond(x, most)) is not None:
                raise self._beyond(("x",), f"{problem}, the limit of this model")
        if (most := most_of(limits.labels, "reject")) is not None:
            beyond = self._new_labels.first_beyond(labels)
            if beyond is not None:
                place = y.names.index(beyond) if y.complete else beyond
                raise self._beyond(("y", place), f"exceeds the limit of {most} labels of this model")

    def _check_labels(self, y: Labels) -> None:
        declared, retired = self._model.spec.labels is not None, self._model.retired
        if not (declared or retired):
            return
        for place, name in enumerate(y.names):
            path = ("y", place if y.complete else name)
            if name in retired:
                raise self._beyond(path, "is a retired label")
            if declared and name not in self._model.labels:
                raise self._beyond(path, "is not one of the labels declared for this model")

    def _beyond(self, path: tuple[str | int, ...], detail: str) -> InvalidExample:
        return InvalidExample(self.n_examples, path, detail)


def _numbers_beyond(x: Features, most: int) -> str | None:
    """Return the problem of an example whose feature numbers exceed the limit, or None."""
    if x.names is not None:
        return None
    if x.indices is not None:
        return f"indices must be below {most}" if len(x.indices) and x.indices[-1] >= most else None
    return f"must have at most {most} numbers, has {len(x.values)}" if len(x.values) > most else None
