"""Index from the words of label titles to labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manylabel_core.online.models.stack._titles import UNIT, write_evidence
from manylabel_core.rows import MAX_COLUMNS, Rows
from manylabel_core.storage import check_range, enlarged

MAX_TITLE_WORDS = 100
"""Maximum number of words of a title."""

PARTS = ("words", "ends", "places", "features")
"""Names of the arrays of a state."""


class NewWords(NamedTuple):
    """Words of features without an example."""

    first: int  # column of the first feature
    words: NDArray[np.int64]  # (n_new,): word of each, -1 for none; later columns have none


NO_WORDS = NewWords(MAX_COLUMNS, np.zeros(0, np.int64))
"""Features without words of titles."""


class Titles:
    """Words of the titles of labels, and the corresponding features; see `_titles`.

    For the caller, a word is any number from 0 to 2^63 - 1; here, it is an index into the ascending words of all
    titles. The counts are computed from the titles and from the counts of the centroid.
    """

    def __init__(self) -> None:
        self._words = np.zeros(0, np.int64)
        self._labels, self._places = np.zeros((2, 0), np.int32)
        """For every word of every title, label by label, the label and the place of the word."""
        self._word_of = np.zeros(0, np.int32)
        self._index(np.zeros(1))

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, label: int) -> bool:
        return label < len(self._squares) and self._squares[label] > 0

    def set_titles(self, titles: Mapping[int, ArrayLike], seen: NDArray[np.float64]) -> None:
        """Replace the words of titles of labels; `seen` is an array of the centroid."""
        kept = ~np.isin(self._labels, list(titles))
        own = [np.unique(np.asarray(words, np.int64)) for words in titles.values()]
        labels = np.repeat(np.array(list(titles), np.int32), [len(words) for words in own])
        labels = np.concatenate([self._labels[kept], labels])
        words = np.concatenate([self._words[self._places[kept]], *own])
        order = np.lexsort((words, labels))
        before = self._words
        self._labels = labels[order]
        self._words, places = np.unique(words[order], return_inverse=True)
        self._places = places.astype(np.int32)
        moved = np.concatenate([np.zeros(1, np.int32), 1 + self._found(before)])
        self._word_of = moved[self._word_of]
        self._index(seen)

    def link(self, features: NDArray[np.int32], words: NDArray[np.int64], seen: NDArray[np.float64]) -> None:
        """Map features to words, -1 for none; `seen` is an array of the centroid."""
        self._word_of = enlarged(self._word_of, (1 + int(features.max(initial=-1)),))
        self._word_of[features] = 1 + self._found(words)
        if seen[1 + features].any():
            self._index(seen)

    def write(
        self, seen: NDArray[np.float64], rows: Rows, new: NewWords, learning: bool, evidence: NDArray[np.float64]
    ) -> None:
        """Write n_l of rows, shape (n_samples, 1 + n_labels); with `learning`, count their words."""
        index = self._word_ends, self._word_labels, self._counts, self._squares
        write_evidence(seen, self._word_of, new.first, 1 + self._found(new.words), *index, *rows, learning, evidence)

    def _found(self, words: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the indices of words, -1 for words that are in no title."""
        places = np.searchsorted(self._words, words)
        places[places == len(self._words)] = 0
        found = self._words[places] == words if len(self._words) else np.zeros(len(words), np.bool_)
        return np.where(found, places, -1).astype(np.int32)

    def _index(self, seen: NDArray[np.float64]) -> None:
        """Build the lookup tables of titles, and the counts."""
        n_words = len(self._words)
        self._word_ends = _ends(self._places, n_words)
        self._word_labels = self._labels[np.argsort(self._places, kind="stable")]
        linked = np.flatnonzero(self._word_of)
        counts = np.bincount(self._word_of[linked] - 1, weights=seen[1 + linked], minlength=n_words)
        self._counts = counts.astype(np.float64)
        units = (UNIT / np.sqrt(self._counts + 2.0)).astype(np.int64)
        self._squares = np.zeros(1 + self._labels.max(initial=-1), np.int64)
        np.add.at(self._squares, self._labels, units[self._places])

    def arrays(self, n_features: int, n_labels: int) -> dict[str, NDArray[Any]]:
        """Return the words, the ends of labels among the word indices, these indices, and the words of features."""
        if not len(self):
            return dict(zip(PARTS, (self._words, np.zeros(0, np.int64), *np.zeros((2, 0), np.int32)), strict=True))
        features = np.zeros(n_features, np.int32)
        known = self._word_of[:n_features]  # features that are not linked yet follow
        features[: len(known)] = known
        return dict(zip(PARTS, (self._words, _ends(self._labels, n_labels)[1:], self._places, features), strict=True))

    def nbytes_after(self, n_features: int, n_labels: int) -> int:
        """Return the bytes of memory with these numbers of features and labels."""
        return 4 * n_features + 16 * n_labels + 24 * len(self._words) + 12 * len(self._places) if len(self) else 0

    def restore(self, arrays: Mapping[str, NDArray[Any]], size: tuple[int, int], seen: NDArray[np.float64]) -> None:
        """Restore the output of `arrays` for a model of size `size`; raise ValueError if the arrays are invalid."""
        words, ends, places, features = (arrays[name] for name in PARTS)
        n_words = len(words)
        if (len(ends), len(features)) != ((size[1], size[0]) if n_words else (0, 0)):
            raise ValueError("state: titles must have an end for each label, and a word or -1 for each feature")
        check_range("titles (words)", words, 0, np.iinfo(np.int64).max)
        check_range("titles (ends)", ends, 0, len(places))
        check_range("titles (places)", places, 0, n_words - 1)
        check_range("titles (features)", features, 0, n_words)
        lengths = np.diff(ends, prepend=0)
        if len(places) != (ends[-1] if len(ends) else 0) or lengths.min(initial=0) < 0:
            raise ValueError(f"state: titles (ends) must ascend to {len(places)}, the number of titles (places)")
        if lengths.max(initial=0) > MAX_TITLE_WORDS:
            raise ValueError(f"state: a title may have at most {MAX_TITLE_WORDS} words")
        labels = np.repeat(np.arange(len(ends), dtype=np.int32), lengths)
        ascending = (np.diff(places) > 0) | (np.diff(labels) > 0)
        if not (ascending.all() and (words[1:] > words[:-1]).all() and len(np.unique(places)) == n_words):
            raise ValueError("state: words of titles must ascend, and each must occur in a title")
        self._words, self._labels, self._places, self._word_of = words, labels, places, features
        self._index(seen)


def _ends(items: NDArray[np.int32], n_items: int) -> NDArray[np.int64]:
    """Return the ends of the runs of n_items numbers among items in ascending order, with 0 in front."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(items, minlength=n_items))])
