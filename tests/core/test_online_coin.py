"""SALT by coin betting: against a plain transcription, and what a step without a size must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

from manylabel_core import SALT

Array = NDArray[np.float64]


def plain_coin(X: Array, Y: NDArray[np.int64], known: NDArray[np.bool_]) -> tuple[Array, dict[str, Array]]:
    """COCOB bets of every weight, on the gradient that the exact round in their metric ends with; threshold first."""
    shape = (X.shape[1], 1 + Y.shape[1])
    W, theta, G, R, M = (np.zeros(shape) for _ in range(5))
    seen = []

    def rate() -> Array:
        most = np.maximum(M, 1.0)
        return (most + R) / (most * np.maximum(G + most, 2.0 * most))

    for x, y, of in zip(X, Y, known, strict=True):
        s = x @ W
        seen.append(s)
        sign = np.where(y, 1.0, -1.0) * of
        if not x.any() or not (of & (sign * (s[1:] - s[0]) < 1.0)).any():
            continue
        k = (x**2) @ rate()
        most = of.sum() / np.maximum(np.where(y, (of & (y == 1)).sum(), (of & (y == 0)).sum()), 1)

        def steps(threshold: float) -> Array:
            wanted = sign * (1.0 + sign * (threshold - s[1:])) / k[1:]  # noqa: B023
            return np.clip(wanted, np.where(sign > 0, 0.0, -most), np.where(sign > 0, most, 0.0)) * of  # noqa: B023

        root = brentq(lambda th: th - s[0] + k[0] * steps(th).sum(), -1e4, 1e4, xtol=1e-14, rtol=1e-15)  # noqa: B023
        move = np.concatenate([[-steps(root).sum()], steps(root)])
        g = np.outer(x, move)  # the negative gradient
        theta, G, M = theta + g, G + np.abs(g), np.maximum(M, np.abs(g))
        R = np.maximum(R + W * g, 0.0)
        W = theta * rate()
    return np.array(seen), {"weights": W, "sums": theta, "magnitudes": G, "rewards": R, "largest": M}


def make_stream(seed: int, n_labels: int = 5) -> tuple[Array, NDArray[np.int64], NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 7)) * (rng.random((60, 7)) < 0.6) * 10.0 ** rng.uniform(-1, 1, size=7)
    Y = (X @ rng.normal(size=(7, n_labels)) > 0.5).astype(int)
    Y[3], Y[4] = 0, 1
    known = rng.random((60, n_labels)) < rng.choice([0.5, 1.0], size=(60, 1))
    return X, Y, known


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_plain_transcription(seed: int) -> None:
    X, Y, known = make_stream(seed)
    model = SALT(step="coin", scaling="none", fit_intercept=False, calibrate=False, dtype="float64")
    model.grow(X.shape[1], Y.shape[1])
    scores = []
    for x, y, of in zip(X, Y, known, strict=True):
        labels, thresholds = model.scores([x])
        scores.append([*thresholds, *labels[0]])
        model.partial_fit([x], [y], known=[of])
    seen, planes = plain_coin(X, Y, known)
    np.testing.assert_allclose(scores, seen, rtol=1e-7, atol=1e-7 * np.abs(seen).max())
    for name, plane in planes.items():
        np.testing.assert_allclose(model.state()[name][1:], plane, rtol=1e-6, atol=1e-7 * np.abs(plane).max())
    assert np.abs(planes["rewards"]).max() > 0.1


def test_a_bet_is_a_share_of_the_wealth() -> None:
    """No weight is more than the wealth, M + R, over 2 M |theta|/M at most: |w| <= (1 + R / M) |theta| / (G + M)."""
    X, Y, _ = make_stream(9)
    state = SALT(step="coin", scaling="none", dtype="float64").partial_fit(X, Y).state()
    most = np.maximum(state["largest"], 1.0)
    share = np.abs(state["sums"]) / (state["magnitudes"] + most)
    assert (share < 1.0).all()
    assert (np.abs(state["weights"]) <= share * (1.0 + state["rewards"] / most) * (1 + 1e-12)).all()


@pytest.mark.parametrize("wrong", [{"eta": 0.5}, {"delta": 1.0}, {"eta": 1.0, "delta": 1.0}])
def test_it_has_no_size_to_give(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be None with step='coin'"):
        SALT(step="coin", **wrong).partial_fit([[1.0]], [[1]])
    with pytest.raises(ValueError, match=r"^passes must be None"):
        SALT(step="coin", passes=3).partial_fit([[1.0]], [[1]])
    chosen = SALT(step="coin").settled_params()
    assert (chosen["eta"], chosen["delta"], chosen["passes"]) == (None, None, None)


def test_it_learns_whatever_the_size_of_the_features() -> None:
    """Ten orders of magnitude: there is no step to be wrong."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 4))
    Y = (X @ rng.normal(size=(4, 3)) > 0).astype(int)
    for size in (1e-3, 1.0, 1e3, 1e6):
        model = SALT(step="coin", scaling="none", fit_intercept=False, calibrate=False).partial_fit(X * size, Y)
        assert (model.predict(X * size) == Y).mean() > (0.9 if size >= 1.0 else 0.8)
