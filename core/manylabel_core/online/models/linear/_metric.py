"""What every weight of SALT keeps to make its own metric, and how it moves.

A weight is what a step per weight, `rate`, makes of the gradients: rate = inv(H) in the notation of `_implicit`.

By squares (AdaGrad): plane 1 holds the sum S of squared gradients, and rate = 1 / (delta + sqrt(S)).

By a coin (COCOB, Orabona and Tommasi, 2017, Algorithm 1, from a weight of 0): with, of all gradients g of a weight,
theta = -sum g, G = sum |g|, the largest |g| as M and the reward R = max(R - w g, 0) so far, in planes 1 to 4,

    w = theta (M + R) / (M max(G + M, FEWEST_BETS M)),

a bet of the share theta / max(...) of the wealth M + R. The rate is what multiplies theta. M is at least 1,
what the gradients of one irrelevant label come to on an example of unit norm.

Weights and sums stay within `LARGEST`, and squares within `MOST_SQUARES`: what would leave the box is put on its edge,
which is the projection onto it in any such metric. An overflow on the way so has the edge for its result, and there
is no NaN: nothing is the difference of two that can overflow.
"""

import numpy as np

from manylabel_core.compiled import compiled

SQUARES = 1
"""The plane of the squares."""

SUMS, MAGNITUDES, REWARDS, MOST = 1, 2, 3, 4
"""Planes of a coin: theta, G, R and M."""

FEWEST_BETS = 2.0
"""A first bet is at most 1 / 2 of the wealth: with the 1 that M is at least, the best tried on eight public streams."""

LARGEST = 1e28
"""No weight, and no sum of a coin, is larger."""

MOST_SQUARES = 1e38
SMALLEST_DELTA = 1 / LARGEST
"""delta is at least this, so that no rate is larger than `LARGEST`."""


@compiled
def set_metric(table, rows, x, delta, rates, gains):  # type: ignore[no-untyped-def]
    """Write the rates of the rows of an example by their squares, and the gains of the columns by x."""
    gains[:] = 0
    one = table.dtype.type(1)
    for p in range(len(rows)):
        row, square = rows[p], x[p] * x[p]
        for column in range(len(gains)):
            rate = one / (delta + np.sqrt(table[row, SQUARES, column]))
            rates[p, column] = rate
            gains[column] += square * rate


@compiled
def step_by_rates(table, rows, x, moves, gradient, rates):  # type: ignore[no-untyped-def]
    """Move the weights by their rates, and add the squares of their gradients; columns that stand move by 0."""
    largest, most = table.dtype.type(LARGEST), table.dtype.type(MOST_SQUARES)
    for p in range(len(rows)):
        row, value = rows[p], x[p]
        for column in range(len(moves)):
            weight = table[row, 0, column] + value * rates[p, column] * moves[column]
            table[row, 0, column] = min(max(weight, -largest), largest)
            g = value * gradient[column]
            table[row, SQUARES, column] = min(table[row, SQUARES, column] + g * g, most)


@compiled
def set_bets(table, rows, x, rates, gains):  # type: ignore[no-untyped-def]
    """`set_metric` by the coins of the rows."""
    gains[:] = 0
    one, fewest = table.dtype.type(1), table.dtype.type(FEWEST_BETS)
    for p in range(len(rows)):
        row, square = rows[p], x[p] * x[p]
        for column in range(len(gains)):
            most = max(table[row, MOST, column], one)
            rate = _rate(table[row, MAGNITUDES, column], table[row, REWARDS, column], most, one, fewest)
            rates[p, column] = rate
            gains[column] += square * rate


@compiled
def bet(table, rows, x, gradient):  # type: ignore[no-untyped-def]
    """Give the coins of the rows their outcomes, and bet anew; those of columns that stand have none.

    `gradient` is the negative one, as the moves are.
    """
    one, fewest = table.dtype.type(1), table.dtype.type(FEWEST_BETS)
    zero, largest = table.dtype.type(0), table.dtype.type(LARGEST)
    for p in range(len(rows)):
        row, value = rows[p], x[p]
        for column in range(len(gradient)):
            g = value * gradient[column]
            most = max(table[row, MOST, column], abs(g))
            total = min(max(table[row, SUMS, column] + g, -largest), largest)
            magnitudes = min(table[row, MAGNITUDES, column] + abs(g), largest)
            rewards = min(max(table[row, REWARDS, column] + table[row, 0, column] * g, zero), largest)
            weight = total * _rate(magnitudes, rewards, max(most, one), one, fewest)
            table[row, 0, column] = min(max(weight, -largest), largest)
            table[row, SUMS, column] = total
            table[row, MAGNITUDES, column] = magnitudes
            table[row, REWARDS, column] = rewards
            table[row, MOST, column] = most


@compiled
def _rate(magnitudes, rewards, most, one, fewest):  # type: ignore[no-untyped-def]
    """What multiplies the sum of gradients; everything is of the table's type, which no literal is."""
    return (one + rewards / most) / max(magnitudes + most, fewest * most)
