"""A state may come from anybody: what a compiled function relies on is checked before one sees it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each

from manylabel_core import FALT, SALT, KernelFALT, KernelSALT, PassiveAggressive, Vocabulary
from manylabel_core.online.learner import OnlineLearner

X = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 0.0], [3.0, 1.0, 1.0]])
Y = np.array([[1, 0], [0, 1], [1, 1]])

Make = Callable[..., OnlineLearner]
Forge = Callable[[NDArray[Any]], Any]


def watched() -> OnlineLearner:
    return FALT(drift="adwin", calibrate=False)


def projecting() -> OnlineLearner:
    return KernelFALT(budget=2, strategy="project", fit_intercept=True)


def linear_projecting() -> OnlineLearner:
    return KernelFALT(budget=3, strategy="project", kernel="linear", scaling="none")


def on_landmarks() -> OnlineLearner:
    return KernelSALT(budget=4)


def one(name: str) -> NDArray[np.float64]:
    """Return a row of the moments of scaling: 1 for one of them, 0 for the others."""
    return (np.array(["count", "mean", "squares", "having", "since", "run", "last", "same"]) == name).astype(np.float64)


FORGED: dict[str, tuple[Make, str, Forge]] = {
    "weights-huge": (lambda: FALT(dtype="float64"), "weights", lambda w: w + 1e61),
    "squares-negative": (SALT, "squares", lambda s: s - 1),
    "centroid-sums-huge": (lambda: FALT(dtype="float64"), "centroid.sums", lambda s: s + 1e61 * np.eye(*s.shape)),
    "centroid-sums-constant": (FALT, "centroid.sums", lambda s: s + np.eye(*s.shape, 1, dtype="f")),
    "centroid-sums-threshold": (FALT, "centroid.sums", lambda s: s + np.eye(*s.shape, -1, dtype="f")),
    "centroid-weight-small": (FALT, "centroid.labels", lambda t: t - [[9], [0]]),
    "centroid-weight-huge": (FALT, "centroid.labels", lambda t: t - [[-(2.0**33)], [0]]),
    "centroid-square-negative": (FALT, "centroid.labels", lambda t: t - [[0], [1e9]]),
    "centroid-seen-negative": (FALT, "centroid.seen", lambda s: s - 99),
    "threshold-aggressive": (PassiveAggressive, "weights", lambda w: w + 1),
    "auto-moments-negative": (FALT, "scaling.moments", lambda m: m - 99 * one("squares")),
    "auto-means-huge": (FALT, "scaling.moments", lambda m: m + 1e16 * one("mean")),
    "seen-negative": (FALT, "feature_squares", lambda s: s - 99),
    "auto-values-negative": (FALT, "scaling.moments", lambda m: m - 9 * one("count")),
    "auto-values-too-many": (FALT, "scaling.moments", lambda m: m + 9 * one("count")),
    "auto-since-negative": (FALT, "scaling.moments", lambda m: m - 9 * one("since")),
    "auto-same-negative": (FALT, "scaling.moments", lambda m: m - 9 * one("same")),
    "auto-run-far": (FALT, "scaling.moments", lambda m: m + 10 * one("run")),
    "auto-run-near": (FALT, "scaling.moments", lambda m: m - 20 * one("run")),
    "auto-last-huge": (FALT, "scaling.moments", lambda m: m + 1e16 * one("last")),
    "auto-last-none": (FALT, "scaling.moments", lambda m: np.where(one("last") > 0, np.nan, m)),
    "auto-count-negative": (FALT, "scaling.count", lambda c: -c),
    "drift-seen-negative": (watched, "drift.seen", lambda s: s - 9),
    "drift-seen-labels": (watched, "drift.seen", lambda s: s + np.array([0, 1])),
    "drift-alarms-negative": (watched, "drift.alarms", lambda a: a - 1),
    "drift-lengths-negative": (watched, "drift.lengths", lambda n: n - 9),
    "drift-lengths-too-small": (watched, "drift.lengths", lambda n: n - 1),
    "drift-sums-negative": (watched, "drift.sums", lambda s: s - 1),
    "drift-sums-too-large": (watched, "drift.sums", lambda s: s + 3),
    "drift-runs-negative": (watched, "drift.runs", lambda r: r - 1),
    "drift-runs-too-large": (watched, "drift.runs", lambda r: r + np.array([1.1, 0, 0, 0, 0])),
    "drift-runs-none-such": (watched, "drift.runs", lambda r: r + np.array([0, 0, 0, 0, 1])),
    "calibration-existing-negative": (FALT, "calibration.existing", lambda e: e - 9),
    "calibration-slope-negative": (FALT, "calibration.labels", lambda d: d - 1e3 * np.eye(6, 2)),
    "calibration-spread-none": (FALT, "calibration.labels", lambda d: d * (1 - np.eye(6, 2, -3))),
    "calibration-weight-none": (FALT, "calibration.labels", lambda d: d * (1 - np.eye(6, 2, -4))),
    "calibration-positives-negative": (FALT, "calibration.labels", lambda d: d - 99 * np.eye(6, 2, -5)),
    "calibration-counts-few": (lambda: FALT(optimise="macro_f1"), "calibration.counts", lambda c: c[:, :1]),
    "calibration-hits-negative": (FALT, "calibration.counts", lambda c: c - [[99], [0]]),
    "calibration-bend-negative": (FALT, "calibration.bend", lambda b: b - [9, 0]),
    "calibration-bend-curved": (FALT, "calibration.bend", lambda b: b - [0, 9]),
    "calibration-total-none": (FALT, "calibration.counts", lambda c: c * [[1], [0]]),
    "size-small": (KernelFALT, "size", lambda s: [2, 2]),
    "labels": (KernelFALT, "size", lambda s: [3, 3]),
    "indptr-falls": (KernelFALT, "vectors.indptr", lambda p: [p[0], p[2], p[1], p[3]]),
    "indptr-outside": (KernelFALT, "vectors.indptr", lambda p: [p[0], 2**62, *p[2:]]),
    "indptr-wraps": (KernelFALT, "vectors.indptr", lambda p: [p[0], 2**63 - 1, -(2**63), p[3]]),
    "indptr-begins-late": (KernelFALT, "vectors.indptr", lambda p: [1, *p[1:]]),
    "indptr-ends-early": (KernelFALT, "vectors.indptr", lambda p: [*p[:-1], p[-1] - 1]),
    "indices-outside": (KernelFALT, "vectors.indices", lambda i: [*i[:-1], 3]),
    "indices-repeat": (KernelFALT, "vectors.indices", lambda i: [0, 0, *i[2:]]),
    "indices-fall": (KernelFALT, "vectors.indices", lambda i: [2, 0, *i[2:]]),
    "inverse-another": (projecting, "inverse", lambda q: q + 0.01),
    "inverse-huge": (projecting, "inverse", lambda q: q * 1e300),
    "replaced-negative": (projecting, "replaced", lambda r: r - 99),
    "replaced-late": (projecting, "replaced", lambda r: r + 99),
    "vectors-zero": (linear_projecting, "vectors.values", lambda v: v * 0),
    "vectors-another": (linear_projecting, "vectors.values", lambda v: v * [1, 9, 1, -1, 1, 1]),
    "landmarks-equal": (on_landmarks, "landmarks.values", lambda v: v * 0),
    "landmarks-outside": (on_landmarks, "landmarks.indices", lambda i: i + 3),
    "landmark-size-labels": (on_landmarks, "size", lambda s: s + np.array([0, 1])),
    "stack-shared-huge": (KernelFALT, "stack.shared", lambda s: s + 2**21 * np.eye(1, 20)[0]),
    "stack-shared-curved": (KernelFALT, "stack.shared", lambda s: s + 1e16 * np.eye(1, 20, 5)[0]),
    "stack-shared-indefinite": (KernelFALT, "stack.shared", lambda s: s + 1e6 * np.eye(1, 20, 6)[0]),
    "stack-labels-indefinite": (KernelFALT, "stack.labels", lambda t: t - 9 * np.eye(21, 2, -5)),
    "stack-labels-recent-negative": (KernelFALT, "stack.labels", lambda t: t - 9 * np.eye(21, 2, -20)),
    "stack-labels-recent-too-large": (KernelFALT, "stack.labels", lambda t: t + 9 * np.eye(21, 2, -20)),
    "values-huge": (KernelFALT, "vectors.values", lambda v: v * np.float32(2e15)),
}


def same(a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]]) -> bool:
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


@for_each(("make", "name", "forge"), FORGED.values(), ids=FORGED)
def test_a_forged_state_changes_nothing(make: Make, name: str, forge: Forge) -> None:
    arrays = make().partial_fit(X, Y).state()
    learner = make().partial_fit(X[:1], Y[:1])
    before = learner.state()
    learner.restore(arrays)
    learner.restore(before)
    forged = np.asarray(forge(arrays[name]), dtype=arrays[name].dtype)
    with pytest.raises(ValueError, match="state: "):
        learner.restore({**arrays, name: forged})
    assert same(learner.state(), before)
    learner.partial_fit(X[1:], Y[1:])
    assert same(learner.state(), arrays)


MAKES: dict[str, Make] = {
    "falt": FALT,
    "salt": SALT,
    "passive-aggressive": PassiveAggressive,
    "watched": watched,
    "optimised": partial(FALT, optimise="macro_f1"),
    "kernel": KernelFALT,
    "projecting": projecting,
    "on-landmarks": on_landmarks,
}


def mutants(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield arrays of other shapes, and arrays with one number that no state has."""
    for axis in range(array.ndim):
        yield np.delete(array, -1, axis) if array.shape[axis] else np.repeat(array, 0, axis)
        yield np.concatenate([array, array], axis)
    yield array[np.newaxis]
    is_float = array.dtype.kind == "f"
    ends = () if is_float else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    for at in range(array.size):
        for value in (np.nan, np.inf, -np.inf) if is_float else ends:
            yield np.where(np.arange(array.size).reshape(array.shape) == at, array.dtype.type(value), array)


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_no_array_may_have_another_shape_or_numbers_beyond_all_bounds(make: Make) -> None:
    arrays, learner = make().partial_fit(X, Y).state(), make()
    for name, array in arrays.items():
        for mutant in mutants(array) if array.size else ():
            with pytest.raises(ValueError, match="state: "):
                learner.restore({**arrays, name: mutant})
    assert not learner.n_labels_


def test_more_support_vectors_than_the_budget() -> None:
    arrays = KernelFALT(budget=3).partial_fit(X, Y).state()
    with pytest.raises(ValueError, match="at most 2 support vectors"):
        KernelFALT(budget=2).restore(arrays)
    KernelFALT(budget=3).restore(arrays)


def test_offsets_of_names_that_wrap_around() -> None:
    arrays = Vocabulary(["a", "b", "c"]).state()
    offsets = np.array([0, 2**63 - 1, -(2**63), 3])
    with pytest.raises(ValueError, match=r"^offsets: the numbers must ascend"):
        Vocabulary.from_state({**arrays, "offsets": offsets})
