"""The interface between a pipeline and its model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.explanation import NotLinear, Scorer
from manylabel_core.online.updates._update import Update
from manylabel_core.part import Part
from manylabel_core.rows import Rows, Targets


class Model(Part):
    """Part that scores examples and learns them in order, from checked and scaled rows.

    Column 0 of the scores is the threshold, column 1 + l the label l; a label above the threshold is predicted. A model
    without a threshold scores it 0. A model is linear if every margin is a weighted sum of the features plus a
    constant; then it has a `scorer`. With `takes_vectors` and `takes_ranks`, `learn` and `score` take
    vectors and ranks in addition to the rows.
    """

    is_linear: bool = False
    takes_vectors: bool = False
    takes_ranks: bool = False

    def set_vectors(self, lengths: Sequence[int]) -> None:
        """Accept vector fields with the given lengths, if supported. Existing fields come first, with their lengths."""
        return

    def set_update(self, update: Update) -> None:
        """Set the update for the next examples, if the model has steps."""
        return

    @abstractmethod
    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        """Learn rows in order; write the scores of each row before it was learnt, 0 for labels that did not exist."""

    @abstractmethod
    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        """Write the scores of rows. They are identical bit for bit to the scores that `learn` would write if it were
        called with the row next."""

    def scorer(self, features: NDArray[np.int32], label: int) -> Scorer:
        """Return the weights of some features in the margin of a label (score minus threshold); raise NotLinear if the
        model has none.
        """
        raise NotLinear()

    def reset_step_sizes(self, label: int | None) -> None:
        """Reset the step sizes of a label, or of all (None), if they shrink."""
        return

    def nbytes_of_first_vectors(self, n_features: int, n_labels: int) -> int:
        """Return the maximum bytes that the layout for vectors adds to a model without vectors."""
        return 0

    @abstractmethod
    def size(self, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        """Return the numbers of features and labels of a state; raise ValueError if they are missing."""
