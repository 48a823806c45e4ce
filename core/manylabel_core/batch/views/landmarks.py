"""Maps of views to features whose inner products approximate an RBF kernel, by landmarks (Nystroem's method).

C. Williams, M. Seeger: Using the Nystroem method to speed up kernel machines, NIPS (2000). scikit-learn's `Nystroem`
needs gamma before it draws landmarks; here the landmarks determine gamma. It also divides by eigenvalues down to 1e-12,
which amplifies rounding errors where landmarks nearly coincide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.batch.views.block import Matrix, without_rows
from manylabel_core.mercer import Kernel, gram, squared_distances

LEAST = 1e-8
"""Directions whose eigenvalue is below this share of the largest one are rounding errors."""


class LandmarkMap(NamedTuple):
    """Nyström feature map `k(x, landmarks) root` of the kernel `exp(-gamma |u - v|^2)`."""

    landmarks: Any  # (n_landmarks, n_features)
    gamma: float
    root: Matrix  # (n_landmarks, n_landmarks): inverse root of the landmarks' Gram matrix

    def __call__(self, X: Any, present: NDArray[np.bool_]) -> Matrix:
        """Return the images of rows, shape (n_samples, n_landmarks); 0 for rows that lack the view."""
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.nan_to_num(self.kernel(X, self.landmarks), nan=0.0)  # its square overflows
        images: Matrix = without_rows(near @ self.root, ~present)
        return images

    @property
    def kernel(self) -> Kernel:
        return Kernel("rbf", self.gamma)


def landmark_map(name: str, X: Any, present: NDArray[np.bool_], n: int, random: np.random.RandomState) -> LandmarkMap:
    """Draw landmarks from the rows that have the view; w is the median of their distances, gamma 1 / (2 w^2)."""
    rows = np.flatnonzero(present)
    landmarks = X[np.sort(random.choice(rows, min(n, len(rows)), replace=False))]
    with np.errstate(over="ignore", invalid="ignore"):
        squares = squared_distances(landmarks, landmarks)
    if not np.isfinite(squares).all():
        raise ValueError(f"X[{name!r}] has values that are too large: their squares overflow")
    apart = squares[np.triu_indices(len(squares), 1)]
    width = float(np.median(apart)) if apart.any() else 1.0
    gamma = 0.5 / (width or float(apart[apart > 0].min()))
    values, vectors = np.linalg.eigh(gram(Kernel("rbf", gamma), landmarks))
    kept = values > LEAST * values[-1]
    inverse = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return LandmarkMap(landmarks, gamma, np.ascontiguousarray(vectors * inverse))
