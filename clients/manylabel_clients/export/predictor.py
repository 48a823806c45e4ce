"""Predictor of an exported linear model: pure Python, copied unchanged into the files of `as_python`."""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from manylabel_core.records.encoder import RecordEncoder
from manylabel_core.records.number_fields import NumberFields, given_names, numbers_of
from manylabel_core.records.text import TextSettings
from manylabel_core.scaling._automatic import (
    AWAY,
    EARLY,
    FAR,
    FAR_IN_A_ROW,
    FAR_OF_FEW,
    FEW,
    LEAVES,
    NEAR_IN_A_ROW,
    NEARBY,
    VARIES,
    WAITS,
)


class LinearPredictor:
    """Predictor with the scores of the model minus the threshold; labels above 0 are predicted.

    Parameters
    ----------
    model : the values of docs/export.md.
    """

    def __init__(self, model: Mapping[str, Any]) -> None:
        self.labels: list[str] = model["labels"]
        self._columns = {name: column for column, name in enumerate(model["features"]["names"])}
        self._unseen = model["features"]["unseen"]
        self._is_numbered, numbers = model["features"]["numbered"], model["features"]["numbers"]
        self._numbers = None if numbers is None else NumberFields.from_json(numbers)
        self._given = {} if self._is_numbered else given_names(self._columns)
        self._records = RecordEncoder(None if model["text"] is None else TextSettings.from_json(model["text"]))
        self._scaling = _SCALINGS[model["scaling"]["kind"]](model["scaling"], self._given_columns())
        self._weights, self._intercept = model["weights"], model["intercept"]
        self._ranks = _Ranks(model["ranks"]) if "ranks" in model else None
        self._likely = model["probability"]

    def scores(self, x: Any) -> dict[str, float]:
        """Return the score of every label.

        Parameters
        ----------
        x : dict, str or list
            A record or a text; for a model of numbered features a list of numbers, with None for missing ones, or
            ``{"indices": [...], "values": [...]}``.
        """
        known, unseen = self._features(x)
        totals = list(self._intercept)
        for column, value in self._scaling.scaled(known, unseen):
            for label, weight in enumerate(self._weights[column]):
                totals[label] += value * weight
        for rank, weights in [] if self._ranks is None else self._ranks.weighted(known):
            for label, weight in enumerate(weights):
                totals[label] += rank * weight
        return dict(zip(self.labels, totals, strict=True))

    def predict(self, x: Any) -> list[str]:
        """Return the labels of an example."""
        return [label for label, score in self.scores(x).items() if score > 0]

    def probabilities(self, x: Any) -> dict[str, float]:
        """Return the probability of each label; raises ValueError if the model has none."""
        if self._likely is None:
            raise ValueError("the model has no probabilities")
        curves = zip(self.scores(x).items(), self._likely["slope"], self._likely["offset"], strict=True)
        return {label: _sigmoid(self._bent(slope * score + offset)) for (label, score), slope, offset in curves}

    def _bent(self, logit: float) -> float:
        """Return log-odds that grow more slowly above the knot."""
        knot, bend = self._likely["knot"], self._likely["bend"]
        return float(min(logit, knot) + bend * max(logit - knot, 0.0))

    def _features(self, x: Any) -> tuple[dict[int, float], list[float]]:
        """Return the values of known features by column, and the values of unknown features that count in the norm."""
        known, unseen = {}, []
        for name, value in self._pairs(x):
            column = self._columns.get(name)
            if column is not None:
                known[column] = _float32(value)
            else:
                unseen.append(_float32(value))
        return dict(sorted(known.items())), unseen[: self._unseen]

    def _pairs(self, x: Any) -> Iterator[tuple[Any, float]]:
        if not self._is_numbered:
            features = self._records.encode(x)
            yield from features.items()
            yield from ((name, 1.0) for name in self._given_by(features) if name not in features)
        elif isinstance(x, Mapping):
            yield from zip(x["indices"], x["values"], strict=True)
        else:
            yield from ((index, value) for index, value in enumerate(x) if value is not None)

    def _given_columns(self) -> dict[int, int]:
        """Return the columns of optional numbers of an online model, with the columns of the features that mark them as
        present."""
        if self._numbers is None:
            return {}
        return {self._columns[name]: self._columns[given] for name, given in self._given.items()}

    def _given_by(self, features: Mapping[str, float]) -> Iterable[str]:
        """Return the features that mark the optional numbers of a record as present."""
        numbers = numbers_of(features)
        if self._numbers is None:
            return [self._given[name] for name in numbers if name in self._given]
        return self._numbers.after(numbers, len(numbers) < len(features)).given(numbers)


