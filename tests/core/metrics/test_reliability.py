"""The reliability of probabilities: against plain loops, against scikit-learn, and to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from manylabel_core import FALT
from manylabel_core.metrics import Prequential
from manylabel_core.metrics._prequential import N_BINS
from manylabel_core.rows import Targets, as_rows, as_targets
from manylabel_core.state import State


class Stream(NamedTuple):
    scores: np.ndarray
    targets: Targets
    n_known: np.ndarray
    probabilities: np.ndarray

    def part(self, begin: int, end: int) -> Stream:
        rows = slice(begin, end)
        targets = self.targets.part(begin, end)
        return Stream(self.scores[rows], targets, self.n_known[rows], self.probabilities[rows])


EDGES = (0.0, 1.0, *(n / N_BINS for n in range(1, N_BINS)), np.nextafter(0.15, 0), np.nextafter(1.0, 0), 1e-13)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Labels appear as the stream goes, weights differ, of some examples not all is known, some labels are retired."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, most = draw(st.integers(1, 40)), draw(st.integers(1, 7))
    n_labels = np.minimum(1 + np.arange(n) // 4, most)
    listed = [rng.permutation(each)[: rng.integers(0, each + 1)].astype(np.int32) for each in n_labels]
    scores = rng.standard_normal((n, 1 + most))
    if draw(st.booleans()):
        scores[n // 2 :, most] = np.nan
    targets = Targets(
        indptr=np.cumsum([0, *map(len, listed)], dtype=np.int64),
        indices=np.concatenate(listed),
        signs=rng.choice(np.array([-1, 1], dtype=np.int8), size=sum(map(len, listed))),
        complete=rng.random(n) < 0.6,
        n_labels=n_labels,
        weights=rng.choice([1.0, 0.5, 3.25, 1000.0], size=n),
    )
    probabilities = np.where(rng.random((n, most)) < 0.2, rng.choice(EDGES, size=(n, most)), rng.random((n, most)))
    return Stream(scores, targets, np.maximum(n_labels - (rng.random(n) < 0.3), 0), probabilities)


def outcomes(stream: Stream) -> np.ndarray:
    """Probability, truth and weight of each label whose truth is known, a row each."""
    rows = []
    for i, (n_labels, n_known) in enumerate(zip(stream.targets.n_labels, stream.n_known, strict=True)):
        listed = slice(*stream.targets.indptr[i : i + 2])
        told = dict(zip(stream.targets.indices[listed].tolist(), stream.targets.signs[listed] > 0, strict=True))
        for label in range(n_labels) if stream.targets.complete[i] else told:
            existed = label < n_known and not np.isnan(stream.scores[i, 1 + label])
            likely = stream.probabilities[i, label] if existed else 0.0
            rows.append([likely, told.get(label, False), stream.targets.weights[i]])
    return np.array(rows).reshape(-1, 3)


def bits(prequential: Prequential) -> bytes:
    return State(prequential.state(), {}).to_bytes()


def measured(*streams: Stream) -> Prequential:
    prequential = Prequential(window=5)
    for stream in streams:
        prequential.update(*stream)
    return prequential


@given(streams())
def test_bins_equal_those_of_a_loop(stream: Stream) -> None:
    found = measured(stream).reliability()
    likely, true, weight = outcomes(stream).T
    bins = np.minimum((likely * N_BINS).astype(int), N_BINS - 1)
    error = 0.0
    for place in range(N_BINS):
        own = bins == place
        assert found.number[place] == weight[own].sum()
        if not own.any():
            assert np.isnan([found.mean_probability[place], found.share_true[place]]).all()
            continue
        mean, share = (np.average(one[own], weights=weight[own]) for one in (likely, true))
        assert (found.mean_probability[place], found.share_true[place]) == pytest.approx((mean, share), rel=1e-12)
        error += abs(share - mean) * weight[own].sum()
    if len(likely):
        assert found.expected_calibration_error == pytest.approx(error / weight.sum(), rel=1e-9, abs=1e-15)
        brier = np.average((likely - true) ** 2, weights=weight)
        assert found.brier_score == pytest.approx(brier, rel=1e-12)
    else:
        assert np.isnan([found.expected_calibration_error, found.brier_score]).all()


@given(streams(), st.data())
def test_calls_and_restarts_do_not_matter(stream: Stream, data: st.DataObject) -> None:
    n = len(stream.scores)
    cuts = sorted(data.draw(st.sets(st.integers(1, n), max_size=5)) | {n})
    whole, prequential, begin = measured(stream), Prequential(window=5), 0
    for end in cuts:
        prequential.update(*stream.part(begin, end))
        restored = Prequential(window=5)
        restored.restore(State.from_bytes(bits(prequential)).arrays)
        prequential, begin = restored, end
    assert bits(prequential) == bits(whole)
    wide = np.zeros((n, 2 * stream.probabilities.shape[1]))
    wide[:, ::2] = stream.probabilities
    wide.flags.writeable = False
    assert bits(measured(stream._replace(probabilities=wide[:, ::2]))) == bits(whole)


@given(streams())
def test_probabilities_do_not_change_other_metrics(stream: Stream) -> None:
    with_it, without = measured(stream).state(), Prequential(window=5)
    without.update(*stream[:3])
    plain = without.state()
    assert not plain["bins"].any()
    assert not plain["label_bins"].any()
    assert all(np.array_equal(with_it[name], plain[name]) for name in plain if name not in ("bins", "label_bins"))


def test_truth_in_parts_is_counted_as_it_comes() -> None:
    likely = np.array([[0.1, 0.5, 0.9]])
    scores, n_known = np.array([[0.0, -1.0, 0.5, np.nan]]), np.array([3])

    def told(labels: list[int], signs: list[int]) -> Targets:
        arrays = np.array(labels, np.int32), np.array(signs, np.int8)
        return Targets(np.array([0, len(labels)]), *arrays, np.array([False]), np.array([3]), np.array([2.0]))

    prequential = Prequential()
    assert prequential.update_part(scores, told([], []), n_known, None, likely) is None
    first = prequential.update_part(scores, told([0], [1]), n_known, None, likely)
    second = prequential.update_part(scores, told([1], [-1]), n_known, first, likely + 0.05)
    prequential.update_part(scores, told([2], [1]), n_known, second, likely)
    found = prequential.reliability()
    assert {place: number for place, number in enumerate(found.number.tolist()) if number} == {0: 2.0, 2: 2.0, 11: 2.0}
    assert (found.share_true[0], found.mean_probability[0]) == (1.0, 0.0), "it has no score: it is not predicted"
    assert (found.share_true[2], found.mean_probability[2]) == (1.0, 0.1)
    assert (found.share_true[11], found.mean_probability[11]) == (0.0, 0.55)


@pytest.fixture(scope="module")
def learnt() -> tuple[np.ndarray, np.ndarray, Prequential]:
    """Truth and probabilities of a calibrated learner's stream, and what was measured of it."""
    rng = np.random.default_rng(5)
    X = rng.random((600, 8)).astype(np.float32)
    Y = (X @ rng.standard_normal((8, 5)) + rng.standard_normal((600, 5)) / 2 > 0.3).astype(np.int8)
    learner, prequential, found = FALT(optimise="micro_f1"), Prequential(), []
    learner.pipeline.grow(8, 5)
    for begin in range(0, 600, 50):
        rows, targets = as_rows(X[begin : begin + 50])[0], as_targets(Y[begin : begin + 50])
        scores, probabilities, _ = learner.pipeline.learn(rows, targets, probabilities=True)
        assert probabilities is not None
        prequential.update(scores, targets, np.full(50, 5), probabilities)
        found.append(probabilities)
    return Y, np.concatenate(found), prequential


