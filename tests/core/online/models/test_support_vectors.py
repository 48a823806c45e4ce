"""The pool of support vectors, compared with a list."""

from __future__ import annotations

import numpy as np
import pytest

from manylabel_core.online.models.expansion.strategy import SupportVectors


def test_the_last_vector_moves_into_a_removed_slot() -> None:
    """Vectors are added, moved and removed, and compared with a list each time."""
    rng = np.random.default_rng(2)
    support, plain = SupportVectors("float64"), []
    support.grow(4)
    for _ in range(400):
        indices = np.sort(rng.choice(10, rng.integers(0, 7), replace=False)).astype(np.int32)
        values, tau = rng.normal(size=len(indices)), rng.normal(size=int(rng.integers(1, 5)))
        alpha = [*tau.tolist(), *[0.0] * (4 - len(tau))]
        slot = int(rng.integers(len(plain))) if plain else 0
        if len(plain) > 8:
            support.remove(slot)
            plain[slot] = plain[-1]
            plain.pop()
        elif plain and rng.random() < 0.3:
            support.move(slot, indices, values, 0.0)
            plain[slot] = (indices.tolist(), values.tolist(), plain[slot][2])
        else:
            support.add(indices, values, 0.0, tau)
            plain.append((indices.tolist(), values.tolist(), alpha))
        packed = support.packed()
        assert support.n_points == len(plain) == len(packed.indptr) - 1
        for slot, (kept_indices, kept_values, alpha) in enumerate(plain):
            assert [part.tolist() for part in packed.row(slot)] == [kept_indices, kept_values]
            assert support.alpha[slot].tolist() == alpha
            assert support.alpha_norms[slot] == pytest.approx(sum(a * a for a in alpha))
