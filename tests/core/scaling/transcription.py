"""Plain transcriptions of automatic scaling and of ranks, Eqs. (12) and (12c) of docs/mathematics.md."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from manylabel_core.scaling._ranks import KNOTS, MANY_VALUES, MAX_RANKED, MIN_VALUES

Array = NDArray[np.float64]

FAR, FAR_OF_FEW, FEW, EARLY, VARIES = 10.0, 5.0, 10, 10, 1e-12
LEAVES, WAITS, FAR_IN_A_ROW, NEARBY, NEAR_IN_A_ROW, AWAY = 4.0, 3, 10, 0.125, 20, 5.0


class Feature:
    """Statistics of the values other than 0 of one feature."""

    def __init__(self) -> None:
        self.count = self.having = self.since = self.run = self.same = 0
        self.mean = self.squares = self.last = 0.0
        self.is_given = False

    def varies(self) -> bool:
        return self.squares > VARIES * self.since * self.mean * self.mean

    def is_dense(self, n: int) -> bool:
        return 2 * self.count > n and self.varies()

    def is_optional(self, having: int) -> bool:
        zero_is_far = self.since * self.mean * self.mean > AWAY * AWAY * self.squares
        often_had, differs = self.count >= EARLY and 2 * self.count > having, 3 * self.same < self.since
        return often_had and differs and self.varies() and (zero_is_far or self.is_given)

    def unit(self) -> float:
        if self.varies():
            return math.sqrt(self.squares / self.since)
        return 0.05 * math.sqrt(VARIES * self.since) * abs(self.mean)

    def include(self, x: float, n: int, n_dense: int) -> float:
        """Count a value other than 0 of example number n, and return it clipped; `n_dense` is before the example."""
        again, waits = x == self.last, self._follow(x)
        if self.since >= EARLY:
            quantity = 2 * self.count > n - 1 or self.is_optional(self.having - 1)
            few = n_dense <= FEW and quantity and self.varies()
            reach = (FAR_OF_FEW if few else FAR) * self.unit()
            x = min(max(x, self.mean - reach), self.mean + reach)
        self.count += 1
        if not waits:
            self.since += 1
            self.same += again
            distance = x - self.mean
            self.mean += distance / self.since
            self.squares += distance * (x - self.mean)
        return x

    def _follow(self, x: float) -> bool:
        """Count far and near values, and restart the moments; return whether the value is not to count in them."""
        step, spread = abs(x - self.last), self.unit()
        self.last = x
        far = self.since >= EARLY and abs(x - self.mean) > LEAVES * spread
        if far:
            self.run = max(self.run, 0) + 1
        elif self.varies() and 0 < step < NEARBY * spread:
            self.run = min(self.run, 0) - 1
        elif self.run > 0:
            self.run -= 1
        elif step > 0:
            self.run = 0
        if self.run >= FAR_IN_A_ROW or self.run <= -NEAR_IN_A_ROW:
            self.since = self.run = self.same = 0
            self.mean = self.squares = 0.0
            return False
        return far and self.run >= WAITS


class Transcription:
    """Scaling of a stream of rows, in which NaN is missing; `missing_is_zero` as with missing="zero".

    `pairs` has numbers with the features that say that a row has them.
    """

    def __init__(self, n_features: int, missing_is_zero: bool = False, pairs: Sequence[tuple[int, int]] = ()) -> None:
        self.pairs = pairs
        self.n, self.features = 0, [Feature() for _ in range(n_features)]
        self.missing_is_zero = missing_is_zero

    def learn(self, row: Array) -> Array:
        n = self.n = self.n + 1
        for number, given in self.pairs:
            self.features[number].is_given = self.features[given].count > 0
        values = np.nan_to_num(row, nan=0.0) if self.missing_is_zero else row
        n_dense = sum(each.is_dense(n - 1) for each in self.features)
        clipped = np.full(len(row), math.nan)
        for at, (each, x) in enumerate(zip(self.features, values.tolist(), strict=True)):
            if not math.isnan(x):
                each.having += 1
                clipped[at] = each.include(x, n, n_dense) if x != 0 else 0.0
        scaled, n_quantities, n_others = np.zeros(len(row)), 0, 0
        for at, (each, x) in enumerate(zip(self.features, clipped.tolist(), strict=True)):
            dense = each.is_dense(n)
            n_quantities += dense
            if math.isnan(x) or not (dense or x):
                continue
            rarity = math.sqrt(math.sqrt(math.sqrt((n + 1.0) / (each.count + 1.0))))
            variance, share, square = each.squares / each.since, each.count / each.having, each.mean * each.mean
            if dense or each.is_optional(each.having):
                deviation = math.sqrt(variance * share + square * share * (1.0 - share))
                scaled[at] = (x - share * each.mean) / deviation * (1.0 if dense else rarity)
                n_quantities += not dense
            else:
                scaled[at] = x * rarity / math.sqrt(variance + square)
                n_others += 1
        if 0 < n_quantities <= FEW and n_others <= n_quantities:
            return scaled / math.sqrt(n_quantities)
        total = 0.0
        for z in scaled.tolist():
            total += z * z
        return scaled / (math.sqrt(total) if total > 0.0 else 1.0)


def transcription(X: Array, missing_is_zero: bool = False, pairs: Sequence[tuple[int, int]] = ()) -> Array:
    """Return the rows of a stream scaled."""
    stream = Transcription(X.shape[1], missing_is_zero, pairs)
    return np.array([stream.learn(row) for row in X]).reshape(X.shape)


def plain_ranks(X: Array) -> Array:
    """Return the ranks of dense rows, written plainly: sketches are lists of [value, weight]."""
    sketches: list[list[list[float]]] = [[] for _ in X.T]
    ranked: list[int] = []
    found = np.zeros((len(X), X.shape[1]))
    for x, row in zip(X.tolist(), found, strict=True):
        for place, feature in enumerate(ranked):
            if not np.isnan(x[feature]):
                values, weights = np.transpose(sketches[feature])
                heights = (np.cumsum(weights) - weights / 2) / weights.sum()
                row[place] = (2 * np.interp(x[feature], values, heights) - 1) / np.sqrt(len(ranked))
        for feature, value in enumerate(x):
            if np.isnan(value) or (feature not in ranked and len(ranked) == MAX_RANKED):
                continue
            sketch = sketches[feature]
            same = [knot for knot in sketch if knot[0] == value]
            if same:
                same[0][1] += 1.0
            else:
                sketch.append([value, 1.0])
                sketch.sort()
            if len(sketch) > KNOTS:
                pairs = range(KNOTS)
                at = min(pairs, key=lambda k: (sketch[k][1] + sketch[k + 1][1], sketch[k + 1][0] - sketch[k][0]))
                (low, a), (high, b) = sketch[at : at + 2]
                sketch[at : at + 2] = [[low + (high - low) * (b / (a + b)), a + b]]
            if sum(weight for _, weight in sketch) >= MANY_VALUES:
                for knot in sketch:
                    knot[1] /= 2
            if feature not in ranked and len(sketch) >= MIN_VALUES:
                ranked.append(feature)
    return found
