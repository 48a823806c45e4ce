"""Examples without any known truth: they are scored, and change nothing."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.core.online.test_vectors import LEARNERS, grown, rows_of, same, stream

from manylabel_core.rows import Targets, as_targets


def with_unknown(Y: NDArray[np.int8], unknown: NDArray[np.bool_]) -> Targets:
    """Return targets of labels, none of which is known in some rows."""
    full = as_targets(Y)
    kept = ~np.repeat(unknown, np.diff(full.indptr))
    n_listed = np.where(unknown, 0, np.diff(full.indptr))
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(n_listed)])
    return full._replace(indptr=indptr, indices=full.indices[kept], signs=full.signs[kept], complete=~unknown)


@pytest.mark.parametrize("name", LEARNERS)
def test_an_example_without_a_known_truth_changes_nothing(name: str) -> None:
    """Neither alone nor among others in one call, whatever it holds; its scores are those of `score`."""
    X, vectors, Y = stream()
    unknown = np.random.default_rng(1).random(len(X)) < 0.3
    X[unknown, :8] *= 50.0
    vectors[1][unknown] += 9.0
    rows, targets = rows_of(X, vectors), with_unknown(Y, unknown)
    calibrated = LEARNERS[name]().calibrate
    whole, single, without = (grown(LEARNERS[name], X, vectors, Y.shape[1]) for _ in range(3))
    learnt = whole.pipeline.learn(rows, targets, probabilities=calibrated)
    for i in range(len(X)):
        row = rows.part(i, i + 1)
        scores = without.pipeline.score(row)
        if calibrated:
            assert learnt.probabilities is not None
            assert learnt.probabilities[i].tobytes() == without.pipeline.probabilities(scores).tobytes()
        if not unknown[i]:
            without.pipeline.learn(row, targets.part(i, i + 1))
        found = single.pipeline.learn(row, targets.part(i, i + 1)).scores
        assert scores.tobytes() == found.tobytes() == learnt.scores[i].tobytes()
    assert same(without, whole)
    assert same(without, single)


def test_labels_that_do_not_exist_yet_have_no_score() -> None:
    X, vectors, Y = stream()
    unknown = np.arange(len(X)) % 2 == 0
    rows, targets = rows_of(X, vectors), with_unknown(Y, unknown)
    first = targets._replace(n_labels=np.where(np.arange(len(X)) < 60, 3, 5))
    kept = first.indices < np.repeat(first.n_labels, np.diff(first.indptr))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[first.indptr]
    first = first._replace(indptr=ends, indices=first.indices[kept], signs=first.signs[kept])
    learner = grown(LEARNERS["falt"], X, vectors, 5)
    learnt = learner.pipeline.learn(rows, first, probabilities=True)
    assert learnt.probabilities is not None
    assert not learnt.scores[:60, 4:].any()
    assert not learnt.probabilities[:60, 3:].any()
    assert learnt.scores[60:, 4:].all()


def test_a_complete_example_before_the_first_label_changes_nothing() -> None:
    X, vectors, _ = stream()
    rows = rows_of(X, vectors)
    learner, without = (grown(LEARNERS["falt"], X, vectors, 0) for _ in range(2))
    learner.pipeline.learn(rows, as_targets(np.zeros((len(X), 0), np.int8)))
    assert same(learner, without)
