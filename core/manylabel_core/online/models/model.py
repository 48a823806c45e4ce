"""The interface between a pipeline and its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manylabel_core.explanation import NotLinear, Scorer
from manylabel_core.online.updates._update import Update
from manylabel_core.rows import Rows, Targets


class Model(Protocol):
    """Model that scores examples and learns them in order.

    It sees checked and scaled rows. Column 0 of its scores is the threshold, column 1 + l the label l; a label above
    the threshold is predicted. A model without a threshold scores it 0.

    Attributes
    ----------
    is_linear : bool
        Whether every margin is a weighted sum of the features, plus a constant: then there is a `scorer`.
    takes_vectors : bool
        Whether `learn` and `score` take vectors beside the rows, of fields given to `set_vectors`.
    """

    is_linear: bool = False
    takes_vectors: bool = False

    def enlarge(self, n_features: int, n_labels: int, touch: bool = False) -> None:
        """Allocate memory for at least these numbers of features and labels, without other changes.

        With `touch`, the system must give large memory now, and not when it is first written to.
        """

    def set_vectors(self, lengths: Sequence[int]) -> None:
        """Accept vector fields of these lengths, the first of which may exist, if supported."""
        return

    def set_update(self, update: Update) -> None:
        """Set the update for the next examples, if the model has steps."""
        return

    def learn(self, rows: Rows, targets: Targets, scores: NDArray[np.float64]) -> None:
        """Learn rows in order; write the scores of each before it was learnt, 0 for labels that did not exist."""

    def score(self, rows: Rows, scores: NDArray[np.float64]) -> None:
        """Write the scores of rows: the same bits that `learn` would for that example next."""

    def scorer(self, features: NDArray[np.int32], label: int) -> Scorer:
        """Return the weights of some features in the margin of a label, its score less the threshold's.

        Raises
        ------
        NotLinear
            If the model has no such weights.
        """
        raise NotLinear()

    def forget(self, label: int) -> None:
        """Reset a label to the state of a new one."""

    def reset_step_sizes(self, label: int | None) -> None:
        """Reset the step sizes of a label, or of all (None), if they shrink."""
        return

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the state of these numbers of features and labels; views where possible."""

    def nbytes_after(self, n_features: int, n_labels: int, n_samples: int, n_values: int) -> int:
        """Return the maximum bytes of the state with these columns, after this many further examples and values."""

    def nbytes_of_first_vectors(self, n_features: int, n_labels: int) -> int:
        """Return the maximum bytes that the layout for vectors adds to a model that has none yet."""
        return 0

    def restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[int, int]:
        """Restore a state into an empty model; return the numbers of features and labels.

        The arrays are owned, and of the types and dimensions that `arrays` gives. Whatever a compiled function relies
        on is checked: a ValueError says what does not fit.
        """
