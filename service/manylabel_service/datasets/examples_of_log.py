"""File of arrays with the examples of a log, their places, and everything that is known about their labels."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.datasets import BadDataset
from manylabel_core.rows import Rows, Targets
from manylabel_core.state import State
from manylabel_service.hosting.examples import Example
from manylabel_service.online.state.corrections import Place
from manylabel_service.online.state.model import OnlineModel

_ROW_BYTES = 700
"""Estimated bytes of an example in memory, without its values."""


class _Row(NamedTuple):
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    labels: NDArray[np.int32]
    signs: NDArray[np.int8]
    complete: bool
    n_labels: int
    n_existing: int
    weight: float
    place: Place
    ref: str | None
    human: bool

    @property
    def nbytes(self) -> int:
        return _ROW_BYTES + 8 * len(self.values) + 5 * len(self.labels)


class ExampleRecorder:
    """Recorder of the last examples of a log and their places, see `export_log.Recorder`.

    Parameters
    ----------
    last : maximum number of examples.
    most_bytes : maximum bytes of memory.
    corrected : places of the examples that later entries correct.

    Attributes
    ----------
    n_undone : number of examples that a later rollback undoes.
    n_added : number of recorded examples; only the last of them are retained.
    """

    def __init__(self, last: int, most_bytes: int, corrected: Set[Place]) -> None:
        self.n_undone = self.n_added = 0
        self._rows: deque[_Row] = deque()
        self._last, self._most_bytes, self._nbytes = last, most_bytes, 0
        self._corrected = corrected
        self._numbers: dict[Place, int] = {}
        self._corrections: dict[int, Targets] = {}

    def add(self, rows: Rows, targets: Targets, places: Sequence[Place], examples: Sequence[Example]) -> None:
        """Record the next examples, with their places in the log; raises BadDataset for too many bytes."""
        for i, (place, example) in enumerate(zip(places, examples, strict=True)):
            columns, values = rows.row(i)
            listed = slice(targets.indptr[i], targets.indptr[i + 1])
            row = _Row(
                columns.copy(),
                values.astype(np.float32),
                targets.indices[listed].copy(),
                targets.signs[listed].copy(),
                bool(targets.complete[i]),
                int(targets.n_labels[i]),
                int(targets.n_labels[i]),
                float(targets.weights[i]) if len(targets.weights) else 1.0,
                place,
                example.ref,
                example.source == "human",
            )
            if place in self._corrected:
                self._numbers[place] = self.n_added
            self.n_added += 1
            self._rows.append(row)
            self._nbytes += row.nbytes
            if len(self._rows) > self._last:
                self._nbytes -= self._rows.popleft().nbytes
            if self._nbytes > self._most_bytes:
                raise BadDataset(f"the examples take more than the limit of {self._most_bytes:,} bytes: use fewer")

    def correct(self, place: Place, targets: Targets) -> None:
        """Replace the true labels of an example, unless it is not recorded."""
        if place in self._numbers:
            self._corrections[self._numbers[place]] = targets

    def to_state(self, model: OnlineModel, times: Mapping[str, int]) -> tuple[State, int]:
        """Return the examples with labels from people for `find_doubts`, and their number.

        `model` is the state after the log, `times` has the time of each entry by position. Labels that were merged
        count as the labels that they were merged into.
        """
        first = self.n_added - len(self._rows)
        corrected = [self._with_correction(first + n, row) for n, row in enumerate(self._rows)]
        rows = [row for row in corrected if row.human]
        heads = _heads(model)
        truths = [_merged(row, heads) for row in rows]
        checked = [model.corrections.find(row.place).columns for row in rows]
        not_human = len(corrected) - len(rows)
        arrays = {
            "indptr": _ends(row.columns for row in rows),
            "indices": _joined([row.columns for row in rows], np.int32),
            "values": _joined([row.values for row in rows], np.float32),
            "label_indptr": _ends(labels for labels, _ in truths),
            "labels": _joined([labels for labels, _ in truths], np.int32),
            "signs": _joined([signs for _, signs in truths], np.int8),
            "complete": np.array([row.complete for row in rows], dtype=np.bool_),
            "n_labels": np.maximum.accumulate(np.array(list(map(_n_labels, rows, truths)), dtype=np.int64)),
            "existing": np.array([row.n_existing for row in rows], dtype=np.int64),
            "weights": np.array([row.weight for row in rows], dtype=np.float64),
            "times": np.array([times[row.place[0]] for row in rows], dtype=np.int64),
            "settled": np.array(list(_settled(checked, len(model.labels))), dtype=np.int64).reshape(-1, 2),
            "listed": np.array([name not in model.hidden for name in model.labels.names], dtype=np.bool_),
            "parents": _parents(model),
            "facts": np.frombuffer(
                json.dumps({**_facts(model, rows), "not_human": not_human}).encode(), dtype=np.uint8
            ),
        }
        return State(arrays, {}), len(rows)

    def _with_correction(self, number: int, row: _Row) -> _Row:
        if (targets := self._corrections.get(number)) is None:
            return row
        labels, n_labels = targets.indices, max(row.n_labels, int(targets.indices.max(initial=-1)) + 1)
        complete = bool(targets.complete[0])
        return row._replace(labels=labels, signs=targets.signs, complete=complete, n_labels=n_labels, human=True)


def _heads(model: OnlineModel) -> dict[int, int]:
    """Return, for the column of each merged label, the column of the label into which it was merged."""
    names, heads = model.labels.names, {}
    for column in model.labels.lookup(model.retired):
        current = model.old_names.current(names[column], names)
        if current != names[column]:
            heads[column] = model.labels.lookup([current])[0]
    return heads


def _n_labels(row: _Row, truth: tuple[NDArray[np.int32], NDArray[np.int8]]) -> int:
    """Return the number of labels of an example, including later labels into which its labels were merged."""
    return max(row.n_labels, int(truth[0].max(initial=-1)) + 1)


def _merged(row: _Row, heads: dict[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the columns and signs of the true labels of an example. If a label has two names with different signs, it
    is true."""
    if not heads or heads.keys().isdisjoint(row.labels.tolist()):
        return row.labels, row.signs
    signs: dict[int, int] = {}
    for column, sign in zip(row.labels.tolist(), row.signs.tolist(), strict=True):
        head = heads.get(column, column)
        signs[head] = max(sign, signs.get(head, sign))
    return np.array(list(signs), dtype=np.int32), np.array(list(signs.values()), dtype=np.int8)


def _settled(checked: Sequence[Set[int] | None], n_labels: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of an example and a label that a person has checked."""
    for row, columns in enumerate(checked):
        yield from ((row, column) for column in (range(n_labels) if columns is None else sorted(columns)))


def _parents(model: OnlineModel) -> NDArray[np.int32]:
    parents = np.full(len(model.labels), -1, dtype=np.int32)
    known = model.groups.parent_columns
    parents[: len(known)] = known
    return parents


def _facts(model: OnlineModel, rows: Sequence[_Row]) -> dict[str, Any]:
    """Return the facts that are not arrays: names, places and references."""
    features = model.features
    named: Sequence[str | int] = features.names.names
    if features.layout.kind == "numbered":
        named = features.columns.indices.tolist()
    return {
        "labels": model.labels.names,
        "features": [] if model.limits.hashes else list(named),
        "n_features": features.n_columns,
        "vectors": features.layout.vectors,
        "pairs": features.pairs,
        "groups": model.groups.to_json(model.labels),
        "places": [row.place for row in rows],
        "refs": [row.ref for row in rows],
        "position": model.position,
    }


def _ends(parts: Any) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *parts])