class _Ranks:
    """Ranks of values, and their weights; see Eq. (12c) of docs/mathematics.md."""

    def __init__(self, ranks: Mapping[str, Any]) -> None:
        curves = zip(ranks["values"], ranks["ranks"], ranks["weights"], strict=True)
        self._curves = dict(zip(ranks["features"], curves, strict=True))
        self._zero_is_missing = ranks["zero_is_missing"]

    def weighted(self, known: Mapping[int, float]) -> list[tuple[float, list[float]]]:
        """Return the ranks of an example with their weights."""
        found = []
        for column, value in known.items():
            if column in self._curves and not (self._zero_is_missing and value == 0.0):
                values, ranks, weights = self._curves[column]
                found.append((self._rank(value, values, ranks), weights))
        return found

    @staticmethod
    def _rank(value: float, values: Sequence[float], ranks: Sequence[float]) -> float:
        k = sum(each < value for each in values)
        if k in (0, len(values)):
            return ranks[min(k, len(values) - 1)]
        share = (value - values[k - 1]) / (values[k] - values[k - 1])
        return ranks[k - 1] + (ranks[k] - ranks[k - 1]) * share


class _AsItIs:
    """No scaling."""

    def __init__(self, _: Mapping[str, Any], pairs: Mapping[int, int]) -> None:
        pass

    def scaled(self, known: dict[int, float], unseen: list[float]) -> Sequence[tuple[int, float]]:
        return list(known.items())


class _UnitNorm(_AsItIs):
    """Scaling of each example by its Euclidean norm, including unknown features."""

    def scaled(self, known: dict[int, float], unseen: list[float]) -> Sequence[tuple[int, float]]:
        norm = math.hypot(*known.values(), *unseen)
        return [(column, _float32(value / norm)) for column, value in known.items()] if norm else []


class _Automatic(_AsItIs):
    """Scaling `auto`: quantities are standardised, other features divided by their typical size and weighted by rarity,
    and examples brought to unit norm."""

    def __init__(self, scaling: Mapping[str, Any], pairs: Mapping[int, int]) -> None:
        self._missing_is_zero = scaling["missing"] == "zero"
        self._count = scaling["count"]
        parts = (scaling[name] for name in ("values", "having", "since", "same", "mean", "squares", "run", "last"))
        self._moments = list(zip(*parts, strict=True))
        self._given = {number for number, given in pairs.items() if self._moments[given][0] > 0.0}
        self._dense = {column for column, own in enumerate(self._moments) if _Feature(*own).is_dense(self._count)}

    def scaled(self, known: dict[int, float], unseen: list[float]) -> Sequence[tuple[int, float]]:
        strangers = [self._scaled(given, _Feature(), False)[0] for given in unseen if given]
        found, n_quantities, n_others = [], 0, len(strangers)
        for column in sorted({*known, *self._dense}):
            feature = _Feature(*self._moments[column])
            feature.is_given = column in self._given
            value, is_quantity = self._scaled(known.get(column), feature, column in self._dense)
            n_quantities += is_quantity
            if value:
                found.append((column, value))
                n_others += not is_quantity
        if 0 < n_quantities <= FEW and n_others <= n_quantities:
            norm = math.sqrt(n_quantities)
        else:
            norm = math.hypot(*(value for _, value in found), *strangers)
        return [(column, _float32(value / norm)) for column, value in found] if norm else []

    def _scaled(self, given: float | None, feature: "_Feature", was_dense: bool) -> tuple[float, bool]:
        """Return the scaled value, 0 if missing, and whether it is a quantity."""
        n = self._count + 1
        has = given is not None and not (self._missing_is_zero and given == 0.0)
        value = given if has and given is not None else 0.0
        if not was_dense and value == 0.0:
            return 0.0, False
        if value:
            is_few = len(self._dense) <= FEW and (was_dense or self._is_optional(feature, n - 1))
            value = feature.include(value, FAR_OF_FEW if is_few else FAR)
        feature.having += has
        is_dense = feature.is_dense(n)
        if not (has or self._missing_is_zero):
            return 0.0, is_dense
        rarity = 1.0 if is_dense else math.sqrt(math.sqrt(math.sqrt((n + 1.0) / (feature.count + 1.0))))
        variance, square = feature.squares / max(feature.since, 1.0), feature.mean * feature.mean
        is_quantity = is_dense or (value != 0.0 and self._is_optional(feature, n))
        if is_quantity:
            share = feature.count / (n if self._missing_is_zero else feature.having)
            value -= share * feature.mean
            variance, square = variance * share, square * share * (1.0 - share)
        deviation = math.sqrt(variance + square)
        return (rarity * value / deviation if deviation > 0.0 else 0.0), is_quantity

    def _is_optional(self, feature: "_Feature", n: int) -> bool:
        return feature.is_optional(n if self._missing_is_zero else feature.having)


