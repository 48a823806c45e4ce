"""The batch measures against literal transcriptions of their definitions, and against scikit-learn."""

import math
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.cases import for_each

from manylabel_core import metrics
from manylabel_core.metrics import inputs
from manylabel_core.metrics.measures import MEASURES


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _mean(values: list[float]) -> float:
    return _ratio(sum(values), len(values))


class Definitions:
    """The measures as the papers write them: loops over sets, one example or label at a time."""

    @staticmethod
    def _sets(matrix: np.ndarray) -> list[set[int]]:
        return [set(np.flatnonzero(row).tolist()) for row in matrix]

    @classmethod
    def precision(cls, Y: np.ndarray, P: np.ndarray) -> float:
        return _mean([_ratio(len(y & p), len(p)) for y, p in zip(cls._sets(Y), cls._sets(P), strict=True)])

    @classmethod
    def recall(cls, Y: np.ndarray, P: np.ndarray) -> float:
        return _mean([_ratio(len(y & p), len(y)) for y, p in zip(cls._sets(Y), cls._sets(P), strict=True)])

    @classmethod
    def f1(cls, Y: np.ndarray, P: np.ndarray) -> float:
        p, r = cls.precision(Y, P), cls.recall(Y, P)
        return _ratio(2 * p * r, p + r)

    @classmethod
    def example_f1(cls, Y: np.ndarray, P: np.ndarray) -> float:
        sets = zip(cls._sets(Y), cls._sets(P), strict=True)
        return _mean([_ratio(2 * len(y & p), len(y) + len(p)) for y, p in sets])

    @classmethod
    def macro_f1(cls, Y: np.ndarray, P: np.ndarray) -> float:
        return cls.example_f1(Y.T, P.T)

    @staticmethod
    def micro_f1(Y: np.ndarray, P: np.ndarray) -> float:
        pairs = list(zip(Y.ravel().tolist(), P.ravel().tolist(), strict=True))
        tp, fp, fn = (pairs.count(outcome) for outcome in ((1, 1), (0, 1), (1, 0)))
        return _ratio(2 * tp, 2 * tp + fp + fn)

    @classmethod
    def hamming_loss(cls, Y: np.ndarray, P: np.ndarray) -> float:
        sets = zip(cls._sets(Y), cls._sets(P), strict=True)
        return _mean([_ratio(len(y ^ p), Y.shape[1]) for y, p in sets])

    @classmethod
    def subset_accuracy(cls, Y: np.ndarray, P: np.ndarray) -> float:
        return _mean([float(y == p) for y, p in zip(cls._sets(Y), cls._sets(P), strict=True)])

    @staticmethod
    def _rows(Y: np.ndarray, S: np.ndarray) -> Iterator[tuple[list[int], list[int], Callable[[int], int]]]:
        for y, s in zip(Y, S, strict=True):
            relevant, irrelevant = np.flatnonzero(y == 1).tolist(), np.flatnonzero(y == 0).tolist()
            yield relevant, irrelevant, lambda label, s=s: sum(s[k] >= s[label] for k in range(len(s)))

    @classmethod
    def ranking_loss(cls, Y: np.ndarray, S: np.ndarray) -> float:
        rows = zip(cls._rows(Y, S), S, strict=True)
        return _mean(
            [
                _ratio(sum(s[j] <= s[k] for j in relevant for k in irrelevant), len(relevant) * len(irrelevant))
                for (relevant, irrelevant, _), s in rows
            ]
        )

    @classmethod
    def one_error(cls, Y: np.ndarray, S: np.ndarray) -> float:
        rows = zip(cls._rows(Y, S), S, strict=True)
        return _mean(
            [
                float(not any(all(s[j] > s[k] for k in irrelevant) for j in relevant))
                for (relevant, irrelevant, _), s in rows
            ]
        )

    @classmethod
    def coverage(cls, Y: np.ndarray, S: np.ndarray) -> float:
        return _mean([max((rank(j) for j in relevant), default=1) - 1 for relevant, _, rank in cls._rows(Y, S)])

    @classmethod
    def average_precision(cls, Y: np.ndarray, S: np.ndarray) -> float:
        return _mean(
            [
                _mean([sum(rank(k) <= rank(j) for k in relevant) / rank(j) for j in relevant])
                for relevant, _, rank in cls._rows(Y, S)
            ]
        )

    @staticmethod
    def macro_auc(Y: np.ndarray, S: np.ndarray) -> float:
        areas = []
        for y, s in zip(Y.T, S.T, strict=True):
            pairs = [(p > q) + (p == q) / 2 for p in s[y == 1] for q in s[y == 0]]
            areas += [_mean(pairs)] if pairs else []
        return _mean(areas)

    @classmethod
    def _best(cls, y: np.ndarray, s: np.ndarray, k: int) -> list[int]:
        """The truth of the k best labels, the relevant ones last where scores tie."""
        return [int(y[label]) for label in sorted(range(len(y)), key=lambda label: (-s[label], y[label]))[:k]]

    @classmethod
    def precision_at(cls, Y: np.ndarray, S: np.ndarray, k: int) -> float:
        return _mean([sum(cls._best(y, s, k)) / k for y, s in zip(Y, S, strict=True)])

    @classmethod
    def f1_at(cls, Y: np.ndarray, S: np.ndarray, k: int) -> float:
        return _mean([2 * sum(cls._best(y, s, k)) / (k + int(y.sum())) for y, s in zip(Y, S, strict=True)])

    @classmethod
    def ndcg_at(cls, Y: np.ndarray, S: np.ndarray, k: int) -> float:
        def gain(truth: list[int]) -> float:
            return sum(one / math.log2(2 + place) for place, one in enumerate(truth))

        rows = [(y, s) for y, s in zip(Y, S, strict=True) if y.any()]
        return _mean([gain(cls._best(y, s, k)) / gain(sorted(y.tolist(), reverse=True)[:k]) for y, s in rows])


