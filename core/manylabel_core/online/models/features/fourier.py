"""Random Fourier features: a kernel model of fixed size whose features never change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manylabel_core.online.models.features._fourier import draw_table, to_random_features
from manylabel_core.online.models.points import KernelSettings
from manylabel_core.rows import Rows
from manylabel_core.storage import enlarged

TURN = 6.283185307179586
"""2 pi; frequencies are stored in turns."""

MOST_RESTORED = 2**26
"""Maximum number of frequencies that `restore` draws; further ones are drawn by the first `learn`, because a state may
be rejected.
"""


class RandomFeatures:
    """Cosines and sines along `budget` / 2 random directions.

    The frequencies of a feature depend on the seed and its column alone, so they are drawn again instead of being
    stored in a state. Orthogonal frequencies are no better here: for examples of unit norm the kernel errors differed
    by less than 5 %.
    """

    n_points = 0
    grows = False

    def __init__(self, settings: KernelSettings, budget: int) -> None:
        self.n_columns, self._dtype, self._seed = budget, settings.dtype, settings.seed
        self._scale = float(np.sqrt(2.0 * settings.shape[1])) / TURN
        self._frequencies = np.zeros((0, budget // 2), dtype=settings.dtype)

    def enlarge(self, n_features: int) -> None:
        """Draw the frequencies for this number of features."""
        drawn = len(self._frequencies)
        if n_features > drawn:
            frequencies = enlarged(self._frequencies, (n_features, self.n_columns // 2))
            draw_table(self._seed, drawn, self._scale, frequencies)
            self._frequencies = frequencies

    def learn(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Return the features of rows, and store their frequencies."""
        self.enlarge(n_features)
        return self.score(rows, n_features)

    def score(self, rows: Rows, n_features: int) -> NDArray[Any]:
        """Return the features of rows; frequencies that are not stored are drawn again."""
        features = np.empty((len(rows.indptr) - 1, self.n_columns), dtype=self._dtype)
        to_random_features(self._seed, self._scale, self._frequencies, *rows, features)
        return features

    def columns_after(self, n_samples: int) -> int:
        """Return the number of features, which is constant."""
        return self.n_columns

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return an empty state."""
        return {}

    def nbytes_after(self, n_features: int, n_samples: int, n_values: int) -> int:
        """Return the bytes of the frequencies."""
        return self._frequencies.itemsize * n_features * (self.n_columns // 2)

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
        """Draw the frequencies again, unless there are too many."""
        if n_features * (self.n_columns // 2) <= MOST_RESTORED:
            self.enlarge(n_features)
