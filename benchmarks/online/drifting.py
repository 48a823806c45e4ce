"""Seeded stream of any length whose examples and labels change, generated in blocks."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


class Drifting:
    """Ten quantities, six labels, each relevant on one side of a saddle.

    Example x is a normal vector around a centre that rotates once in 400,000 examples, so the input distribution
    changes. Label l is relevant where (u_l.x) (v_l.x) > 0.5, which is not linear. The directions u_l and v_l rotate
    once in 300,000 examples or more slowly, in separate planes, so the concept changes too; one label in fifty is
    wrong.
    """

    n_features, n_labels = 10, 6

    def __init__(self, seed: int) -> None:
        self._seed = seed
        rng = np.random.default_rng([seed, 0])
        shape = self.n_labels, 2, 2, self.n_features
        planes = np.linalg.qr(rng.normal(size=shape).swapaxes(-1, -2))[0].swapaxes(-1, -2)
        self._planes = planes  # label, direction, axis of its plane, feature
        self._turns = rng.choice([-1, 1], size=(self.n_labels, 2)) / rng.uniform(3e5, 6e5, size=(self.n_labels, 2))

    def blocks(self, n_rows: int, size: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int8]]]:
        """Yield examples and labels of the first `n_rows` rows, which do not depend on `n_rows`."""
        for number, first in enumerate(range(0, n_rows, size)):
            rng = np.random.default_rng([self._seed, 1 + number])
            n = min(size, n_rows - first)
            t = first + np.arange(size)
            X = rng.normal(size=(size, self.n_features))
            X[:, 0] += 1.5 * np.cos(2 * np.pi * t / 4e5)
            X[:, 1] += 1.5 * np.sin(2 * np.pi * t / 4e5)
            angles = 2 * np.pi * t[:, None, None] * self._turns
            along = np.einsum("lkaf,nf->nlka", self._planes, X)
            products = (np.cos(angles) * along[..., 0] + np.sin(angles) * along[..., 1]).prod(axis=2)
            Y = (products > 0.5) ^ (rng.random(products.shape) < 0.02)
            yield X[:n].astype(np.float32), Y[:n].astype(np.int8)
