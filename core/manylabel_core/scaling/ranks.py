"""Ranks of the values of features among those of the stream so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.part import Array, Part, Sizes
from manylabel_core.rows import MAX_MAGNITUDE, Rows
from manylabel_core.scaling._ranks import KNOTS, MAX_RANKED, MIN_VALUES, VALUE, WEIGHT, rank_rows
from manylabel_core.storage import MAX_COUNT


class RankCurves(NamedTuple):
    """The rank of a value of each ranked feature: a line through points, constant beyond the first and the last."""

    features: NDArray[np.int32]  # (n_ranked,): column of each ranked feature, in the order of the ranks
    values: list[NDArray[np.float64]]  # values at the points of each feature, ascending
    ranks: list[NDArray[np.float64]]  # rank at each point, divided by the root of the number of ranked features

    @classmethod
    def none(cls) -> RankCurves:
        """Return the curves of no feature."""
        return cls(np.zeros(0, np.int32), [], [])


def n_ranked_of(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Return the number of ranked features in a state; raise ValueError if it is invalid."""
    slots = arrays.get("ranks.slots", np.zeros(0))
    if slots.dtype != np.int64 or slots.ndim != 1:
        raise ValueError("state: ranks.slots must be a 1-D array of int64")
    n_ranked = int(slots.max(initial=0))
    if n_ranked > MAX_RANKED:
        raise ValueError(f"state: ranks.slots must be at most {MAX_RANKED}")
    return n_ranked


class Ranks(Part):
    """Rank of a value among the values of its feature so far: from -1 for the lowest to 1 for the highest, divided by
    the root of the number of ranked features.

    A rank depends neither on the unit of a feature nor on outliers. The values so far are summarised by 8 of them and
    their shares, Eq. (12c) of docs/mathematics.md. A feature is ranked after it has had seven different values. At most
    64 features are ranked: the first ones. Values of features beyond the first `max_features` have no rank.
    `zero_is_missing` is whether a 0 counts as a missing value, which has no rank.
    """

    prefix = "ranks."
    _sketches: NDArray[np.float64]
    _sizes_of: NDArray[np.int64]
    _slots: NDArray[np.int64]

    def __init__(self, max_features: int, zero_is_missing: bool) -> None:
        self._max_features, self._zero_is_missing = max_features, zero_is_missing
        values, weights = (-MAX_MAGNITUDE, MAX_MAGNITUDE), (0.0, MAX_COUNT)
        super().__init__(
            {
                "sketches": Array(("ranked", 2, KNOTS + 1), (values, weights)),
                "sizes_of": Array(("ranked",), ((0, KNOTS),), dtype="int64"),
                "slots": Array(("ranked",), ((0, MAX_RANKED),), dtype="int64"),
            }
        )

    def _sizes(self, n_features: int, n_labels: int, arrays: Mapping[str, NDArray[Any]] | None = None) -> Sizes:
        return {**super()._sizes(n_features, n_labels), "ranked": min(n_features, self._max_features)}

    @property
    def n_ranked(self) -> int:
        """Return the number of ranked features."""
        return int(self._slots.max(initial=0))

    def learn(self, rows: Rows) -> Rows:
        """Return the ranks of rows as `score` does, and add each row to the values so far.

        The columns of the ranks are in the order in which features became ranked.
        """
        return self._rank(rows, store=True)

    def score(self, rows: Rows) -> Rows:
        """Return the ranks of rows among the values so far."""
        return self._rank(rows, store=False)

    def _rank(self, rows: Rows, store: bool) -> Rows:
        sketches = self._sketches, self._sizes_of, self._slots
        return Rows(*rank_rows(*sketches, self._max_features, self._zero_is_missing, store, tuple(rows)))

    def curves(self) -> RankCurves:
        """Return the ranks as functions of values."""
        features = np.argsort(self._slots, kind="stable")[len(self._slots) - self.n_ranked :].astype(np.int32)
        values, ranks = [], []
        for feature in features:
            points, weights = self._sketches[feature][:, : self._sizes_of[feature]]
            values.append(points)
            ranks.append((2.0 * (np.cumsum(weights) - 0.5 * weights) / weights.sum() - 1.0) / np.sqrt(len(features)))
        return RankCurves(features, values, ranks)

    def _check(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        sketches, sizes, slots = (arrays[name] for name in ("sketches", "sizes_of", "slots"))
        used = np.arange(KNOTS + 1) < sizes[:, np.newaxis]
        values, weights = sketches[:, VALUE], sketches[:, WEIGHT]
        ascending = (np.diff(values) > 0.0) | ~used[:, 1:]
        if not ascending.all() or ((weights > 0.0) != used).any() or (values[~used] != 0.0).any():
            raise ValueError("state: ranks.sketches must have ascending values with positive weights, then zeros")
        ranked = np.sort(slots[slots > 0])
        if (ranked != np.arange(1, 1 + len(ranked))).any() or (sizes[slots > 0] < MIN_VALUES).any():
            raise ValueError("state: ranks.slots must number features with several values from 1 on, each number once")