class _Feature:
    """Statistics of the nonzero values of a feature, see Eq. (12) of docs/mathematics.md."""

    def __init__(
        self,
        count: float = 0.0,
        having: float = 0.0,
        since: float = 0.0,
        same: float = 0.0,
        mean: float = 0.0,
        squares: float = 0.0,
        run: float = 0.0,
        last: float = 0.0,
    ) -> None:
        self.is_given = False
        self.count, self.having, self.since, self.same = count, having, since, same
        self.mean, self.squares, self.run, self.last = mean, squares, run, last

    def varies(self) -> bool:
        return self.squares > VARIES * self.since * self.mean * self.mean

    def is_dense(self, n: int) -> bool:
        """Return whether the feature is a quantity that most of n examples have."""
        return 2.0 * self.count > n and self.varies()

    def is_optional(self, n_known: float) -> bool:
        """Return whether the feature is a quantity even if few examples have it."""
        far = self.since * self.mean * self.mean > AWAY * AWAY * self.squares
        often = self.count >= EARLY and 2.0 * self.count > n_known
        return often and 3.0 * self.same < self.since and self.varies() and (far or self.is_given)

    def include(self, value: float, far: float) -> float:
        """Include a value other than 0, and return the value, clipped at `far` deviations from the mean."""
        varies = self.varies()
        spread = math.sqrt(self.squares / self.since if varies else VARIES * self.since)
        unit = spread if varies else 0.05 * spread * abs(self.mean)
        self.count += 1
        is_early, step, repeats = self.since < EARLY, abs(value - self.last), value == self.last
        is_far = not is_early and abs(value - self.mean) > LEAVES * unit
        is_near = varies and 0.0 < step < NEARBY * spread
        if (is_far and self.run + 1 >= FAR_IN_A_ROW) or (not is_far and is_near and self.run - 1 <= -NEAR_IN_A_ROW):
            self.since, self.same, self.mean, self.squares = 0.0, 0.0, 0.0, 0.0
        else:
            if not is_early:
                value = min(max(value, self.mean - far * unit), self.mean + far * unit)
            if is_far and self.run + 1 >= WAITS:
                return value
        self.since += 1
        self.same += repeats
        distance = value - self.mean
        self.mean += distance / self.since
        self.squares += distance * (value - self.mean)
        return value


_SCALINGS = {"none": _AsItIs, "unit": _UnitNorm, "auto": _Automatic}


def _float32(value: float) -> float:
    """Round a number to 32 bits, like the server."""
    number: float = struct.unpack("f", struct.pack("f", value))[0]
    return number


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value >= 0 else math.exp(value) / (1.0 + math.exp(value))