DECISIONS = [
    "precision",
    "recall",
    "f1",
    "example_f1",
    "macro_f1",
    "micro_f1",
    "hamming_loss",
    "subset_accuracy",
]
RANKINGS = ["ranking_loss", "one_error", "coverage", "average_precision", "macro_auc"]

SHAPES = st.tuples(st.integers(0, 5), st.integers(0, 5))
INDICATORS = SHAPES.flatmap(lambda shape: hnp.arrays(np.int8, (2, *shape), elements=st.integers(0, 1)))
SCORES = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 0.5, 2.0, np.inf])  # few values, so that many tie


def _call(name: str, *arguments: Any) -> float:
    value = getattr(metrics, name)(*arguments)
    assert type(value) is float
    return value


@pytest.mark.parametrize("block", [1, 7, inputs._BLOCK_ELEMENTS])
@pytest.mark.parametrize("name", DECISIONS)
@settings(max_examples=settings.default.max_examples // 5)
@given(INDICATORS)
def test_decisions_follow_the_definition(block: int, name: str, pair: np.ndarray) -> None:
    Y, P = pair
    expected = pytest.approx(getattr(Definitions, name)(Y, P), rel=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "_BLOCK_ELEMENTS", block)
        assert _call(name, Y, P) == expected
        assert _call(name, Y.astype(bool), P.astype(np.float32)) == expected
        assert _call(name, sp.csr_array(Y), sp.csc_matrix(P)) == expected
        assert _call(name, sp.coo_array(Y), P) == expected


@pytest.mark.parametrize("block", [1, 7, inputs._BLOCK_ELEMENTS])
@pytest.mark.parametrize("name", RANKINGS)
@settings(max_examples=settings.default.max_examples // 3)
@given(INDICATORS, st.data())
def test_rankings_follow_the_definition(block: int, name: str, pair: np.ndarray, data: st.DataObject) -> None:
    Y = pair[0]
    S = data.draw(hnp.arrays(np.float64, Y.shape, elements=SCORES))
    expected = pytest.approx(getattr(Definitions, name)(Y, S), rel=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "_BLOCK_ELEMENTS", block)
        assert _call(name, Y, S) == expected
        assert _call(name, sp.csr_array(Y), S.astype(np.float32)) == expected


WIDE = st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 4, 12, 130])).flatmap(
    lambda shape: hnp.arrays(np.int8, shape, elements=st.integers(0, 1))
)


