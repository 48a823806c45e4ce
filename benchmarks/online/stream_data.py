"""Streams of the benchmarks: river's yeast, and a seeded sparse stream."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp


class Stream(NamedTuple):
    """Examples in order: features and label indicators."""

    name: str
    X: sp.csr_array
    Y: sp.csr_array


def yeast() -> Stream:
    """Return river's `datasets.Yeast()`: 2,417 dense examples, 103 features, 14 labels."""
    from river import datasets

    stream = list(datasets.Yeast())
    X = np.array([list(x.values()) for x, _ in stream], dtype=np.float32)
    Y = np.array([list(y.values()) for _, y in stream], dtype=np.int8)
    return Stream("yeast: dense, 103 features, 14 labels", sp.csr_array(X), sp.csr_array(Y))


def sparse(n: int, n_features: int = 47_236, n_labels: int = 101, n_values: int = 70, seed: int = 0) -> Stream:
    """Return rows of text-like data: `n_values` features of unit norm, some of them typical of the row's one to five
    labels.

    Background features have the frequencies of words; those typical of a label are drawn from 150 features of the
    label.
    """
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, n_features + 1)
    background = np.cumsum(frequency / frequency.sum())
    words = rng.permutation(n_features).astype(np.int32)
    typical = rng.integers(0, n_features, size=(n_labels, 150), dtype=np.int32)
    indices, labels = np.empty((n, n_values), dtype=np.int32), []
    for i in range(n):
        labels.append(np.sort(rng.choice(n_labels, size=rng.integers(1, 6), replace=False)))
        own = rng.choice(typical[labels[-1]].ravel(), size=n_values // 3, replace=False)
        others = words[np.searchsorted(background, rng.random(10 * n_values)).clip(max=n_features - 1)]
        kept, first = np.unique(np.concatenate([own, others]), return_index=True)
        indices[i] = np.sort(kept[np.argsort(first)[:n_values]])
    values = rng.gamma(1.0, size=(n, n_values)) + 0.1
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    ends = np.cumsum([0, *(len(row) for row in labels)])
    return Stream(
        f"sparse: {n_features:,} features, {n_values} of them in an example, {n_labels} labels",
        sp.csr_array(
            (values.astype(np.float32).ravel(), indices.ravel(), np.arange(n + 1) * n_values), shape=(n, n_features)
        ),
        sp.csr_array((np.ones(ends[-1], np.int8), np.concatenate(labels), ends), shape=(n, n_labels)),
    )