def test_every_known_label_is_in_one_bin(learnt: tuple[np.ndarray, np.ndarray, Prequential]) -> None:
    *_, prequential = learnt
    found, labels = prequential.reliability(), prequential.labels()
    assert found.number.sum() == labels.told.sum() == 3_000
    assert np.nansum(found.number * found.share_true) == pytest.approx(labels.relevant.sum())
    assert found.expected_calibration_error < 0.1


Change = Callable[[np.ndarray], Any]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bins", lambda bins: bins[:-1]),
        ("bins", lambda bins: bins[:, :-1]),
        ("bins", lambda bins: bins.astype(np.float32)),
        ("bins", lambda bins: bins * np.nan),
        ("bins", lambda bins: np.add(bins, [np.inf, 0, 0, 0])),
        ("bins", lambda bins: -bins),
        ("bins", lambda bins: np.add(bins, [0, 0, 1e6, 0])),
        ("bins", lambda bins: np.add(bins, [0, 1e6, 0, 0])),
        ("bins", lambda bins: np.add(bins, [0, 0, 0, 1e6])),
        ("bins", lambda bins: bins[::-1].copy()),
        ("bins", lambda bins: bins * 1.01),
        ("bins", lambda bins: bins * [1, 1, 0.5, 1]),
        ("label_bins", lambda bins: bins[:-1]),
        ("label_bins", lambda bins: bins[:, :-1]),
        ("label_bins", lambda bins: -bins),
        ("label_bins", lambda bins: 10 * bins),
        ("label_bins", lambda bins: np.concatenate([bins, bins[:1]])),
    ],
    ids=range(17),
)
def test_a_forged_state_changes_nothing(
    learnt: tuple[np.ndarray, np.ndarray, Prequential], name: str, change: Change
) -> None:
    *_, prequential = learnt
    other = Prequential()
    other.restore(prequential.state())
    before = bits(other)
    with pytest.raises(ValueError, match=f"^{name}: "):
        other.restore({**prequential.state(), name: change(prequential.state()[name])})
    assert bits(other) == before


