"""Predictor of an exported linear model: pure Python, copied unchanged into the files of `as_python`."""

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manylabel_core.records.encoder import RecordEncoder
from manylabel_core.records.text import TextSettings

EARLY, FEW = 10.0, 10
FAR, FAR_OF_FEW = 10.0, 5.0
VARIES = 1e-6


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
        self._is_numbered = model["features"]["numbered"]
        self._records = RecordEncoder(None if model["text"] is None else TextSettings.from_json(model["text"]))
        self._scaling = _SCALINGS[model["scaling"]["kind"]](model["scaling"])
        self._weights, self._intercept = model["weights"], model["intercept"]
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
        """Return log-odds with those above the knot bent."""
        knot, bend = self._likely["knot"], self._likely["bend"]
        return float(min(logit, knot) + bend * max(logit - knot, 0.0))

    def _features(self, x: Any) -> tuple[dict[int, float], list[float]]:
        """Return the values of known features by column, and of unknown features that count in the norm."""
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
            yield from self._records.encode(x).items()
        elif isinstance(x, Mapping):
            yield from zip(x["indices"], x["values"], strict=True)
        else:
            yield from ((index, value) for index, value in enumerate(x) if value is not None)


class _AsItIs:
    """No scaling."""

    def __init__(self, _: Mapping[str, Any]) -> None:
        pass

    def scaled(self, known: dict[int, float], unseen: list[float]) -> Sequence[tuple[int, float]]:
        return list(known.items())


class _UnitNorm(_AsItIs):
    """Scaling of each example by its Euclidean norm, including unknown features."""

    def scaled(self, known: dict[int, float], unseen: list[float]) -> Sequence[tuple[int, float]]:
        norm = math.hypot(*known.values(), *unseen)
        return [(column, _float32(value / norm)) for column, value in known.items()] if norm else []


class _Automatic(_AsItIs):
    """Scaling `auto`: frequent quantities are standardised, other features divided by their typical size and weighted
    by rarity, and examples brought to unit norm."""

    def __init__(self, scaling: Mapping[str, Any]) -> None:
        self._missing_is_zero = scaling["missing"] == "zero"
        self._count = scaling["count"]
        parts = (scaling[name] for name in ("values", "mean", "squares", "having"))
        self._moments = list(zip(*parts, strict=True))
        places = enumerate(self._moments)
        self._dense = {column for column, moments in places if self._is_dense(moments[:3], self._count)}

    def scaled(self, known: dict[int, float], unseen: list[float]) -> Sequence[tuple[int, float]]:
        strangers = [self._scaled(given, (0.0, 0.0, 0.0, 0.0), False)[0] for given in unseen if given]
        found, n_quantities, n_others = [], 0, len(strangers)
        for column in sorted({*known, *self._dense}):
            value, is_quantity = self._scaled(known.get(column), self._moments[column], column in self._dense)
            n_quantities += is_quantity
            if value:
                found.append((column, value))
                n_others += not is_quantity
        if 0 < n_quantities <= FEW and n_others <= n_quantities:
            norm = math.sqrt(n_quantities)
        else:
            norm = math.hypot(*(value for _, value in found), *strangers)
        return [(column, _float32(value / norm)) for column, value in found] if norm else []

    def _scaled(
        self, given: float | None, moments: tuple[float, float, float, float], was_dense: bool
    ) -> tuple[float, bool]:
        """Return the scaled value, 0 if missing, and whether most examples have the quantity."""
        n = self._count + 1
        n_values, mean, squares, n_having = moments
        has = given is not None and not (self._missing_is_zero and given == 0.0)
        value = given if has and given is not None else 0.0
        if not was_dense and value == 0.0:
            return 0.0, False
        if has:
            value = self._within_reach(value, (n_values, mean, squares), was_dense)
            n_values, mean, squares = _include(n_values, mean, squares, value)
            n_having += 1.0
        is_dense = self._is_dense((n_values, mean, squares), n)
        if not (has or self._missing_is_zero):
            return 0.0, is_dense
        if is_dense:
            known = float(n) if self._missing_is_zero else n_having
            share = n_values / known
            shift, rarity = share * mean, 1.0
            deviation = math.sqrt(squares / known + mean * mean * share * (1.0 - share))
        else:
            shift, deviation = 0.0, math.sqrt(squares / max(n_values, 1.0) + mean * mean)
            rarity = math.sqrt(math.sqrt(math.sqrt((n + 1.0) / (n_values + 1.0))))
        return (rarity * (value - shift) / deviation if deviation > 0.0 else 0.0), is_dense

    def _within_reach(self, value: float, moments: tuple[float, float, float], was_dense: bool) -> float:
        n_values, mean, squares = moments
        if value == 0.0 or n_values < EARLY:
            return value
        far = FAR_OF_FEW if was_dense and len(self._dense) <= FEW else FAR
        varies = squares > VARIES * n_values * mean * mean
        reach = far * math.sqrt(squares / n_values) if varies else 0.5 * math.sqrt(VARIES * n_values) * abs(mean)
        return min(max(value, mean - reach), mean + reach)

    @staticmethod
    def _is_dense(moments: tuple[float, float, float], n: int) -> bool:
        n_values, mean, squares = moments
        return 2.0 * n_values > n and squares > VARIES * n_values * mean * mean


_SCALINGS = {"none": _AsItIs, "unit": _UnitNorm, "auto": _Automatic}


def _include(n_values: float, mean: float, squares: float, value: float) -> tuple[float, float, float]:
    """Return the moments of a feature's non-zero values, including this one."""
    if value == 0.0:
        return n_values, mean, squares
    distance = value - mean
    mean += distance / (n_values + 1)
    return n_values + 1, mean, squares + distance * (value - mean)


def _float32(value: float) -> float:
    """Round a number to 32 bits, like the server."""
    number: float = struct.unpack("f", struct.pack("f", value))[0]
    return number


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value >= 0 else math.exp(value) / (1.0 + math.exp(value))
