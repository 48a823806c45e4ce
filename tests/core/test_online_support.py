"""Support vectors under a budget: who leaves, and what stays in memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manylabel_core import KernelFALT
from manylabel_core.online.models.expansion.model import DropSmallest, Newcomer
from manylabel_core.online.models.expansion.support import SupportVectors
from manylabel_core.online.models.model import KernelSettings


class Plain:
    """The rule as lists: the first of the smallest leaves, in its place."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.kept: list[tuple[list[int], list[float], list[float]]] = []

    def add(self, indices: list[int], values: list[float], tau: list[float]) -> None:
        if len(self.kept) < self.budget:
            self.kept.append((indices, values, tau))
        else:
            norms = [sum(a * a for a in alpha) for *_, alpha in self.kept]
            self.kept[norms.index(min(norms))] = (indices, values, tau)


vectors = st.lists(st.integers(0, 9), unique=True, max_size=6).map(sorted)
coefficients = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=4)


@given(st.integers(1, 5), st.lists(st.tuples(vectors, coefficients), max_size=40))
def test_the_smallest_coefficients_leave_first(budget: int, added: list[tuple[list[int], list[float]]]) -> None:
    support, plain = SupportVectors("float64"), Plain(budget)
    drop = DropSmallest(KernelSettings((0, 1.0, 1.0, 2), 0.0, budget, 0, False, "float64"), budget)
    support.grow(4)
    for i, (indices, tau) in enumerate(added):
        values = [float(1 + i)] * len(indices)
        x = Newcomer(np.array(indices, np.int32), np.array(values), np.zeros(0), 1.0, 0.0, np.zeros((2, 10)))
        drop.add(support, x, np.array([tau]))
        plain.add(indices, values, tau)
        indptr, packed_indices, packed_values = support.packed()
        assert support.n_points == len(plain.kept) == len(indptr) - 1
        for slot, (kept_indices, kept_values, alpha) in enumerate(plain.kept):
            entries = slice(indptr[slot], indptr[slot + 1])
            assert packed_indices[entries].tolist() == kept_indices
            assert packed_values[entries].tolist() == kept_values
            assert support.alpha[slot, 0].tolist() == alpha + [0.0] * (4 - len(alpha))


def test_memory_stays_bounded_under_a_budget() -> None:
    rng = np.random.default_rng(0)
    model = KernelFALT(budget=20, strategy="drop", gamma=5.0)
    for _ in range(10):
        model.partial_fit(rng.normal(size=(100, 8)), rng.integers(0, 2, size=(100, 3)))
    assert model.n_support_ == 20
    support = model._content._support
    assert len(support.values) <= 2 * (20 * 8 + 8)
    assert len(support.alpha) <= 40


def test_a_budget_never_reached_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(50, 4)), rng.integers(0, 2, size=(50, 3))
    free, bounded = (KernelFALT(budget=budget).partial_fit(X, Y) for budget in (None, 50))
    assert free.n_support_ <= 50
    np.testing.assert_array_equal(free.scores(X)[0], bounded.scores(X)[0])
