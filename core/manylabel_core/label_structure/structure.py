"""Label structure: groups of exclusive labels, and labels that imply their parent."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.label_structure import _passes

Choose = Literal["one", "at_most_one"]
CHOICES: tuple[Choose, ...] = ("one", "at_most_one")
"""Number of true labels of a group."""


class InvalidStructure(ValueError):
    """Groups and parents are inconsistent. `path` is the path of the field, outermost first; `detail` completes the
    sentence that begins with it."""

    def __init__(self, path: tuple[str | int, ...], detail: str) -> None:
        super().__init__(f"{'/'.join(map(str, path))} {detail}")
        self.path, self.detail = path, detail


class Contradiction(ValueError):
    """True labels contradict the structure.

    `column` is the passed label at fault, None if a complete truth lacks a label; `detail` completes the sentence that
    begins with the label.
    """

    def __init__(self, column: int | None, detail: str) -> None:
        super().__init__(detail)
        self.column, self.detail = column, detail


class Group(NamedTuple):
    """Group of labels, exactly or at most one of which is true."""

    name: str
    labels: Sequence[str]
    choose: Choose


class LabelStructure:
    """Structure of labels: disjoint groups, and a forest of parents.

    A set of labels is consistent if it has the parent of each of its labels and at most one label of each group. A
    group with exactly one true label must have one label in the set if the set has the parent of the group, or if the
    group has no parent. All labels of a group have the same parent, or none has a parent. "One leaf of a tree" is a
    group of the roots, and a group of the children of each label.

    Parameters
    ----------
    groups : disjoint, each with at least two labels, all children of one label or all without a parent.
    parents : the parent of each child; cycles are not allowed.
    column_of : the column of each label in `groups` and `parents`.
    hidden : labels omitted. The children of a hidden label become children of its parent. A group of them has at most
        one true label, because the truth of their parent is unknown.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        parents: Mapping[str, str],
        column_of: Mapping[str, int],
        hidden: Collection[str] = (),
    ) -> None:
        depths = check(groups, parents)
        self.groups, self.parents = tuple(groups), dict(parents)
        units: list[tuple[int, list[str], bool]] = []
        grouped = {label for group in groups for label in group.labels}
        for group in groups:
            labels = [label for label in group.labels if label not in hidden]
            exact = group.choose == "one" and parents.get(group.labels[0]) not in hidden
            units.append((depths[group.labels[0]], labels, exact))
        singles = (label for label in depths if label not in grouped and label not in hidden)
        units += [(depths[label], [label], False) for label in singles]
        units = [unit for unit in sorted(units, key=lambda unit: unit[0]) if unit[1]]
        nodes = [label for _, labels, _ in units for label in labels]
        self._names = nodes
        self._units = [labels for _, labels, _ in units]
        self._node_of_column = {column_of[label]: node for node, label in enumerate(nodes)}
        node_of = {label: node for node, label in enumerate(nodes)}
        self._arrays = (
            np.array([column_of[label] for label in nodes], dtype=np.int32),
            np.cumsum([len(labels) for labels in self._units], dtype=np.int32),
            np.array([node_of.get(_above(labels[0], parents, hidden), -1) for labels in self._units], dtype=np.int32),
            np.array([exact for _, _, exact in units], dtype=np.bool_),
        )

    def parent_columns(self) -> NDArray[np.int32]:
        """Return the column of each label's parent, by label column, -1 for none; empty if no label has a parent."""
        columns, ends, parents, _ = self._arrays
        if not (parents >= 0).any():
            return np.zeros(0, dtype=np.int32)
        found = np.full(1 + columns.max(), -1, dtype=np.int32)
        above = np.repeat(parents, np.diff(ends, prepend=0))
        found[columns[above >= 0]] = columns[above[above >= 0]]
        return found

    def decide(self, scores: NDArray[np.float64]) -> None:
        """Make raw scores, (n_samples, 1 + n_labels), consistent, in place: the labels above the threshold are the best
        consistent set.

        It has the largest total of margins (score minus threshold). The margin of a label becomes the total of the best
        consistent set that contains the label, minus the total of the best set without it. In a tie within a group, the
        first label wins.
        """
        _passes.decide(scores, *self._arrays)

    def agree(self, probabilities: NDArray[np.float64]) -> None:
        """Make probabilities, (n_samples, n_labels), agree with the structure, in place.

        From the leaves up, a parent gets at least the highest probability of its children. Then, from the roots down,
        the probabilities of a group with exactly one true label are scaled to sum to the probability of their parent,
        or to 1 without a parent. Those of other groups and of single labels are scaled in the same way if their sum is
        larger.
        """
        _passes.agree(probabilities, *self._arrays)

    def imply(
        self, columns: Sequence[int], signs: NDArray[np.int8], complete: bool
    ) -> tuple[list[int], NDArray[np.int8]]:
        """Complete a truth by the labels that have the same value in every consistent set that agrees with it.

        Parameters
        ----------
        columns, signs : of the known labels, 1 for true and -1 for false (int8); -1 is the column of an unknown label.
        complete : whether all other labels are false, except for the ancestors of true ones.

        Returns
        -------
        columns, signs : of all labels, the labels passed first.

        Raises
        ------
        Contradiction
        """
        nodes = [self._node_of_column.get(column, -1) for column in columns]
        told = np.zeros(len(self._names), dtype=np.int8)
        causes = np.arange(len(told), dtype=np.int32)
        for node, sign in zip(nodes, signs.tolist(), strict=True):
            if node >= 0:
                told[node] = sign
        one, other, unit = _passes.imply(told, causes, complete, *self._arrays[1:])
        if unit >= 0:
            raise self._contradiction(one, other, unit, nodes, columns)
        relevant = told > 0 if complete else told != 0
        relevant[[node for node in nodes if node >= 0]] = False
        new = np.flatnonzero(relevant)
        if not len(new):
            return list(columns), signs
        return [*columns, *self._arrays[0][new].tolist()], np.concatenate([signs, told[new]])

    def _contradiction(
        self, one: int, other: int, unit: int, nodes: Sequence[int], columns: Sequence[int]
    ) -> Contradiction:
        given = dict(zip(nodes, columns, strict=True))
        labels = ", ".join(map(repr, self._units[unit][:5])) + (", ..." if len(self._units[unit]) > 5 else "")
        if other < 0:
            return Contradiction(given.get(one), f"contradicts the groups: exactly one of {labels} is true")
        if other == one or one not in given:
            one, other = other, one
        detail = f"contradicts {self._names[other]!r}: of {labels} at most one is true"
        if len(self._units[unit]) == 1 or self._names[one] not in self._units[unit]:
            detail = f"contradicts {self._names[other]!r}: a label implies its parent, and a group has one true label"
        return Contradiction(given.get(one), detail)


