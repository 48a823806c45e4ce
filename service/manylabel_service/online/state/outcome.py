"""Outcomes of log entries, which are the same on every replica."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_service.errors import ServiceError
from manylabel_service.hosting.predictions import Prediction, Predictions


class UpdateOutcome(NamedTuple):
    """Outcome of an update or a rollback.

    Attributes
    ----------
    scores : float64, raw scores of each example before it was learnt: the threshold, then one score per known label;
        None if no predictions were requested.
    probabilities : float64, one per known label; None if not requested.
    decisions : int32, per example: 1 if it needs review, else 0, then the columns of the labels that may be applied
        unseen; only if precision is promised.
    skipped : number of leading examples that were learnt earlier, as the same lines of the stream; they have no scores.
    rolled_back_to : target position of a rollback.
    """

    position: str
    updates: int
    scores: tuple[NDArray[np.float64], ...] | None
    skipped: int = 0
    rolled_back_to: str | None = None
    probabilities: tuple[NDArray[np.float64], ...] | None = None
    decisions: tuple[NDArray[np.int32], ...] | None = None

    def predictions(self, label_names: Sequence[str], hidden: Collection[str] = ()) -> Predictions | None:
        """Return the predictions for these label names in column order, without hidden labels."""
        if self.scores is None:
            return None
        return Predictions(self.scores, label_names, self.probabilities, hidden, self.decisions)

    @property
    def nbytes(self) -> int:
        """Size of the scores, probabilities and decisions in bytes."""
        rows: list[NDArray[Any]] = [*(self.scores or ()), *(self.probabilities or ()), *(self.decisions or ())]
        return sum(row.nbytes for row in rows)


class UpdateResult(NamedTuple):
    """Result of an update or a rollback.

    `replayed` means that nothing was done, because an earlier request had the same key, or all lines had been learnt.
    `predictions` are for the examples after the first `skipped` (see `UpdateOutcome`). `alarms` are the labels whose
    drift detectors fired, None for the detector of all labels. `refused` has the errors of rejected examples by index,
    if examples are rejected separately.
    """

    position: str
    updates: int
    predictions: Sequence[Prediction] | None
    replayed: bool
    skipped: int = 0
    rolled_back_to: str | None = None
    alarms: tuple[str | None, ...] = ()
    refused: Mapping[int, ServiceError] = MappingProxyType({})
