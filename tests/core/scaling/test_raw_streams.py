"""Streams as people have them, learnt by FALT with its defaults: units, offsets, gaps and changes do not matter.

A stream has one quantity, whose label is whether it is above its usual, beside a feature of noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.core.scaling.transcription import Array
from tests.support.rows import dense

from manylabel_core import FALT
from manylabel_core.rows import as_rows, as_targets
from manylabel_core.scaling.automatic import AutomaticScaling

N, HALF = 2000, 1000
ROW = np.arange(N)
LATE = ROW >= HALF
Z = np.random.default_rng(0).normal(0.0, 1.0, N)
U = np.random.default_rng(1).random(N)


def correct(x: Array, truth: NDArray[np.bool_] = Z > 0.0) -> NDArray[np.bool_]:
    """Return which rows are predicted correctly before they are learnt."""
    noise = np.random.default_rng(2).normal(0.0, 1.0, len(x))
    rows, _ = as_rows(np.column_stack([x, noise]).astype(np.float32))
    learner = FALT()
    learner.pipeline.grow(2, 1)
    scores = learner.pipeline.learn(rows, as_targets(truth[:, np.newaxis].astype(np.int8))).scores
    found: NDArray[np.bool_] = (scores[:, 1] > scores[:, 0]) == truth
    return found


PLAIN = correct(Z)[HALF:].mean()


@pytest.mark.parametrize("deviations", [10.0, 900.0, 1100.0, 1e4, 5e5, -1e4])
@pytest.mark.parametrize("deviation", [1.0, 0.03, 9000.0])
def test_an_offset_does_not_matter(deviations: float, deviation: float) -> None:
    assert correct(deviation * (deviations + Z))[HALF:].mean() == pytest.approx(PLAIN, abs=0.01)


QUANTITIES: dict[str, tuple[Array, NDArray[np.bool_]]] = {
    "latitudes": (40.75 + 0.03 * Z, Z > 0.0),
    "kelvin": (293.15 + 0.1 * Z, Z > 0.0),
    "hectopascal": (1013.25 + 0.5 * Z, Z > 0.0),
    "grams": (75_000.0 + 9000.0 * Z, Z > 0.0),
    "negative": (-300.0 + 0.2 * Z, Z > 0.0),
    "mean-near-0": (1e4 * Z - 5.0, Z > 0.0),
    "unix-day": (19_700.0 + np.floor(300.0 * U), U > 0.5),
    "unix-seconds": (1.7e9 + 3e6 * U, U > 0.5),
    "years": (2018.0 + np.floor(7.0 * U), U > 3.0 / 7.0),
    "years-of-some": (
        np.where(np.random.default_rng(3).random(N) < 0.45, 2018.0 + np.floor(7.0 * U), np.nan),
        U > 3 / 7,
    ),
}


@pytest.mark.parametrize("name", QUANTITIES)
def test_quantities_as_they_are_written(name: str) -> None:
    x, truth = QUANTITIES[name]
    has = LATE & ~np.isnan(x)
    assert correct(x, truth)[has].mean() > PLAIN - 0.015


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.3, 0.45, 0.55, 0.7, 0.9])
def test_a_quantity_that_some_examples_have(share: float) -> None:
    """There is no step at one half. The labels of the examples without the quantity are noise, which costs."""
    n = int(min(max(400 / share, N), 10_000))
    rng = np.random.default_rng(5)
    z, has = rng.normal(0.0, 1.0, n), rng.random(n) < share
    found = correct(np.where(has, 100.0 + 3.0 * z, np.nan), z > 0.0)
    assert found[has][-100:].mean() > 0.8


CHANGES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "metres-to-millimetres": (lambda z: 2.0 + 0.3 * z, lambda z: 1000.0 * (2.0 + 0.3 * z)),
    "millimetres-to-metres": (lambda z: 1000.0 * (2.0 + 0.3 * z), lambda z: 2.0 + 0.3 * z),
    "celsius-to-fahrenheit": (lambda z: 20.0 + 5.0 * z, lambda z: 68.0 + 9.0 * z),
    "fahrenheit-to-celsius": (lambda z: 68.0 + 9.0 * z, lambda z: 20.0 + 5.0 * z),
    "celsius-to-kelvin": (lambda z: 20.0 + 5.0 * z, lambda z: 293.15 + 5.0 * z),
    "another-level": (lambda z: z, lambda z: 100.0 + 10.0 * z),
    "from-then-on": (lambda z: z * np.nan, lambda z: 20.0 + 2.0 * z),
    "stuck-before": (lambda z: 0.0 * z - 40.0, lambda z: 20.0 + 3.0 * z),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_followed(name: str) -> None:
    before, after = CHANGES[name]
    found = correct(np.where(LATE, after(Z), before(Z)))
    assert found[HALF + 100 : HALF + 300].mean() > 0.85
    assert found[-500:].mean() > 0.93


@pytest.mark.parametrize("wild", [[4], list(range(10))])
def test_early_wild_values_are_forgotten(wild: list[int]) -> None:
    x = 5.0 + Z
    x[wild] = 1e9
    assert correct(x)[HALF:].mean() > PLAIN - 0.015


def test_a_sensor_that_is_stuck_for_a_while_costs_nothing_afterwards() -> None:
    x = np.where((ROW > 800) & (ROW < HALF), 2.0, 2.0 + 0.3 * Z)
    assert correct(x)[HALF:].mean() == pytest.approx(PLAIN, abs=0.01)


@pytest.mark.parametrize("counter", [1.0 * ROW, 1e9 + 100.0 * ROW, 1.001**ROW])
def test_a_counter_that_grows_for_ever_does_no_harm(counter: Array) -> None:
    noise = np.random.default_rng(2).normal(0.0, 1.0, N)
    assert correct(counter, noise > 0.0)[HALF:].mean() > correct(Z, noise > 0.0)[HALF:].mean() - 0.01


def test_after_a_change_of_unit_values_stay_distinct() -> None:
    x = np.where(LATE, 1000.0, 1.0) * (2.0 + 0.3 * Z)
    scaling = AutomaticScaling()
    scaling.grow(2)
    scaled = dense(scaling.learn(as_rows(np.column_stack([x, U]).astype(np.float32))[0]), 2)
    assert len(np.unique(scaled[HALF : HALF + 100, 0])) >= 90


@pytest.mark.parametrize("constant", [7.0, 273.15, -1e6])
def test_the_rounding_of_a_constant_changes_no_bit(constant: float) -> None:
    """Noise of up to four last places of float32 is no quantity: it scales to what the constant scales to, rounded."""
    exact = np.full(N, constant, np.float32)
    noisy = exact + np.random.default_rng(4).integers(-2, 3, N) * np.spacing(exact)
    X = [np.column_stack([x, Z]).astype(np.float32) for x in (exact, noisy)]
    scaled = []
    for each in X:
        scaling = AutomaticScaling()
        scaling.grow(2)
        scaled.append(dense(scaling.learn(as_rows(each)[0]), 2))
    assert scaled[0][:, 1].tobytes() == scaled[1][:, 1].tobytes()
    np.testing.assert_allclose(scaled[1][:, 0], scaled[0][:, 0], rtol=1e-6)
