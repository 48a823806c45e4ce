"""A state may come from anybody: what a compiled function relies on is checked before one sees it."""

from collections.abc import Callable
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
    "weights-short": (FALT, "weights", lambda w: w[:-1]),
    "weights-narrow": (FALT, "weights", lambda w: w[:, :-1]),
    "weights-none": (FALT, "weights", lambda w: w[:0]),
    "weights-huge": (lambda: FALT(dtype="float64"), "weights", lambda w: w + 1e61),
    "squares-negative": (SALT, "squares", lambda s: s - 1),
    "planes-unlike": (SALT, "squares", lambda s: s[:-1]),
    "centroid-sums-short": (FALT, "centroid.sums", lambda s: s[:-1]),
    "centroid-sums-none": (FALT, "centroid.sums", lambda s: s[:0]),
    "centroid-sums-huge": (lambda: FALT(dtype="float64"), "centroid.sums", lambda s: s + 1e61 * np.eye(*s.shape)),
    "centroid-sums-constant": (FALT, "centroid.sums", lambda s: s + np.eye(*s.shape, 1, dtype="f")),
    "centroid-sums-threshold": (FALT, "centroid.sums", lambda s: s + np.eye(*s.shape, -1, dtype="f")),
    "centroid-labels-few": (FALT, "centroid.labels", lambda t: t[:, :1]),
    "centroid-weight-small": (FALT, "centroid.labels", lambda t: t - [[9], [0]]),
    "centroid-weight-huge": (FALT, "centroid.labels", lambda t: t - [[-(2.0**33)], [0]]),
    "centroid-square-negative": (FALT, "centroid.labels", lambda t: t - [[0], [1e9]]),
    "centroid-seen-short": (FALT, "centroid.seen", lambda s: s[:-1]),
    "centroid-seen-negative": (FALT, "centroid.seen", lambda s: s - 99),
    "threshold-aggressive": (PassiveAggressive, "weights", lambda w: w + 1),
    "auto-moments-long": (FALT, "scaling.moments", lambda m: np.vstack([m, m])),
    "auto-moments-narrow": (FALT, "scaling.moments", lambda m: m[:, :1]),
    "auto-moments-negative": (FALT, "scaling.moments", lambda m: m - 99 * one("squares")),
    "auto-means-huge": (FALT, "scaling.moments", lambda m: m + 1e16 * one("mean")),
    "auto-count-huge": (FALT, "scaling.count", lambda c: c + 2**60),
    "auto-count-none": (FALT, "scaling.count", lambda c: c[:0]),
    "seen-short": (FALT, "feature_squares", lambda s: s[:2]),
    "seen-negative": (FALT, "feature_squares", lambda s: s - 99),
    "auto-moments-short": (FALT, "scaling.moments", lambda m: m[:2]),
    "auto-moments-wide": (FALT, "scaling.moments", lambda m: np.hstack([m, m])),
    "auto-values-negative": (FALT, "scaling.moments", lambda m: m - 9 * one("count")),
    "auto-values-too-many": (FALT, "scaling.moments", lambda m: m + 9 * one("count")),
    "auto-since-negative": (FALT, "scaling.moments", lambda m: m - 9 * one("since")),
    "auto-since-too-many": (FALT, "scaling.moments", lambda m: m + one("since")),
    "auto-same-negative": (FALT, "scaling.moments", lambda m: m - 9 * one("same")),
    "auto-same-too-many": (FALT, "scaling.moments", lambda m: m + 9 * one("same")),
    "auto-run-far": (FALT, "scaling.moments", lambda m: m + 10 * one("run")),
    "auto-run-near": (FALT, "scaling.moments", lambda m: m - 20 * one("run")),
    "auto-last-huge": (FALT, "scaling.moments", lambda m: m + 1e16 * one("last")),
    "auto-last-none": (FALT, "scaling.moments", lambda m: np.where(one("last") > 0, np.nan, m)),
    "auto-count-negative": (FALT, "scaling.count", lambda c: -c),
    "drift-seen-short": (watched, "drift.seen", lambda s: s[:1]),
    "drift-seen-negative": (watched, "drift.seen", lambda s: s - 9),
    "drift-seen-too-many": (watched, "drift.seen", lambda s: s + np.array([2**60, 0])),
    "drift-seen-labels": (watched, "drift.seen", lambda s: s + np.array([0, 1])),
    "drift-alarms-wide": (watched, "drift.alarms", lambda a: np.hstack([a, a])),
    "drift-alarms-long": (watched, "drift.alarms", lambda a: np.vstack([a, a])),
    "drift-alarms-negative": (watched, "drift.alarms", lambda a: a - 1),
    "drift-alarms-too-many": (watched, "drift.alarms", lambda a: a + 4),
    "drift-lengths-short": (watched, "drift.lengths", lambda n: n[:2]),
    "drift-lengths-negative": (watched, "drift.lengths", lambda n: n - 9),
    "drift-lengths-too-long": (watched, "drift.lengths", lambda n: n + 2),
    "drift-lengths-too-small": (watched, "drift.lengths", lambda n: n - 1),
    "drift-sums-wide": (watched, "drift.sums", lambda s: np.hstack([s, s])),
    "drift-sums-negative": (watched, "drift.sums", lambda s: s - 1),
    "drift-sums-too-large": (watched, "drift.sums", lambda s: s + 3),
    "drift-runs-long": (watched, "drift.runs", lambda r: np.vstack([r, r])),
    "drift-runs-none": (watched, "drift.runs", lambda r: r[:0]),
    "drift-runs-narrow": (watched, "drift.runs", lambda r: r[:, :2]),
    "drift-runs-few": (watched, "drift.runs", lambda r: r[..., :4]),
    "drift-runs-negative": (watched, "drift.runs", lambda r: r - 1),
    "drift-runs-too-large": (watched, "drift.runs", lambda r: r + np.array([1.1, 0, 0, 0, 0])),
    "drift-runs-none-such": (watched, "drift.runs", lambda r: r + np.array([0, 0, 0, 0, 1])),
    "calibration-existing-none": (FALT, "calibration.existing", lambda e: e[:0]),
    "calibration-existing-negative": (FALT, "calibration.existing", lambda e: e - 9),
    "calibration-existing-too-many": (FALT, "calibration.existing", lambda e: e + 1),
    "calibration-labels-short": (FALT, "calibration.labels", lambda d: d[:, :1]),
    "calibration-labels-narrow": (FALT, "calibration.labels", lambda d: d[:5]),
    "calibration-slope-negative": (FALT, "calibration.labels", lambda d: d - 1e3 * np.eye(6, 2)),
    "calibration-intercept-huge": (FALT, "calibration.labels", lambda d: d + 1e41 * np.eye(6, 2, -1)),
    "calibration-centre-huge": (FALT, "calibration.labels", lambda d: d + 1e31 * np.eye(6, 2, -2)),
    "calibration-spread-none": (FALT, "calibration.labels", lambda d: d * (1 - np.eye(6, 2, -3))),
    "calibration-weight-none": (FALT, "calibration.labels", lambda d: d * (1 - np.eye(6, 2, -4))),
    "calibration-positives-negative": (FALT, "calibration.labels", lambda d: d - 99 * np.eye(6, 2, -5)),
    "calibration-counts-none": (FALT, "calibration.counts", lambda c: c[:, :0]),
    "calibration-counts-wide": (FALT, "calibration.counts", lambda c: np.hstack([c, c])),
    "calibration-counts-few": (lambda: FALT(optimise="macro_f1"), "calibration.counts", lambda c: c[:, :1]),
    "calibration-hits-negative": (FALT, "calibration.counts", lambda c: c - [[99], [0]]),
    "calibration-bend-short": (FALT, "calibration.bend", lambda b: b[:1]),
    "calibration-bend-negative": (FALT, "calibration.bend", lambda b: b - [9, 0]),
    "calibration-bend-curved": (FALT, "calibration.bend", lambda b: b - [0, 9]),
    "calibration-total-none": (FALT, "calibration.counts", lambda c: c * [[1], [0]]),
    "size-none": (KernelFALT, "size", lambda s: s[:0]),
    "size-negative": (KernelFALT, "size", lambda s: [-3, 2]),
    "size-huge": (KernelFALT, "size", lambda s: [2**31, 2]),
    "size-small": (KernelFALT, "size", lambda s: [2, 2]),
    "labels": (KernelFALT, "size", lambda s: [3, 3]),
    "labels-huge": (KernelFALT, "size", lambda s: [3, 2**62]),
    "coefficients-fewer": (KernelFALT, "coefficients", lambda c: c[:-1]),
    "coefficients-more": (KernelFALT, "coefficients", lambda c: np.vstack([c, c])),
    "indptr-none": (KernelFALT, "vectors.indptr", lambda p: p[:0]),
    "indptr-falls": (KernelFALT, "vectors.indptr", lambda p: [p[0], p[2], p[1], p[3]]),
    "indptr-outside": (KernelFALT, "vectors.indptr", lambda p: [p[0], 2**62, *p[2:]]),
    "indptr-wraps": (KernelFALT, "vectors.indptr", lambda p: [p[0], 2**63 - 1, -(2**63), p[3]]),
    "indptr-begins-late": (KernelFALT, "vectors.indptr", lambda p: [1, *p[1:]]),
    "indptr-ends-early": (KernelFALT, "vectors.indptr", lambda p: [*p[:-1], p[-1] - 1]),
    "indices-negative": (KernelFALT, "vectors.indices", lambda i: [-1, *i[1:]]),
    "indices-outside": (KernelFALT, "vectors.indices", lambda i: [*i[:-1], 3]),
    "indices-repeat": (KernelFALT, "vectors.indices", lambda i: [0, 0, *i[2:]]),
    "indices-fall": (KernelFALT, "vectors.indices", lambda i: [2, 0, *i[2:]]),
    "indices-short": (KernelFALT, "vectors.indices", lambda i: i[:-1]),
    "intercept-short": (projecting, "intercept", lambda i: i[1:]),
    "intercept-wide": (projecting, "intercept", lambda i: np.vstack([i, i])),
    "inverse-small": (projecting, "inverse", lambda q: q[:1, :1]),
    "inverse-another": (projecting, "inverse", lambda q: q + 0.01),
    "inverse-huge": (projecting, "inverse", lambda q: q * 1e300),
    "replaced-negative": (projecting, "replaced", lambda r: r - 99),
    "replaced-late": (projecting, "replaced", lambda r: r + 99),
    "replaced-two": (projecting, "replaced", lambda r: [0, 0]),
    "vectors-zero": (linear_projecting, "vectors.values", lambda v: v * 0),
    "vectors-another": (linear_projecting, "vectors.values", lambda v: v * [1, 9, 1, -1, 1, 1]),
    "landmarks-equal": (on_landmarks, "landmarks.values", lambda v: v * 0),
    "landmarks-outside": (on_landmarks, "landmarks.indices", lambda i: i + 3),
    "landmark-weights-labels": (on_landmarks, "weights", lambda w: w[:, :-1]),
    "landmark-size-labels": (on_landmarks, "size", lambda s: s + np.array([0, 1])),
    "landmark-size-huge": (on_landmarks, "size", lambda s: [2**40, 2]),
    "landmarks-few": (on_landmarks, "landmarks.indptr", lambda p: p[:-1]),
    "landmark-weights-many": (on_landmarks, "weights", lambda w: np.vstack([w, w])),
    "adaptive-weights-short": (KernelFALT, "adaptive.weights", lambda w: w[:-1]),
    "kernel-centroid-short": (KernelFALT, "centroid.sums", lambda s: s[:-1]),
    "adaptive-squares-short": (KernelFALT, "adaptive.feature_squares", lambda s: s[:-1]),
    "stack-existing-none": (KernelFALT, "stack.existing", lambda e: e[:0]),
    "stack-existing-too-many": (KernelFALT, "stack.existing", lambda e: e + 1),
    "stack-shared-short": (KernelFALT, "stack.shared", lambda s: s[:-1]),
    "stack-shared-huge": (KernelFALT, "stack.shared", lambda s: s + 2**21 * np.eye(1, 20)[0]),
    "stack-shared-curved": (KernelFALT, "stack.shared", lambda s: s + 1e16 * np.eye(1, 20, 5)[0]),
    "stack-shared-indefinite": (KernelFALT, "stack.shared", lambda s: s + 1e6 * np.eye(1, 20, 6)[0]),
    "stack-labels-few": (KernelFALT, "stack.labels", lambda t: t[:, :1]),
    "stack-labels-short": (KernelFALT, "stack.labels", lambda t: t[:-1]),
    "stack-labels-indefinite": (KernelFALT, "stack.labels", lambda t: t - 9 * np.eye(21, 2, -5)),
    "stack-labels-recent-negative": (KernelFALT, "stack.labels", lambda t: t - 9 * np.eye(21, 2, -20)),
    "stack-labels-recent-too-large": (KernelFALT, "stack.labels", lambda t: t + 9 * np.eye(21, 2, -20)),
    "values-short": (KernelFALT, "vectors.values", lambda v: v[:-1]),
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
    with pytest.raises(ValueError, match="state must hold"):
        learner.restore({**arrays, name: forged})
    assert same(learner.state(), before)
    learner.partial_fit(X[1:], Y[1:])
    assert same(learner.state(), arrays)


def test_more_support_vectors_than_the_budget() -> None:
    arrays = KernelFALT(budget=3).partial_fit(X, Y).state()
    with pytest.raises(ValueError, match="at most 2 support vectors"):
        KernelFALT(budget=2).restore(arrays)
    KernelFALT(budget=3).restore(arrays)


def test_offsets_of_names_that_wrap_around() -> None:
    arrays = Vocabulary(["a", "b", "c"]).state()
    offsets = np.array([0, 2**63 - 1, -(2**63), 3])
    with pytest.raises(ValueError, match=r"^offsets: must rise"):
        Vocabulary.from_state({**arrays, "offsets": offsets})