@for_each("shape", [(2, 2), (1, 3), (6,), (0, 0)])
def test_probabilities_of_another_shape_change_nothing(shape: tuple[int, ...]) -> None:
    prequential = Prequential()
    given = np.zeros((2, 4)), as_targets([[1, 0, 1], [0, 1, 0]]), np.array([3, 3])
    before = bits(prequential)
    with pytest.raises(ValueError, match=r"^probabilities must have"):
        prequential.update(*given, np.zeros(shape))
    assert bits(prequential) == before


def test_invalid_probabilities_stay_within_the_bins() -> None:
    prequential = Prequential()
    wild = np.array([[-1e300, 1e300, np.nan]])
    prequential.update(np.zeros((1, 4)), as_targets([[1, 0, 1]]), np.array([3]), wild)
    assert prequential.reliability().number.sum() == 3


@given(streams())
def test_bins_of_labels_are_those_of_each_label_alone(stream: Stream) -> None:
    prequential = measured(stream)
    width = stream.scores.shape[1] - 1
    found = [prequential.reliability(label) for label in range(width)]
    for label, each in enumerate(found):
        alone, relevant = Prequential(), 0.0
        for i in range(len(stream.scores)):
            row = stream.part(i, i + 1)
            listed = row.targets.indices == label
            known = listed.any() or (row.targets.complete[0] and label < row.targets.n_labels[0])
            if not known:
                continue
            true = listed.any() and bool(row.targets.signs[listed][0] > 0)
            if relevant < 10:
                relevant += true * row.targets.weights[0]
                continue
            alone.update(
                np.column_stack([row.scores[:, 0], row.scores[:, 1 + label]]),
                as_targets([[int(true)]])._replace(weights=row.targets.weights),
                np.array([int(label < row.n_known[0])]),
                row.probabilities[:, label : label + 1],
            )
        np.testing.assert_allclose(each.number, alone.reliability().number, rtol=1e-9)
        np.testing.assert_allclose(each.brier_score, alone.reliability().brier_score, rtol=1e-9)
        np.testing.assert_allclose(each.share_true, alone.reliability().share_true, rtol=1e-9)


def test_without_probabilities_labels_have_no_bins() -> None:
    prequential = Prequential()
    prequential.update(np.zeros((1, 4)), as_targets([[1, 0, 1]]), np.array([3]))
    assert prequential.state()["label_bins"].size == 0
    assert prequential.reliability(2).number.sum() == 0.0


def test_a_label_that_was_seen_once_takes_little_memory() -> None:
    """All that a model stores of a label, besides a weight for each feature: metrics, calibration, and its experts."""
    n, n_features = 4_000, 4
    learner, prequential, sizes = FALT(), Prequential(), []
    X = np.random.default_rng(0).normal(size=(n, n_features))
    for first in range(0, n, 200):
        columns, ones = first + np.arange(200), np.ones(200)
        known = columns.astype(np.int32), ones.astype(np.int8), ones.astype(bool)
        listed = Targets(np.arange(201), *known, 1 + columns, ones)
        learner.pipeline.grow(n_features, first + 200)
        learnt = learner.pipeline.learn(as_rows(X[columns], learner.dtype)[0], listed, probabilities=True)
        prequential.update(learnt.scores, listed, columns, learnt.probabilities)
        sizes.append(prequential.nbytes + learner.pipeline.nbytes)
    weights = 2 * np.dtype(learner.dtype).itemsize * (1 + n_features)
    assert (sizes[-1] - sizes[n // 400]) / (n // 2 - 200) - weights < 400, "without the window and the history"
