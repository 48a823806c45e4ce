"""Elementary functions that give identical bits on every processor.

The C library picks an implementation of `log` and `exp` for the processor that it runs on. The implementations
differ in the last bit. The functions here use `+ - * /` in a fixed order, comparisons, and the bits of a number. IEEE
754 defines the result of each of these operations. The compiler fuses a product with a sum only if the code allows it,
and `compiled` does not allow it. `tests/core/test_elementary.py` measures the accuracies that are stated here.

There are no branches and no tables, so loops over these functions become vector instructions. NaN is outside of all
ranges.
"""

import numpy as np

from manylabel_core.compiled import compiled

MAX_LOGIT = 30.0
"""Largest absolute argument of `sigmoid`. No probability is closer to 0 or 1 than sigmoid(-30), which is 1e-13."""

_ROUND = 1.5 * 2.0**52
"""A number of less than 2^51 plus this, minus this, is rounded to a whole number, and halves to the even one."""

_ROUND_BITS = 0x4338000000000000
"""The bits of `_ROUND`. The bits of `_ROUND + k` are these plus k."""

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""log(2) in two parts. The first ends in 21 zero bits: its product with an exponent is exact."""

_PER_LN2 = 1.4426950408889634
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_MANTISSA_BITS = 0x000FFFFFFFFFFFFF
_SMALLEST_NORMAL = 2.0**-1022


@compiled
def sigmoid(logit):  # type: ignore[no-untyped-def]
    """Return 1 / (1 + exp(-logit)) with a relative error below 1e-12, for any number, cut to MAX_LOGIT.

    exp(x) is the 64th power of exp(x / 64), which is computed from 13 terms of its series.
    """
    x = min(max(logit, -MAX_LOGIT), MAX_LOGIT) * (-1.0 / 64.0)
    e = x * (1.0 / 479001600.0) + 1.0 / 39916800.0
    e = e * x + 1.0 / 3628800.0
    e = e * x + 1.0 / 362880.0
    e = e * x + 1.0 / 40320.0
    e = e * x + 1.0 / 5040.0
    e = e * x + 1.0 / 720.0
    e = e * x + 1.0 / 120.0
    e = e * x + 1.0 / 24.0
    e = e * x + 1.0 / 6.0
    e = e * x + 0.5
    e = e * x + 1.0
    e = e * x + 1.0
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    return 1.0 / (1.0 + e)


@compiled
def exp(x):  # type: ignore[no-untyped-def]
    """Return e^x within 1 ulp, for any number: 0 below -745.14, subnormal below -708.4, infinity above 709.79.

    x = k log(2) + r with a whole k and |r| at most log(2) / 2, and e^r is a series of 14 terms.
    """
    x = min(max(x, -746.0), 710.0)
    rounded = np.float64(x * _PER_LN2 + _ROUND)
    k = rounded - _ROUND
    high, low = x - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low
    square = r * r
    fourth = square * square
    a = (1.0 / 2.0 + r * (1.0 / 6.0)) + square * (1.0 / 24.0 + r * (1.0 / 120.0))
    b = (1.0 / 720.0 + r * (1.0 / 5040.0)) + square * (1.0 / 40320.0 + r * (1.0 / 362880.0))
    c = (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) + square * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0))
    value = 1.0 + (high + (square * (a + fourth * (b + fourth * c)) - low))
    n = rounded.view(np.int64) - _ROUND_BITS
    half = n >> 1  # 2^k in two factors, because it may be subnormal, or overflow before the product does
    first, second = np.int64((half + 1023) << 52).view(np.float64), np.int64((n - half + 1023) << 52).view(np.float64)
    return value * first * second


@compiled
def log(x):  # type: ignore[no-untyped-def]
    """Return the natural logarithm within 1 ulp, for finite x > 0, subnormal ones included.

    x = 2^k (1 + f) with 1 + f between the roots of 1/2 and 2. With s = f / (2 + f),
    log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + P(s^2)). P is a minimax polynomial, that of FreeBSD's msun (e_log.c).
    """
    subnormal = x < _SMALLEST_NORMAL
    normal = np.float64(x * 2.0**54 if subnormal else x)
    bits = normal.view(np.int64) - _SQRT_HALF_BITS
    f = np.int64((bits & _MANTISSA_BITS) + _SQRT_HALF_BITS).view(np.float64) - 1.0
    k = np.int64((bits >> 52) + _ROUND_BITS).view(np.float64) - _ROUND - (54.0 if subnormal else 0.0)
    half = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = z * (
        6.666666666666735130e-01
        + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    return (s * (half + (even + odd)) + k * _LN2_LOW - half + f) + k * _LN2_HIGH
