"""Trial of a change of labels: truths, metrics without and with the change, and conflicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from manylabel_core import FALT, Prequential
from manylabel_core.label_health import Change, Labels, Trial, try_change
from manylabel_core.label_structure import Group
from manylabel_core.online.pipeline import Pipeline
from manylabel_core.rows import NO_WEIGHTS, Rows, Targets, as_rows

NAMES = ["cat", "feline", "dog", "hidden"]
N_FEATURES = 3


def stream(n: int = 120, seed: int = 0) -> tuple[Rows, list[set[str]]]:
    """Return examples with two names of one thing by chance, and a label that follows from a feature; the labels are
    first used in their order."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, N_FEATURES)).astype(float)
    X[:, 2] = 1.0
    X[:3, :2] = [[1, 0], [1, 0], [0, 1]]
    names = [({["cat", "feline"][rng.integers(2)]} if row[0] else set()) | ({"dog"} if row[1] else set()) for row in X]
    return as_rows(X)[0], [{"cat"}, {"feline"}, {"dog"}, *names[3:]]


def targets_of(names: Sequence[set[str]], order: Sequence[str] = NAMES, **more: Any) -> Targets:
    columns = [[order.index(each) for each in sorted(one)] for one in names]
    lengths = np.cumsum([0, *map(len, columns)])
    indices = np.array([c for row in columns for c in row], dtype=np.int32)
    existing = np.maximum.accumulate([max((c + 1 for c in row), default=0) for row in columns]).astype(np.int64)
    n = len(columns)
    given = (lengths, indices, np.ones(len(indices), np.int8), np.ones(n, np.bool_), existing, NO_WEIGHTS)
    return Targets(*given)._replace(**more)


def new_pipeline(n_labels: int) -> Pipeline:
    pipeline = FALT().pipeline
    pipeline.grow(N_FEATURES, n_labels)
    return pipeline


def tried(
    rows: Rows,
    targets: Targets,
    change: Change,
    groups: Sequence[Group] = (),
    parents: Mapping[str, str] | None = None,
    listed: Sequence[bool] = (True, True, True, False),
) -> Trial:
    return try_change(rows, targets, change, Labels(NAMES, np.array(listed), groups, parents or {}), new_pipeline)


def measured(rows: Rows, names: Sequence[set[str]]) -> Prequential:
    """Return the metrics of learning a stream, with labels in the order of their first use."""
    order = list(dict.fromkeys(label for each in names for label in sorted(each)))
    targets, pipeline, prequential = targets_of(names, order), new_pipeline(len(order)), Prequential()
    known = np.concatenate([[0], targets.n_labels[:-1]])
    prequential.update(pipeline.learn(rows, targets).scores, targets, known)
    return prequential


def test_a_merge_is_measured_like_a_stream_with_one_name() -> None:
    rows, names = stream()
    merged = [{"cat" if each == "feline" else each for each in one} for one in names]
    for change in (Change("merge", 1, 0), Change("name", 0, 1)):
        trial = tried(rows, targets_of(names), change)
        due = measured(rows, merged).measures()["cumulative"]
        assert (trial.after.micro_f1, trial.after.macro_f1) == (due["micro_f1"], due["macro_f1"])
        due = measured(rows, names).measures()["cumulative"]
        assert (trial.before.micro_f1, trial.before.macro_f1) == (due["micro_f1"], due["macro_f1"])
        assert set(trial.before.labels) == {"cat", "feline"}
        assert set(trial.after.labels) == {NAMES[change.other or 0]}
        assert trial.changed == sum(NAMES[change.label] in each for each in names)
        assert (trial.opposed, trial.contradicting) == (0, 0)


