"""Scaling of vectors: values with another level or unit, value by value."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.scaling.transcription import EARLY, FAR, FAR_IN_A_ROW, LEAVES, NEAR_IN_A_ROW, NEARBY, WAITS, Array

from manylabel_core.rows import VectorRows
from manylabel_core.scaling.vectors import VectorScaling

HALF, LENGTH = 300, 16


def stream() -> Array:
    """Vectors that all have another unit from the middle on; one value is constant, one becomes constant."""
    X = np.random.default_rng(0).normal(0.3, 1.0, (2 * HALF, LENGTH))
    X[:, 0], X[HALF:, 1] = 0.25, 0.5
    X[HALF:, 2:] *= 1000.0
    X[HALF + 50, 3] = 1e9
    return X


def scaled(X: Array, at_once: int = 10_000, store: bool = True) -> Array:
    scaling = VectorScaling()
    scaling.add_fields([LENGTH], 0)
    found = []
    for at in range(0, len(X), at_once):
        part = X[at : at + at_once].copy()
        rows = VectorRows(np.array([0, LENGTH]), np.ones((len(part), 1), np.bool_), part)
        found.append(scaling.scale(rows, store).values)
    return np.vstack(found)


def transcription(values: Array) -> list[float]:
    """Return a value of a stream of vectors standardised, before the division by the norm."""
    mean = squares = last = 0.0
    since = run = 0
    found = []
    for x in values.tolist():
        varies = squares > 1e-12 * since * mean * mean
        spread, step = np.sqrt(squares / since) if varies else np.inf, abs(x - last)
        far = since >= EARLY and abs(x - mean) > LEAVES * spread
        near = varies and 0 < step < NEARBY * spread
        rest = run - 1 if run > 0 else 0 if step > 0 else run
        run, last = max(run, 0) + 1 if far else min(run, 0) - 1 if near else rest, x
        if run >= FAR_IN_A_ROW or run <= -NEAR_IN_A_ROW:
            mean = squares = 0.0
            since = run = 0
        elif since >= EARLY:
            x = min(max(x, mean - FAR * spread), mean + FAR * spread)
        if not (far and run >= WAITS):
            since += 1
            distance = x - mean
            mean += distance / since
            squares += distance * (x - mean)
        varies = squares > 1e-12 * since * mean * mean
        found.append((x - mean) / np.sqrt(squares / since) if varies else 0.0)
    return found


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_vectors_are_scaled_as_written_however_they_are_grouped(at_once: int) -> None:
    X = stream()
    Z = np.column_stack([transcription(values) for values in X.T])
    norms = np.sqrt((Z**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(scaled(X, at_once), Z / np.where(norms > 0, norms, 1.0), rtol=1e-12, atol=1e-15)


def test_after_a_change_of_unit_vectors_are_as_of_a_new_field() -> None:
    X = stream()
    after, fresh = scaled(X)[HALF + 100 :, 4:], scaled(X[HALF:])[100:, 4:]
    assert min(len(np.unique(values)) for values in after.T) > 0.99 * len(after)
    assert np.corrcoef(after.ravel(), fresh.ravel())[0, 1] > 0.99
