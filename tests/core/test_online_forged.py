"""A state may come from anybody: what a kernel relies on is checked before one sees it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from manylabel_core import FALT, SALT, KernelFALT, Vocabulary
from manylabel_core.online.base import OnlineLearner

X = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 0.0], [3.0, 1.0, 1.0]])
Y = np.array([[1, 0], [0, 1], [1, 1]])

Make = Callable[..., OnlineLearner]
Forge = Callable[[NDArray[Any]], Any]

FORGED: dict[str, tuple[Make, str, Forge]] = {
    "weights-nan": (FALT, "weights", lambda w: w * np.nan),
    "weights-infinite": (FALT, "weights", lambda w: w - np.float32(np.inf)),
    "weights-huge": (lambda: FALT(dtype="float64"), "weights", lambda w: w + 1e61),
    "squares-negative": (SALT, "squares", lambda s: s - 1),
    "squares-nan": (SALT, "squares", lambda s: s * np.nan),
    "moments-short": (lambda: FALT(scaling="standard"), "scaling.moments", lambda m: m[:2]),
    "moments-long": (lambda: FALT(scaling="standard"), "scaling.moments", lambda m: np.vstack([m, m])),
    "moments-wide": (lambda: FALT(scaling="standard"), "scaling.moments", lambda m: np.hstack([m, m])),
    "moments-nan": (lambda: FALT(scaling="standard"), "scaling.moments", lambda m: m * np.nan),
    "moments-negative": (lambda: FALT(scaling="standard"), "scaling.moments", lambda m: m - [0, 99]),
    "means-huge": (lambda: FALT(scaling="standard"), "scaling.moments", lambda m: m + np.array([1e16, 0])),
    "count-negative": (lambda: FALT(scaling="standard"), "scaling.count", lambda c: -c),
    "count-huge": (lambda: FALT(scaling="standard"), "scaling.count", lambda c: c + 2**60),
    "count-none": (lambda: FALT(scaling="standard"), "scaling.count", lambda c: c[:0]),
    "kernel-moments": (lambda: KernelFALT(scaling="standard"), "scaling.moments", lambda m: m[:2]),
    "size-none": (KernelFALT, "size", lambda s: s[:0]),
    "size-negative": (KernelFALT, "size", lambda s: [-3, 2]),
    "size-huge": (KernelFALT, "size", lambda s: [2**31, 2]),
    "size-small": (KernelFALT, "size", lambda s: [2, 2]),
    "labels": (KernelFALT, "size", lambda s: [3, 3]),
    "labels-huge": (KernelFALT, "size", lambda s: [3, 2**62]),
    "coefficients-nan": (KernelFALT, "coefficients", lambda c: c * np.nan),
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
    "values-short": (KernelFALT, "vectors.values", lambda v: v[:-1]),
    "values-nan": (KernelFALT, "vectors.values", lambda v: v * np.nan),
    "values-huge": (KernelFALT, "vectors.values", lambda v: v * np.float32(2e15)),
}


def same(a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]]) -> bool:
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


@pytest.mark.parametrize(("make", "name", "forge"), FORGED.values(), ids=FORGED)
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
    arrays = KernelFALT().partial_fit(X, Y).state()
    with pytest.raises(ValueError, match="at most 2 support vectors"):
        KernelFALT(budget=2).restore(arrays)
    KernelFALT(budget=3).restore(arrays)


def test_offsets_of_names_that_wrap_around() -> None:
    arrays = Vocabulary(["a", "b", "c"]).to_arrays()
    offsets = np.array([0, 2**63 - 1, -(2**63), 3])
    with pytest.raises(ValueError, match=r"^offsets: must rise"):
        Vocabulary.from_arrays({**arrays, "offsets": offsets})
