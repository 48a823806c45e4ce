"""Weak experts in a stack: they are ignored, and break nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.core.online.models.test_stack import Array, bounded_step

from manylabel_core.online.models.model import Model
from manylabel_core.online.models.stack import _stack
from manylabel_core.online.models.stack.model import Stack
from manylabel_core.rows import Rows, Targets, as_targets

N_ROWS, N_LABELS = 1500, 60


class Given(Model):
    """An expert with given margins, row by row."""

    def __init__(self, margins: Array) -> None:
        super().__init__()
        self._margins = margins

    def learn(self, rows: Rows, targets: Targets, scores: Array) -> None:
        scores[:, 0], scores[:, 1:] = 0.0, self._margins

    def score(self, rows: Rows, scores: Array) -> None:
        raise NotImplementedError

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        raise NotImplementedError


def log_loss(margins: list[Array], Y: NDArray[np.int8]) -> float:
    """The mean log loss of each row before it is learnt, by a stack of experts with these margins."""
    first, *others = [Given(each) for each in margins]
    stack = Stack(first, {str(name): each for name, each in enumerate(others)})
    stack.reserve(0, Y.shape[1])
    scores = np.empty((len(Y), 1 + Y.shape[1]))
    stack.learn(Rows(np.zeros(1 + len(Y), np.int64), np.zeros(0, np.int32), np.zeros(0)), as_targets(Y), scores)
    return float(np.logaddexp(0.0, np.where(Y, -scores[:, 1:], scores[:, 1:])).mean())


def rare_labels() -> tuple[Array, NDArray[np.int8]]:
    """The margins of an expert that knows labels well, and labels that few rows have."""
    rng = np.random.default_rng(0)
    Y = (rng.random((N_ROWS, N_LABELS)) < rng.uniform(0.005, 0.1, N_LABELS)).astype(np.int8)
    return -1.0 + 2.0 * Y + 0.5 * rng.normal(size=Y.shape), Y


def weak_margins(kind: str, strong: Array, noise: Array) -> Array:
    """The margins of an expert that only knows how few rows have a label, and is wrong about which, or of others."""
    return {"rare": -4.0 - 0.1 * strong, "inverted": -3.0 * strong, "noise": 4.0 * noise, "shared": noise}[kind]


@pytest.mark.parametrize("kind", ["rare", "inverted", "noise", "shared"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_weak_expert_costs_little(kind: str, is_first: bool) -> None:
    """The noise of "shared" is also in the margins of the other expert, which it would correct if it was inverted."""
    strong, Y = rare_labels()
    noise = np.random.default_rng(1).normal(size=strong.shape)
    weak = weak_margins(kind, strong, noise)
    if kind == "shared":
        strong = strong + noise
    experts = [weak, strong] if is_first else [strong, weak]
    assert log_loss(experts, Y) < 1.25 * log_loss([strong], Y)


def test_a_bounded_step_is_the_constrained_minimum() -> None:
    """With two bounded elements it is exact: the slope is 0, or the bound holds against it. With three it is near."""
    rng = np.random.default_rng(2)
    n_columns, ridge = 200, 2.0
    for n in (4, 5):
        factors = rng.normal(size=(n_columns, n, 8))
        matrices = factors @ factors.transpose(0, 2, 1)
        b, most = rng.normal(size=(n, n_columns)), rng.exponential(0.1, size=(n, n_columns))
        x = b.copy()
        _stack._solve(matrices[:, *np.tril_indices(n)].T.copy(), ridge, x, most)
        A = matrices + ridge * np.eye(n)
        for column in range(n_columns):
            literal = bounded_step(A[column], b[:, column], most[:, column])
            np.testing.assert_allclose(x[:, column], literal, atol=1e-12)
        slopes = np.einsum("cij,jc->ic", A, x) - b
        np.testing.assert_allclose(slopes[:2], 0.0, atol=1e-12)
        held = x[2:] == most[2:]
        assert (x[2:] <= most[2:]).all()
        assert 0.1 < held.mean() < 0.9
        assert slopes[2:][held].max() < 1e-12
        assert np.abs(slopes[2:][~held]).max() < (1e-12 if n == 4 else 0.1)
