"""Outcomes of log entries, which are the same on every replica."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_service.errors import ServiceError
from manylabel_service.hosting.predictions import Prediction, Predictions


class UpdateOutcome(NamedTuple):
    """Outcome of an update or a rollback.

    Attributes
    ----------
    scores : the raw scores of each example before it was learnt, the threshold first and then one for each
        label known then (float64); None when no predictions were requested.
    probabilities : one for each label known then (float64); None if not requested.
    decisions : where precision is promised, of each example 1 if it needs review, else 0, and then the columns of the
        labels that may be applied unseen (int32).
    skipped : how many of the first examples had been learnt before, as the same lines of their stream; they
        have no scores.
    rolled_back_to : the position of the snapshot that a rollback went back to.
    """

    position: str
    updates: int
    durability: str
    scores: tuple[NDArray[np.float64], ...] | None
    skipped: int = 0
    rolled_back_to: str | None = None
    probabilities: tuple[NDArray[np.float64], ...] | None = None
    decisions: tuple[NDArray[np.int32], ...] | None = None

    def predictions(self, label_names: Sequence[str], hidden: Collection[str] = ()) -> Predictions | None:
        """Return the predictions by the names of labels in column order, without the hidden ones."""
        if self.scores is None:
            return None
        return Predictions(self.scores, label_names, self.probabilities, hidden, self.decisions)

    @property
    def nbytes(self) -> int:
        """The bytes of the scores, of the probabilities and of the decisions."""
        rows: list[NDArray[Any]] = [*(self.scores or ()), *(self.probabilities or ()), *(self.decisions or ())]
        return sum(row.nbytes for row in rows)


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """Result of an update or a rollback.

    `replayed` when nothing was done now: an earlier one with its key was, or all its lines had been learnt.
    `predictions` are those of the examples after the first `skipped`: see `UpdateOutcome`. `alarms` are the labels
    whose drift detectors fired now, None for the detector of all labels. `refused` has the errors of the examples that
    were omitted, by their index, if examples were to be refused one by one.
    """

    position: str
    updates: int
    durability: str
    predictions: Sequence[Prediction] | None
    replayed: bool
    skipped: int = 0
    rolled_back_to: str | None = None
    alarms: tuple[str | None, ...] = ()
    refused: Mapping[int, ServiceError] = field(default_factory=dict)
