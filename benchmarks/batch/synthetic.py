"""Seeded data with the sizes and about the statistics of the sets on which the batch trainers are measured."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

CHUNK = 50_000
"""Number of documents generated at a time."""
ROOTS, INNER = 4, 20
"""Numbers of labels of the first and second level of the topic tree."""


class Labelled(NamedTuple):
    """X, an ndarray or CSR matrix, and Y with -1 and +1 as int8."""

    X: Any
    Y: NDArray[np.int8]


def attributes(n: int, n_features: int, n_labels: int, seed: int = 0) -> Labelled:
    """Return dense noisy points of 50 classes; labels are attributes of the classes, one in twenty of them wrong.

    As in Animals with Attributes (24,292 x 252, 85 attributes), most points are support vectors of most labels.
    """
    rng = np.random.default_rng(seed)
    of_class = rng.random((50, n_labels)) < rng.uniform(0.1, 0.6, n_labels)
    classes = rng.integers(50, size=n)
    X = rng.normal(size=(50, n_features))[classes] + 4.0 * rng.normal(size=(n, n_features))
    Y = of_class[classes] ^ (rng.random((n, n_labels)) < 0.05)
    return Labelled(X.astype(np.float32), _signs(Y))


def documents(n: int, n_features: int, n_labels: int, seed: int = 0, binary: bool = False) -> Labelled:
    """Return bags of words, L2-normalised, with one or two topics from a tree, whose ancestors are labels too.

    Words and topics have long-tailed frequencies. About 76 words a document, 3.3 labels; of RCV1 (781,265 x 47,236,
    103 topics), 76 and 3.2. Without `binary`, values are (1 + log tf) log(n / df).
    """
    rng = np.random.default_rng(seed)
    parent = _tree(n_labels, rng)
    words = _Words(n_features, n_labels, rng)
    popularity = rng.permutation(1.0 / np.arange(1, n_labels + 1) ** 0.9)
    parts = [
        _chunk(min(CHUNK, n - first), parent, words, popularity / popularity.sum(), rng) for first in range(0, n, CHUNK)
    ]
    X = sp.vstack([part.X for part in parts], format="csr")
    X.data = np.ones_like(X.data) if binary else (1.0 + np.log(X.data)) * _idf(X)[X.indices]
    lengths = np.sqrt(np.maximum(X.multiply(X).sum(axis=1), 1e-9)).A1.astype(np.float32)
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    X.sort_indices()
    return Labelled(X, np.concatenate([part.Y for part in parts]))


def covariance(n_labels: int, seed: int = 0) -> NDArray[np.float64]:
    """Return a dense prior R: the slightly shrunk correlation of random label vectors."""
    signs = np.where(np.random.default_rng(seed).random((n_labels, 2 * n_labels)) < 0.35, 1.0, -1.0)
    return np.asarray(0.9 * np.corrcoef(signs) + 0.1 * np.eye(n_labels))


class _Words:
    """Word frequencies of all documents and of each topic."""

    def __init__(self, n_features: int, n_labels: int, rng: np.random.Generator) -> None:
        self._order = rng.permutation(n_features)
        self._common = np.cumsum(1.0 / np.arange(1, n_features + 1) ** 1.05)
        own = min(400, n_features // 4)
        self._own = np.cumsum(1.0 / np.arange(1, own + 1) ** 0.8)
        first = min(30, n_features // 8)
        ranks = (rng.pareto(0.7, (n_labels, own)) * min(200, n_features // 8)).astype(np.int64) + first
        self._of_topic = self._order[np.minimum(ranks, n_features - 1)]
        self.n_features = n_features

    def draw(self, topics: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw a word for each topic; more than half of them are background words."""
        topical = rng.random(len(topics)) < 0.45
        words = self._order[self._ranks(self._common, len(topics), rng)]
        ranks = self._ranks(self._own, int(topical.sum()), rng)
        words[topical] = self._of_topic[topics[topical], ranks]
        return np.asarray(words)

    @staticmethod
    def _ranks(cumulated: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.searchsorted(cumulated, rng.random(n) * cumulated[-1] * (1 - 1e-12))


def _tree(n_labels: int, rng: np.random.Generator) -> NDArray[np.int64]:
    inner = min(INNER, max(0, n_labels - ROOTS) // 3)
    parent = np.full(n_labels, -1)
    first_leaf = min(n_labels, ROOTS + inner)
    parent[ROOTS:first_leaf] = rng.integers(0, ROOTS, max(0, first_leaf - ROOTS))
    parent[first_leaf:] = rng.integers(0, first_leaf, n_labels - first_leaf)
    return parent


def _chunk(
    n: int, parent: NDArray[np.int64], words: _Words, popularity: NDArray[np.float64], rng: np.random.Generator
) -> Labelled:
    """Return the word counts and labels of n documents."""
    n_labels = len(parent)
    lengths = np.clip(rng.lognormal(np.log(85), 0.5, n).astype(np.int64), 10, 600)
    document = np.repeat(np.arange(n), lengths)
    first = rng.choice(n_labels, n, p=popularity)
    second = np.where(rng.random(n) < 0.3, rng.choice(n_labels, n, p=popularity), first)
    topic = np.where(rng.random(len(document)) < 0.5, first[document], second[document])
    topic = np.where((rng.random(len(document)) < 0.3) & (parent[topic] >= 0), parent[topic], topic)
    counts = sp.csr_matrix(
        (np.ones(len(document), np.float32), (document, words.draw(topic, rng))), shape=(n, words.n_features)
    )
    Y = np.zeros((n, n_labels), dtype=bool)
    for topics in (first, second):
        while (topics >= 0).any():
            here = topics >= 0
            Y[np.flatnonzero(here), topics[here]] = True
            topics = np.where(here, parent[topics], -1)
    wrong = np.flatnonzero(rng.random(n) < 0.05)
    Y[wrong, rng.integers(0, n_labels, len(wrong))] ^= True
    return Labelled(counts, _signs(Y))


def _idf(X: Any) -> NDArray[np.float32]:
    df = np.bincount(X.indices, minlength=X.shape[1])
    return np.asarray(np.log((X.shape[0] + 1) / (df + 1)), dtype=np.float32)


def _signs(Y: NDArray[np.bool_]) -> NDArray[np.int8]:
    return np.where(Y, 1, -1).astype(np.int8)
