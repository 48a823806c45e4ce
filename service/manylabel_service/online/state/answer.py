"""Answers to log entries: every replica gives the same answer to the same entry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_service.hosting.predictions import Prediction, Predictions


class Answer(NamedTuple):
    """What an update, or a rollback, was answered.

    Attributes
    ----------
    scores : the raw scores of each example before it was learnt, the threshold first and then one for each
        label known then (float64); None when no predictions were asked for.
    probabilities : likewise one for each label known then (float64); None when they were not asked for.
    skipped : how many of the first examples had been learnt before, as the same lines of their stream; they
        have no scores.
    rolled_back_to : the position of the snapshot that a rollback went back to.
    label_names : in column order, once the model has given the columns anew; None while they are its own.
    """

    position: str
    updates: int
    durability: str
    scores: tuple[NDArray[np.float64], ...] | None
    skipped: int = 0
    rolled_back_to: str | None = None
    label_names: tuple[str, ...] | None = None
    probabilities: tuple[NDArray[np.float64], ...] | None = None

    def predictions(self, label_names: Sequence[str]) -> Predictions | None:
        """The predictions, given the names of the model's labels in column order."""
        if self.scores is None:
            return None
        names = label_names if self.label_names is None else self.label_names
        return Predictions(self.scores, names, self.probabilities)

    def keeping(self, label_names: tuple[str, ...], n_lasting: int) -> "Answer":
        """The same answer for a time when only the first `n_lasting` of the model's labels have these names."""
        widest = max((len(row) for row in self.scores or ()), default=0)
        lasts = self.label_names is not None or widest <= 1 + n_lasting
        return self if lasts else self._replace(label_names=label_names)

    @property
    def nbytes(self) -> int:
        """Bytes of the scores and of the probabilities."""
        return sum(row.nbytes for row in (*(self.scores or ()), *(self.probabilities or ())))


@dataclass(frozen=True, slots=True)
class Updated:
    """What a request to update, or to roll back, is told.

    `replayed` when nothing was done now: an earlier one with its key was, or all its lines had been learnt.
    `predictions` are those of the examples after the first `skipped`: see `Answer`. `alarms` are the labels whose
    detectors of drift sounded now, None for the one of all labels.
    """

    position: str
    updates: int
    durability: str
    predictions: Sequence[Prediction] | None
    replayed: bool
    skipped: int = 0
    rolled_back_to: str | None = None
    alarms: tuple[str | None, ...] = ()
