"""The covariance half-step is optimal, and the model of the other half-step is below it."""

import numpy as np
import pytest
from tests.support.cases import for_each

from manylabel_core.batch.relations._simplex import climb
from manylabel_core.batch.relations.covariance import FLOOR, best_covariance
from manylabel_core.batch.relations.lower_model import PLANES, LowerModel


def random_spd(n: int, seed: int, rank: int | None = None) -> np.ndarray:
    A = np.random.default_rng(seed).normal(size=(n, rank or n))
    return A @ A.T


def test_a_singular_covariance_gets_eps_and_stays_near_the_optimum():
    WW = random_spd(6, 0, rank=3)
    best = best_covariance(WW)
    assert 0 < best.eps <= FLOOR
    assert np.linalg.eigvalsh(best.covariance)[0] > FLOOR / 2
    assert np.trace(best.covariance) == pytest.approx(1)
    nuclear = np.sqrt(np.maximum(np.linalg.eigvalsh(WW), 0)).sum() ** 2
    assert nuclear * (1 - 1e-9) <= best.cost <= nuclear * (1 + 1e-6)


class Toy:
    """g(Omega) = max_a [p.a - <Omega, M(a)> / (2 lam)] over the corners of a box: few planes, known exactly."""

    def __init__(self, seed: int, lam: float, corners: int = 8, n_labels: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.lam = lam
        self.heights = rng.uniform(0, 1, corners)
        self.slopes = [random_spd(n_labels, 10 * seed + k) / 8 for k in range(corners)]

    def best(self, covariance: np.ndarray) -> tuple[float, float, np.ndarray]:
        values = [h - np.sum(covariance * M) / (2 * self.lam) for h, M in zip(self.heights, self.slopes, strict=True)]
        k = int(np.argmax(values))
        return values[k], self.heights[k], self.slopes[k]


@pytest.mark.parametrize("seed", range(2))
def test_lower_model_approaches_the_minimum_from_below(seed):
    toy = Toy(seed, lam=0.5)
    model = LowerModel(toy.lam)
    at = center = np.eye(4) / 4
    reached, bound, step = np.inf, -np.inf, 2.0
    for _ in range(PLANES + 2):
        value, height, slope = toy.best(at)
        model.add(height, slope)
        bound = max(bound, model.bound_with(height, slope))
        if value < reached:
            reached, center, steepest, step = value, at, slope, 1.5 * step
        else:
            step = max(0.7 * step, 0.3)
        bound = max(bound, model.bound(reached, bound))
        at, hoped = model.trial(center, steepest, reached, step, 1e-6)
        assert np.trace(at) == pytest.approx(1)
        assert np.linalg.eigvalsh(at)[0] >= -1e-15
        assert hoped <= reached + 1e-9
        for other in range(10):  # below g everywhere
            rival = random_spd(4, other)
            assert bound <= toy.best(rival / np.trace(rival))[0] + 1e-12
    assert bound <= reached + 1e-9
    assert reached - bound < 1e-3 * abs(reached)


def test_lower_model_bounds_its_planes_and_keeps_its_best_bound():
    model, bound = LowerModel(1.0), -np.inf
    for k in range(3 * PLANES):
        M = random_spd(3, k)
        model.add(float(k % 7), M)
        bound = max(bound, model.bound_with(float(k % 7), M))
        found = model.bound(100.0, bound)
        assert found >= bound - 1e-9 - 0.1 * (100.0 - bound)  # the bound may be lower by the error of the smoothing
        bound = max(bound, found)
        model.trial(np.eye(3) / 3, M, 100.0, 1.0, 1e-6)
    assert len(model._heights) == len(model._slopes) == len(model._p) == PLANES


@for_each("seed", range(5))
def test_the_quadratic_over_the_simplex_is_solved(seed):
    rng = np.random.default_rng(seed)
    gradient, H = rng.normal(size=6), random_spd(6, seed) / 10 + 0.01 * np.eye(6)
    p = rng.dirichlet(np.ones(6))
    q = climb(p, gradient, H, 1e-12, 10_000)
    slope = gradient - H @ (q - p)
    assert q.sum() == pytest.approx(1)
    assert q.min() >= 0
    assert slope.max() - slope[q > 0].min() <= 1e-9  # no pair has anything to gain
