"""Trial of a change of labels: prequential metrics of a stream as it is, and with the change from its start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.doubts.held_out import BLOCK_NUMBERS, BLOCK_ROWS
from manylabel_core.label_health.rules import Kind
from manylabel_core.label_structure import Contradiction, Group, LabelStructure
from manylabel_core.metrics.prequential import Prequential
from manylabel_core.online.pipeline import Pipeline
from manylabel_core.rows import Rows, Targets

MERGES: tuple[Kind, ...] = ("name", "merge")
"""Kinds of suggestions that merge the label into the other one."""
_TP, _FP, _FN = 0, 1, 2


class Change(NamedTuple):
    """Change of a label: it is merged into the other label, becomes its child, or is omitted. Labels are given by
    column."""

    kind: Kind
    label: int
    other: int | None


class Labels(NamedTuple):
    """Labels of a stream.

    Attributes
    ----------
    names : by column.
    listed : ndarray of shape (n_labels,), bool; other labels are omitted.
    groups, parents : by name.
    """

    names: Sequence[str]
    listed: NDArray[np.bool_]
    groups: Sequence[Group]
    parents: Mapping[str, str]


class LabelMetrics(NamedTuple):
    """F1 of a label, None if it is undefined, and the weighted number of examples with the label."""

    f1: float | None
    examples: float


class TrialMetrics(NamedTuple):
    """Prequential metrics of all labels together, and by name of the labels concerned.

    `either_name` is the F1 of the two labels of a merge as if they were one: predicting either name counts as a hit.
    None for other changes.
    """

    micro_f1: float | None
    macro_f1: float | None
    labels: dict[str, LabelMetrics]
    either_name: float | None


class Trial(NamedTuple):
    """Result of a trial.

    Attributes
    ----------
    changed : number of examples whose labels would change.
    opposed : number of examples with contradicting names: one label is true, the other is stated to be false.
    contradicting : number of examples whose labels contradict the changed groups and parents, but not the current ones.
    before, after : metrics without and with the change.
    """

    changed: int
    opposed: int
    contradicting: int
    before: TrialMetrics
    after: TrialMetrics


class _Truth(NamedTuple):
    """Truth of a stream with columns in the order of their first use; `columns` has those of the labels."""

    targets: Targets
    columns: dict[int, int]
    structure: LabelStructure | None
    contradicting: NDArray[np.bool_]


def try_change(
    rows: Rows,
    targets: Targets,
    change: Change,
    labels: Labels,
    new_pipeline: Callable[[int], Pipeline],
    report: Callable[[int, int], Any] = lambda done, total: None,
) -> Trial:
    """Learn a stream twice, and return the metrics of both.

    An example that contradicts the groups keeps its truth.

    Parameters
    ----------
    rows, targets : examples in the order of the stream.
    change : the change, which applies from the first example on.
    labels : of the targets.
    new_pipeline : returns an untrained model for a number of labels, with all features.
    report : callback with the numbers of examples learnt and to learn.
    """
    n, concerned = len(targets.complete), [change.label] + ([] if change.other is None else [change.other])
    either = concerned if change.kind in MERGES else []
    truths = _truth(targets, labels, None), _truth(targets, labels, change)
    before, after = (
        _measured(rows, truth, new_pipeline, labels.names, concerned, either, partial(_report, report, first, 2 * n))
        for truth, first in zip(truths, (0, n), strict=True)
    )
    signs = [_signs(targets, column) for column in concerned]
    opposed = changed = 0
    if change.kind == "parent":
        changed = int(((signs[0] > 0) & (signs[1] <= 0)).sum())
    else:
        changed = int((signs[0] > 0).sum())
        if change.kind in MERGES:
            opposed = int((~targets.complete & (signs[0] * signs[1] < 0)).sum())
    contradicting = int((truths[1].contradicting & ~truths[0].contradicting).sum())
    return Trial(changed, opposed, contradicting, before, after)


def _truth(targets: Targets, labels: Labels, change: Change | None) -> _Truth:
    """Return the truth with a change, if any, without labels that are not listed."""
    n, n_labels = len(targets.complete), len(labels.names)
    becomes = np.where(labels.listed, np.arange(n_labels), -1)
    hidden, parents = (
        [name for name, listed in zip(labels.names, labels.listed, strict=True) if not listed],
        labels.parents,
    )
    if change is not None and change.kind == "parent":
        assert change.other is not None
        parents = {**parents, labels.names[change.label]: labels.names[change.other]}
    elif change is not None:
        becomes[change.label] = change.other if change.kind in MERGES else -1
        hidden.append(labels.names[change.label])
    first = np.searchsorted(targets.n_labels, np.arange(n_labels), side="right")  # row in which a label begins to exist
    rows = np.repeat(np.arange(n), np.diff(targets.indptr))
    listed = becomes[targets.indices]
    rows, listed, signs = rows[listed >= 0], listed[listed >= 0], targets.signs[listed >= 0]
    keys, place = np.unique(rows * n_labels + listed, return_inverse=True)  # a label is true if one of its names is
    best = np.full(len(keys), -1, dtype=np.int8)
    np.maximum.at(best, place, signs)
    begins = np.full(n_labels, n)
    np.minimum.at(begins, becomes[becomes >= 0], first[becomes >= 0])
    rows, listed = np.divmod(keys, max(n_labels, 1))
    indptr = np.searchsorted(rows, np.arange(n + 1))
    contradicting = np.zeros(n, dtype=np.bool_)
    named = {*parents, *parents.values(), *(label for group in labels.groups for label in group.labels)}
    column_of = {name: column for column, name in enumerate(labels.names) if name in named}
    if structure := _structure(labels, parents, column_of, hidden):
        indptr, listed, best = _implied(structure, indptr, listed, best, targets.complete, contradicting)
        rows = np.repeat(np.arange(n), np.diff(indptr))
        np.minimum.at(begins, listed, rows)
        shown = [column for name, column in column_of.items() if name not in set(hidden)]
        begins[shown] = np.minimum(begins[shown], max(n - 1, 0))
    order = np.argsort(begins, kind="stable")
    order = order[begins[order] < n]
    columns = dict(zip(order.tolist(), range(len(order)), strict=True))
    renumbered = np.zeros(n_labels, dtype=np.int32)
    renumbered[order] = np.arange(len(order))
    existing = np.searchsorted(begins[order], np.arange(n), side="right").astype(np.int64)
    changed = Targets(indptr.astype(np.int64), renumbered[listed], best, targets.complete, existing, targets.weights)
    shown_columns = {name: columns[column] for name, column in column_of.items() if column in columns}
    return _Truth(changed, columns, _structure(labels, parents, shown_columns, hidden), contradicting)


def _structure(
    labels: Labels, parents: Mapping[str, str], column_of: Mapping[str, int], hidden: Sequence[str]
) -> LabelStructure | None:
    return LabelStructure(labels.groups, parents, column_of, hidden) if labels.groups or parents else None


def _implied(
    structure: LabelStructure,
    indptr: NDArray[np.int64],
    columns: NDArray[np.int64],
    signs: NDArray[np.int8],
    complete: NDArray[np.bool_],
    contradicting: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]:
    """Return the truth completed by groups and parents; mark the examples that contradict these."""
    lengths, all_columns, all_signs = [0], [], []
    for row, is_complete in enumerate(complete.tolist()):
        part = slice(indptr[row], indptr[row + 1])
        given, own = columns[part].tolist(), signs[part]
        try:
            given, own = structure.imply(given, own, is_complete)
        except Contradiction:
            contradicting[row] = True
        lengths.append(len(given))
        all_columns += given
        all_signs.append(own)
    return np.cumsum(lengths), np.array(all_columns, dtype=np.int64), np.concatenate([np.zeros(0, np.int8), *all_signs])


def _measured(
    rows: Rows,
    truth: _Truth,
    new_pipeline: Callable[[int], Pipeline],
    names: Sequence[str],
    concerned: Sequence[int],
    either: Sequence[int],
    report: Callable[[int], Any],
) -> TrialMetrics:
    """Return the metrics of learning a stream in order."""
    targets, n, n_labels = truth.targets, len(truth.targets.complete), len(truth.columns)
    n_known = np.concatenate([np.zeros(1, dtype=np.int64), targets.n_labels])[:n]
    pipeline, prequential, hits = new_pipeline(n_labels), Prequential(window=1), np.zeros(3)
    columns = [truth.columns[label] for label in either if label in truth.columns]
    step = min(BLOCK_ROWS, max(1, BLOCK_NUMBERS // (1 + n_labels)))
    for begin in range(0, n, step):
        end = min(begin + step, n)
        part = targets.part(begin, end)
        scores = np.array(pipeline.learn(rows.part(begin, end), part).scores, dtype=np.float64)
        if truth.structure is not None:
            truth.structure.decide(scores)
        prequential.update(scores, part, n_known[begin:end])
        if columns:
            hits += _either(scores, part, n_known[begin:end], columns)
        report(end)
    cumulative, counts = prequential.measures()["cumulative"], prequential.labels()

    def metrics_of(label: int) -> LabelMetrics:
        column = truth.columns.get(label, n_labels)
        if column >= len(counts.relevant):
            return LabelMetrics(None, 0.0)
        return LabelMetrics(_f1(counts.cumulative[column]), float(counts.relevant[column]))

    found = {names[label]: metrics_of(label) for label in concerned if label in truth.columns}
    return TrialMetrics(cumulative["micro_f1"], cumulative["macro_f1"], found, _f1(hits) if either else None)


def _report(report: Callable[[int, int], Any], first: int, total: int, done: int) -> None:
    report(first + done, total)


def _either(
    scores: NDArray[np.float64], targets: Targets, n_known: NDArray[np.int64], columns: Sequence[int]
) -> NDArray[np.float64]:
    """Return the weighted true positives, false positives and false negatives of labels that count as one."""
    signs = np.max([_signs(targets, column) for column in columns], axis=0)
    # A name that is not known to be false does not make the label false.
    unknown = np.any([_signs(targets, column) == 0 for column in columns], axis=0) & (signs < 1)
    predicted = np.any([(scores[:, 1 + c] > scores[:, 0]) & (c < n_known) for c in columns], axis=0)
    weights = np.where(unknown, 0.0, targets.weights if len(targets.weights) else 1.0)
    relevant = signs > 0
    counted = (predicted & relevant, predicted & ~relevant, ~predicted & relevant)
    return np.array([(weights * each).sum() for each in counted])


def _signs(targets: Targets, column: int) -> NDArray[np.int8]:
    """Return the truth about a label for each example: 1, -1, or 0 if it is unknown."""
    signs = np.where(targets.complete, -1, 0).astype(np.int8)
    rows = np.repeat(np.arange(len(signs)), np.diff(targets.indptr))
    of_label = targets.indices == column
    signs[rows[of_label]] = targets.signs[of_label]
    return signs


def _f1(counts: NDArray[np.float64]) -> float | None:
    total = 2 * counts[_TP] + counts[_FP] + counts[_FN]
    return float(2 * counts[_TP] / total) if total else None
