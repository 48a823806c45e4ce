"""Stored predictions to label next: those whose labels would teach the model most, or that need review."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.promise import Decision
from manylabel_service.hosting.examples import Features
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.online.prediction_store import StoredPrediction
from manylabel_service.online.replica import Replica
from manylabel_service.slices import in_slices

ALIKE = 0.9
"""Minimum cosine similarity of two near-duplicates."""

ALIKE_AMONG = 20
"""Number of candidates checked for near-duplicates, as a multiple of the limit."""

UnitRow = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Columns and values of an example scaled to unit norm."""


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Stored prediction without labels.

    `record` is the example as posted, in JSON, if stored. `auto` and `review` are the served values, if precision was
    promised.
    """

    id: str
    uncertainty: float
    record: bytes | None
    auto: list[str] | None = None
    review: bool | None = None


@dataclass(frozen=True, slots=True)
class RankedPredictions:
    """Stored predictions to label next, selected from `candidates` by their uncertainty in the state at a position.

    `current` has the current predictions of the model for them.
    """

    predictions: Sequence[Unlabelled]
    current: Sequence[Prediction]
    candidates: int
    position: str
    updates: int


async def label_next(replica: Replica, limit: int, order: str) -> RankedPredictions:
    """Return stored predictions without labels. Raises NotReady, StorageUnavailable or ModelGone.

    Parameters
    ----------
    replica : the model.
    limit : maximum number returned.
    order : "newest": newest first; "uncertainty": most uncertain first, near-duplicates last; "review": only
        predictions that need review according to the served decision, most uncertain first. At most the newest
        `max_ranked_predictions` are compared.
    """
    replica.check_serving()
    store, by_uncertainty = replica.prediction_store, order != "newest"
    most = store.max_ranked if by_uncertainty else limit
    ranked: list[tuple[float, str]] = []
    async for page in store.newest(partial(_waits_for_labels, replica), most):
        if order == "review":
            page = [(id, one) for id, one in page if _needs_review(one)]
        uncertain = await replica.uncertainties([kept.x for _, kept in page])
        ranked += [(-one, id) for one, (id, _) in zip(uncertain, page, strict=True) if not math.isnan(one)]
    if by_uncertainty:
        ranked.sort()
    chosen = await store.find([id for _, id in ranked[: ALIKE_AMONG * limit]])
    if order == "uncertainty":
        chosen = await _without_repeats(chosen, limit)
    return await _described(replica, chosen[:limit], {id: -one for one, id in ranked})


async def needing_review(replica: Replica, since_ms: int, until_ms: int, least: float) -> list[tuple[float, str]]:
    """Return unlabelled stored predictions that need review, with their ids, most uncertain first.

    If the model promises a precision, the served decision says which ones need review, as in the order "review" of
    `label_next`. At most the newest `max_ranked_predictions` of the period are compared. Raises NotReady,
    StorageUnavailable or ModelGone.

    Parameters
    ----------
    replica : the model.
    since_ms, until_ms : bounds of the prediction times in milliseconds of Unix time; the first is exclusive.
    least : minimum uncertainty, 0 to 1, of a prediction that needs review, if the model promises no precision.
    """
    replica.check_serving()
    store, found = replica.prediction_store, list[tuple[float, str]]()
    most, promised = store.max_ranked, replica.model.promises.promise is not None
    async for page in store.newest(partial(_waits_for_labels, replica), most, since_ms, until_ms):
        if promised:
            page = [(id, one) for id, one in page if _needs_review(one)]
        ranked = await replica.uncertainties([kept.x for _, kept in page])
        found += [(one, id) for one, (id, _) in zip(ranked, page, strict=True) if one >= (0 if promised else least)]
    return sorted(found, reverse=True)


def _waits_for_labels(replica: Replica, id: str) -> bool:
    labelled = replica.model.labelled
    return id > labelled.floor and id not in labelled


async def _described(
    replica: Replica, chosen: Sequence[tuple[str, StoredPrediction]], uncertain: Mapping[str, float]
) -> RankedPredictions:
    predicted = await replica.predict([kept.x for _, kept in chosen], probabilities=replica.has_probabilities)
    names, hidden = replica.model.labels.names, replica.model.hidden
    described = [
        Unlabelled(id, uncertain[id], kept.record, *_served(kept.decision, names, hidden)) for id, kept in chosen
    ]
    current, position = predicted.predictions, predicted.position
    return RankedPredictions(described, current, len(uncertain), position, replica.model.updates)


def _needs_review(kept: StoredPrediction) -> bool:
    return kept.decision is None or kept.decision.review


def _served(
    decision: Decision | None, names: Sequence[str], hidden: Collection[str]
) -> tuple[list[str] | None, bool | None]:
    """Return the labels of a decision that may be applied unseen, and whether it needs review."""
    if decision is None:
        return None, None
    applied = (names[column] for column in decision.applied if column < len(names))
    return [name for name in applied if name not in hidden], decision.review


async def _without_repeats(
    ranked: Sequence[tuple[str, StoredPrediction]], limit: int
) -> list[tuple[str, StoredPrediction]]:
    """Return the first examples, near-duplicates of earlier ones last."""
    columns_of: dict[Any, int] = {}
    rows: list[UnitRow] = []
    chosen: list[tuple[str, StoredPrediction]] = []
    async for _, kept in in_slices(ranked):
        rows.append(unit_row(kept.x, columns_of))
    async for place in in_slices(spread(rows)):
        chosen.append(ranked[place])
        if len(chosen) == limit:
            break
    return chosen


def unit_row(x: Features, columns_of: dict[Any, int]) -> UnitRow:
    """Return columns and values of an example, scaled to unit norm, for `spread`.

    Parameters
    ----------
    columns_of : columns of the features of earlier rows, by name or index, to which new ones are added.
    """
    names: Sequence[Any] = range(len(x.values)) if x.names is None else x.names
    if x.indices is not None:
        names = x.indices.tolist()
    values = np.nan_to_num(x.values.astype(np.float64))
    for name, vector in (x.vectors or {}).items():
        names = [*names, *((name, place) for place in range(len(vector)))]
        own = vector.astype(np.float64)
        length = float(np.sqrt(own @ own))
        values = np.concatenate([values, own / length if length else own])
    if not values.any():  # all examples without features are alike
        names, values = [None], np.ones(1)
    columns = np.array([columns_of.setdefault(name, len(columns_of)) for name in names], dtype=np.int64)
    return columns, values / np.sqrt(values @ values)


def spread(rows: Sequence[UnitRow]) -> Iterator[int]:
    """Yield the indices of examples in order, except that near-duplicates of earlier examples come last."""
    if not rows:
        return
    late: list[int] = []
    waiting = np.ones(len(rows), dtype=bool)
    scratch = np.zeros(max(int(columns.max()) + 1 for columns, _ in rows))
    row_of = np.repeat(np.arange(len(rows)), [len(columns) for columns, _ in rows])
    columns = np.concatenate([columns for columns, _ in rows])
    values = np.concatenate([values for _, values in rows])
    for place, (its_columns, its_values) in enumerate(rows):
        if not waiting[place]:
            late.append(place)
            continue
        yield place
        scratch[its_columns] = its_values
        cosines = np.bincount(row_of, scratch[columns] * values, minlength=len(rows))
        scratch[its_columns] = 0.0
        waiting &= cosines < ALIKE
    yield from late