def test_either_name_counts_as_a_hit() -> None:
    rows, names = stream()
    targets = targets_of(names)
    trial, merges = tried(rows, targets, Change("merge", 1, 0)), [bool(each & {"cat", "feline"}) for each in names]
    pipeline, hits = new_pipeline(3), np.zeros(3)
    known = np.concatenate([[0], targets.n_labels[:-1]])
    for scores, n_known, relevant in zip(pipeline.learn(rows, targets).scores, known, merges, strict=True):
        predicted = bool((scores[1 : 1 + min(n_known, 2)] > scores[0]).any())
        hits += (predicted and relevant, predicted and not relevant, relevant and not predicted)
    assert trial.before.either_name == pytest.approx(2 * hits[0] / (2 * hits[0] + hits[1] + hits[2]))
    assert trial.after.either_name == trial.after.labels["cat"].f1
    assert trial.before.labels["cat"].examples + trial.before.labels["feline"].examples == sum(merges)
    assert trial.after.labels["cat"].examples == sum(merges)


def test_a_parent_is_implied() -> None:
    rows, names = stream()
    trial = tried(rows, targets_of(names), Change("parent", 0, 2))
    implied = [each | ({"dog"} if "cat" in each else set()) for each in names]
    assert trial.changed == sum(a != b for a, b in zip(names, implied, strict=True))
    assert trial.after.labels["dog"].examples == sum("dog" in each for each in implied)
    assert trial.after.labels["cat"].examples == trial.before.labels["cat"].examples
    assert (trial.before.either_name, trial.after.either_name) == (None, None)


@pytest.mark.parametrize("kind", ["pause", "vague"])
def test_a_paused_label_is_left_out(kind: Any) -> None:
    rows, names = stream()
    trial = tried(rows, targets_of(names), Change(kind, 2, None))
    due = measured(rows, [each - {"dog"} for each in names]).measures()["cumulative"]
    assert (trial.after.micro_f1, trial.after.macro_f1) == (due["micro_f1"], due["macro_f1"])
    assert (set(trial.before.labels), trial.after.labels) == ({"dog"}, {})


def test_hidden_labels_are_left_out_of_both() -> None:
    rows, names = stream()
    with_hidden = [each | {"hidden"} if n > 2 and n % 3 else each for n, each in enumerate(names)]
    change = Change("merge", 1, 0)
    assert tried(rows, targets_of(with_hidden), change) == tried(rows, targets_of(names), change)


def test_partial_labels_that_oppose_each_other_are_counted() -> None:
    rows, _ = stream(3)
    targets = Targets(
        np.array([0, 2, 4, 5]),
        np.array([0, 1, 0, 1, 2], dtype=np.int32),
        np.array([1, -1, 1, 1, 1], dtype=np.int8),
        np.zeros(3, dtype=np.bool_),
        np.full(3, 3),
    )
    trial = tried(rows, targets, Change("merge", 1, 0))
    assert (trial.opposed, trial.changed) == (1, 1)
    assert trial.after.labels["cat"].examples == 2


def test_examples_that_contradict_the_groups_are_counted_and_kept() -> None:
    rows, names = stream()
    groups = [Group("g", ("cat", "dog"), "at_most_one")]
    trial = tried(rows, targets_of(names), Change("merge", 1, 0), groups)
    assert trial.contradicting == sum({"feline", "dog"} <= each for each in names)
    assert trial.after.labels["cat"].examples == sum(bool(each & {"cat", "feline"}) for each in names)
    shown = tried(rows, targets_of(names), Change("pause", 1, None), groups, {"feline": "cat"})
    assert shown.contradicting == 0


def test_an_empty_label_and_an_empty_stream() -> None:
    rows, names = stream()
    trial = tried(rows, targets_of(names), Change("merge", 3, 0), listed=(True,) * 4)
    assert set(trial.before.labels) == {"cat"}
    assert trial.before.micro_f1 == trial.after.micro_f1
    empty = tried(rows.part(0, 0), targets_of(names).part(0, 0), Change("merge", 1, 0))
    assert (empty.before.labels, empty.changed) == ({}, 0)


def test_progress_counts_the_examples_of_both() -> None:
    rows, names = stream(5)
    seen: list[Any] = []
    labels = Labels(NAMES, np.ones(4, dtype=np.bool_), (), {})
    try_change(rows, targets_of(names), Change("merge", 1, 0), labels, new_pipeline, lambda *done: seen.append(done))
    assert seen == [(5, 10), (10, 10)]
