"""The elementary functions of core, against `mpmath` over their ranges and at their ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each

from manylabel_core._elementary import MAX_LOGIT, exp, log, sigmoid

Values = NDArray[np.float64]
TINY, LARGEST = 5e-324, math.ldexp(2.0 - 2.0**-52, 1023)


@pytest.fixture(autouse=True)
def _enough_digits() -> Any:
    with mpmath.workprec(200):
        yield


def error_in_ulp(found: float, exact: Any) -> float:
    """Return how far a result is from the exact one, in units of the last place of the exact one."""
    return float(abs(mpmath.mpf(found) - exact) / mpmath.mpf(math.ulp(float(exact))))


def worst(function: Callable[[float], float], exact: Callable[[Any], Any], arguments: Values) -> float:
    return max(error_in_ulp(function(float(x)), exact(mpmath.mpf(float(x)))) for x in arguments)


def around(*centres: float) -> Values:
    """Return numbers and their neighbours on both sides."""
    return np.array([np.nextafter(centre, end) for centre in centres for end in (-np.inf, centre, np.inf)])


def uniform(low: float, high: float, n: int = 3000) -> Values:
    return np.random.default_rng(0).uniform(low, high, n)


HALVES_OF_LN2 = math.log(2) * (np.arange(-2140, 2048) + 0.5)
"""Boundaries between the ranges in which `exp` uses one series each."""

EXP_ENDS = np.array([-745.1332191019411, -708.3964185322641, 709.782712893384])
"""The last numbers above 0, the last subnormal one, the last that is finite."""


@for_each(
    "arguments",
    [
        uniform(-0.35, 0.35),
        uniform(-708.3, 709.78),
        uniform(-745.13, -708.4),
        HALVES_OF_LN2[(HALVES_OF_LN2 > -745) & (HALVES_OF_LN2 < 709)],
        np.concatenate([EXP_ENDS, around(0.0, 1.0, -1.0), [1e-300, -1e-300, 2.0**-53, -(2.0**-54)]]),
    ],
    ids=["series", "normal", "subnormal", "ends of the series", "ends"],
)
def test_exp_is_within_1_ulp(arguments: Values) -> None:
    assert worst(exp, mpmath.exp, arguments) < 1.0


def test_exp_beyond_its_ends() -> None:
    assert [exp(x) for x in (-745.14, -746.0, -1e300, -math.inf)] == [0.0] * 4
    assert [exp(x) for x in (709.79, 710.0, 1e300, math.inf)] == [math.inf] * 4
    assert exp(0.0) == exp(-0.0) == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        uniform(0.5, 2.0),
        1.0 + uniform(-1e-6, 1e-6),
        np.exp(uniform(-708.0, 709.0)),
        np.exp(uniform(-744.0, -708.5)),
        np.concatenate([around(1.0, math.sqrt(0.5), math.sqrt(2.0), 2.0**-1022), [TINY, 2 * TINY, LARGEST]]),
    ],
    ids=["series", "near 1", "normal", "subnormal", "ends"],
)
def test_log_is_within_1_ulp(arguments: Values) -> None:
    assert worst(log, mpmath.log, arguments[arguments != 1.0]) < 1.0


def test_log_of_powers_of_two() -> None:
    assert log(1.0) == 0.0
    assert [log(2.0**k) for k in (-1, 1)] == [-math.log(2), math.log(2)]


def test_sigmoid_is_within_its_accuracy() -> None:
    arguments = np.concatenate([uniform(-MAX_LOGIT, MAX_LOGIT), around(0.0, -MAX_LOGIT, MAX_LOGIT)])
    for x in arguments[np.abs(arguments) <= MAX_LOGIT]:
        exact = 1 / (1 + mpmath.exp(-mpmath.mpf(float(x))))
        assert abs(mpmath.mpf(sigmoid(float(x))) / exact - 1) < 1e-12
    assert sigmoid(-1e300) == sigmoid(-MAX_LOGIT)
    assert sigmoid(1e300) == sigmoid(MAX_LOGIT)
