"""Answers to what the log says: every replica gives the same one to the same entry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from manylabel_service.hosting.examples import Prediction


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

    def predictions(self, label_names: Sequence[str]) -> "Predictions | None":
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


class Predictions(Sequence[Prediction]):
    """Predictions made from raw scores when they are asked for: a long batch need not be made at once."""

    def __init__(
        self,
        scores: Sequence[NDArray[np.float64]],
        label_names: Sequence[str],
        probabilities: Sequence[NDArray[np.float64]] | None = None,
    ) -> None:
        self._scores = scores
        self._label_names = label_names
        self._probabilities = probabilities

    def __len__(self) -> int:
        return len(self._scores)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> "Predictions": ...
    def __getitem__(self, index: int | slice) -> "Prediction | Predictions":
        likely = self._probabilities
        if isinstance(index, slice):
            return Predictions(self._scores[index], self._label_names, None if likely is None else likely[index])
        return prediction(self._scores[index], self._label_names, None if likely is None else likely[index])


def prediction(
    row: NDArray[np.float64], label_names: Sequence[str], probabilities: NDArray[np.float64] | None = None
) -> Prediction:
    """The prediction from raw scores: the threshold, then one for each of the first labels, as probabilities have."""
    decisions = (row[1:] - row[0]).tolist()
    scores = dict(zip(label_names, decisions, strict=False))
    relevant = [name for name, score in scores.items() if score > 0]
    likely = None if probabilities is None else dict(zip(label_names, probabilities.tolist(), strict=False))
    return Prediction(relevant, scores, float(row[0]), likely)


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


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a request to predict is told.

    `position` is that of the state which saw the last example; `stale_seconds` says, while the store is
    away, for how long others may have learnt what this state does not know.
    """

    predictions: Sequence[Prediction]
    position: str
    stale_seconds: float | None = None