@pytest.mark.parametrize("block", [7, inputs._BLOCK_ELEMENTS])
@pytest.mark.parametrize("k", [1, 5, 10, 100])
@pytest.mark.parametrize("name", ["precision_at", "f1_at", "ndcg_at"])
@settings(max_examples=settings.default.max_examples // 5)
@given(WIDE, st.integers(0, 2**32 - 1))
def test_the_best_follow_the_definition(block: int, k: int, name: str, Y: np.ndarray, seed: int) -> None:
    S = np.random.default_rng(seed).integers(-9, 10, size=Y.shape) / 2
    expected = pytest.approx(getattr(Definitions, name)(Y, S, k), rel=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "_BLOCK_ELEMENTS", block)
        assert getattr(metrics, name)(Y, S, k=k) == expected
        assert MEASURES[f"{name}_{k}"](sp.csr_array(Y), S.astype(np.float32), np.full(len(Y), 3.0)) == expected


def _f1(average: str) -> Callable[..., float]:
    return partial(sklearn.metrics.f1_score, average=average, zero_division=0)


SCIKIT_LEARN: dict[str, Callable[..., float]] = {
    "precision": partial(sklearn.metrics.precision_score, average="samples", zero_division=0),
    "recall": partial(sklearn.metrics.recall_score, average="samples", zero_division=0),
    "example_f1": _f1("samples"),
    "micro_f1": _f1("micro"),
    "macro_f1": _f1("macro"),
    "hamming_loss": sklearn.metrics.hamming_loss,
    "subset_accuracy": sklearn.metrics.accuracy_score,
    "ranking_loss": sklearn.metrics.label_ranking_loss,
    "coverage": lambda Y, S, **more: sklearn.metrics.coverage_error(Y, S, **more) - 1.0,
    "average_precision": sklearn.metrics.label_ranking_average_precision_score,
    "macro_auc": partial(sklearn.metrics.roc_auc_score, average="macro"),
    "ndcg_at_5": partial(sklearn.metrics.ndcg_score, k=5),
}


@for_each("weighted", [False, True])
@for_each("name", SCIKIT_LEARN)
def test_values_are_those_of_scikit_learn(name: str, weighted: bool) -> None:
    """All rows have labels and all labels have both classes: in other cases the definitions differ."""
    rng = np.random.default_rng(5)
    Y, P = (rng.random((2, 60, 9)) < 0.4).astype(int)
    Y[:, 0] |= ~Y.any(axis=1)
    other = rng.normal(size=Y.shape) if MEASURES[name].of_scores else P
    weights = rng.choice([0.01, 0.5, 1.0, 7.0], len(Y)) if weighted else None
    theirs = SCIKIT_LEARN[name](Y, other, sample_weight=weights)
    assert MEASURES[name](Y, other, weights) == pytest.approx(theirs, rel=1e-12)


def test_other_depths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^k must be one of 1, 5, 10, 100"):
        metrics.precision_at(np.eye(2), np.eye(2), k=3)


@given(INDICATORS, st.data())
def test_normalised_coverage(pair: np.ndarray, data: st.DataObject) -> None:
    Y = pair[0]
    S = data.draw(hnp.arrays(np.float64, Y.shape, elements=SCORES))
    expected = _ratio(Definitions.coverage(Y, S), Y.shape[1])
    assert metrics.coverage(Y, S, normalize=True) == pytest.approx(expected, rel=1e-12)


@for_each("name", DECISIONS + RANKINGS)
@for_each(
    ("Y", "other", "field"),
    [
        ([[0, 2]], [[0, 1]], "Y"),
        ([[0, -1]], [[0, 1]], "Y"),
        ([[0, float("nan")]], [[0, 1]], "Y"),
        ([0, 1], [0, 1], "Y"),
        (sp.csr_array(([1, 1], [1, 1], [0, 2]), shape=(1, 2)), [[0, 1]], "Y"),
        ([[0, 1]], [[0, 1, 0]], "P|scores"),
        ([[0, 1]], [[0], [1]], "P|scores"),
        ([[0, 1]], [0, 1], "P|scores"),
        ([[0, 1]], [[0, float("nan")]], "P|scores"),
        ([[0, 1]], [["0", "1"]], "P|scores"),
    ],
    ids=range(10),
)
def test_bad_input_is_refused(name: str, Y: Any, other: Any, field: str) -> None:
    with pytest.raises(ValueError, match=f"^({field}) must"):
        getattr(metrics, name)(Y, other)


@pytest.mark.parametrize("name", DECISIONS + RANKINGS)
@settings(max_examples=settings.default.max_examples // 3)
@given(INDICATORS, st.data())
def test_an_example_of_weight_two_counts_as_two(name: str, pair: np.ndarray, data: st.DataObject) -> None:
    Y = pair[0]
    other = data.draw(hnp.arrays(np.float64, Y.shape, elements=SCORES)) if name in RANKINGS else pair[1]
    weights = data.draw(hnp.arrays(np.int64, len(Y), elements=st.integers(1, 3)))
    expected = pytest.approx(_call(name, np.repeat(Y, weights, axis=0), np.repeat(other, weights, axis=0)), rel=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "_BLOCK_ELEMENTS", 7)
        assert _call(name, Y, other, weights) == expected
        assert _call(name, sp.csr_array(Y), other, weights) == expected
        assert _call(name, Y, other, np.ones(len(Y))) == _call(name, Y, other)


@for_each("name", DECISIONS + RANKINGS)
@for_each("weights", [[1.0], [1.0, 0.0], [1.0, 1001.0], [1.0, float("nan")]])
def test_bad_weights_are_refused(name: str, weights: list[float]) -> None:
    with pytest.raises(ValueError, match=r"^sample_weight"):
        getattr(metrics, name)(np.eye(2), np.eye(2), weights)


def test_a_sparse_input_keeps_its_values() -> None:
    Y = sp.coo_array(([1, 0, 1], ([0, 0, 1], [1, 0, 0])), shape=(2, 2)).tocsr()
    before = Y.copy()
    assert metrics.hamming_loss(Y, Y) == 0.0
    assert Y.nnz == before.nnz == 3


@pytest.mark.parametrize("name", DECISIONS + RANKINGS)
def test_memory_is_bounded(name: str) -> None:
    rng = np.random.default_rng(5)
    Y = rng.random((6_000, 1_000), dtype=np.float32) < 0.1
    other = rng.random(Y.shape, dtype=np.float32) if name in RANKINGS else Y
    tracemalloc.start()
    try:
        getattr(metrics, name)(Y, other)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 25e6  # one int64 array of this shape would be 48 MB