def _above(label: str, parents: Mapping[str, str], hidden: Collection[str]) -> Any:
    """Return the nearest ancestor that is not hidden, or None."""
    above = parents.get(label)
    while above is not None and above in hidden:
        above = parents.get(above)
    return above


def check(groups: Sequence[Group], parents: Mapping[str, str]) -> dict[str, int]:
    """Return the depth of each label in groups and parents, 0 for roots; raises InvalidStructure."""
    depths: dict[str, int] = {}
    for child in parents:
        path = [child]
        while (label := path[-1]) not in depths and label in parents:
            path.append(parents[label])
            if len(path) > len(parents) + 1:
                raise InvalidStructure(("parents", child), "must not be its own ancestor, and no ancestor of it may be")
        depth = depths.get(path[-1], 0)
        for above, label in enumerate(reversed(path)):
            depths[label] = depth + above
    seen: dict[str, str] = {}
    names: set[str] = set()
    for at, (name, labels, choose) in enumerate(groups):
        if name in names:
            raise InvalidStructure(("groups", at, "name"), "is also the name of another group")
        names.add(name)
        if choose not in CHOICES:
            raise InvalidStructure(("groups", at, "choose"), f"must be {' or '.join(CHOICES)}")
        if len(labels) < 2:
            raise InvalidStructure(("groups", at, "labels"), "must have at least 2 labels")
        for place, label in enumerate(labels):
            path_of = ("groups", at, "labels", place)
            if label in seen:
                raise InvalidStructure(path_of, f"is already in the group {seen[label]!r}")
            seen[label] = name
            if parents.get(label) != parents.get(labels[0]):
                detail = f"must have the same parent as {labels[0]!r}: all labels of a group have one parent, or none"
                raise InvalidStructure(path_of, detail)
            depths.setdefault(label, 0)
    return depths
