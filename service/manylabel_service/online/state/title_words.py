"""Words of titles and descriptions of labels, and the features that match them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from manylabel_core import Vocabulary
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.models.stack.titles import MAX_TITLE_WORDS
from manylabel_core.online.pipeline import Pipeline
from manylabel_core.records import TextSettings
from manylabel_core.records.encoder import BARE
from manylabel_core.records.text import TextReader
from manylabel_service.online.spec.limits import most_of
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.spec.trained import TrainedSpec
from manylabel_service.online.state.label_details import Edit, LabelDetails
from manylabel_service.online.state.served_metrics import NothingLearnt

_WORD_BYTES = 200
"""Estimated bytes of a title word, here and in the learner, without its characters."""
_KEY_BYTES = 8


class TitleWords:
    """Adapter that passes the words of titles, and the matching features, to a learner.

    A word is a token of a title or a description, according to the text options of the model. A feature matches a word
    if it stands for this token in a text field. In a model without named fields, a feature matches if it stands for the
    token in a bare text, or if its name is the token. The learner gets 63 bits of a digest instead of a word.
    Everything follows from the titles and the names of features, so it is not part of a state.
    """

    def __init__(self, text: TextSettings) -> None:
        self._reader = TextReader(text)
        self._takes_names = text.fields is None
        self._fields = tuple(text.fields or (BARE,))
        self._counts: Counter[str] = Counter()
        self._characters = 0
        self._changed: dict[int, list[str]] = {}

    @classmethod
    def of(cls, spec: ModelSpec | TrainedSpec, learner: OnlineLearner | NothingLearnt) -> TitleWords | None:
        """Return the adapter of a new model; None if titles are off, or if the features have no names."""
        if not isinstance(spec, ModelSpec) or not learner.pipeline.takes_titles:
            return None
        limit = None if spec.limits is None else spec.limits.features
        if spec.text is None or most_of(limit, "hash") is not None or isinstance(spec.features, int):
            return None
        return cls(spec.text.settings())

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return sys.getsizeof(self._counts) + self._characters + len(self._counts) * sys.getsizeof("")

    def nbytes_of(self, edits: Iterable[Edit]) -> int:
        """Return the maximum bytes of memory that these edits add, here and in the learner."""
        lengths = (len(edit.get("title") or "") + len(edit.get("description") or "") for edit in edits)
        return sum(min(length, MAX_TITLE_WORDS) * _WORD_BYTES + 4 * length for length in lengths)

    def change(self, column: int, before: LabelDetails, after: LabelDetails) -> None:
        """Apply the new details of the label in a column."""
        old, new = self._words(before), self._words(after)
        if old == new:
            return
        self._count(new, 1)
        self._count(old, -1)
        self._changed[column] = new

    def restore(self, details: Mapping[int, LabelDetails]) -> None:
        """Apply details of labels, by column, that the learner already has."""
        for each in details.values():
            self._count(self._words(each), 1)

    def give_all(self, details: Mapping[int, LabelDetails], n_labels: int) -> None:
        """Make the next call of `give` pass all titles, for a new learner."""
        self._changed = {column: [] for column in range(n_labels)}
        self._changed |= {column: self._words(each) for column, each in details.items()}

    def give(self, pipeline: Pipeline, names: Vocabulary, n_known: int) -> None:
        """Pass changed titles, and the features that are words, to the pipeline.

        Parameters
        ----------
        pipeline : pipeline with columns for all labels.
        names : names of its features.
        n_known : number of features before the pipeline grew; only later features are passed.
        """
        found = dict[int, str]()
        if self._changed:
            pipeline.set_titles({column: [_number(word) for word in words] for column, words in self._changed.items()})
            words = dict.fromkeys(word for words in self._changed.values() for word in words)
            found = {column: word for word in words for column in names.lookup(self._names(word)) if column >= 0}
            self._changed = {}
        if self._counts and (n_new := len(names) - n_known) > 0:
            newest = names.newest(n_new)
            found |= {n_known + i: word for i, name in enumerate(newest) if (word := self._word(name)) is not None}
        linked = {column: _number(word) for column, word in found.items() if column < pipeline.n_features}
        if linked:
            pipeline.link(np.array(list(linked), dtype=np.int32), np.array(list(linked.values()), dtype=np.int64))

    def numbers(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the word number of each of these features; -1 for a feature that is not a word."""
        words = [self._word(name) for name in names]
        return np.array([-1 if word is None else _number(word) for word in words], dtype=np.int64)

    def _words(self, details: LabelDetails) -> list[str]:
        """Return the first distinct words of a title and a description."""
        texts = [text for text in (details.title, details.description) if text is not None]
        tokens = (token for text in texts for token in self._reader.tokens(text, lambda count: None))
        return list(islice(dict.fromkeys(tokens), MAX_TITLE_WORDS))

    def _count(self, words: list[str], by: int) -> None:
        for word in words:
            before, after = self._counts[word], self._counts[word] + by
            self._characters += len(word.encode()) * ((after > 0) - (before > 0))
            self._counts[word] = after
            if not after:
                del self._counts[word]

    def _names(self, word: str) -> list[str]:
        """Return the names of the features that match a word."""
        names = [f"{field}={word}" for field in self._fields]
        return [*names, word] if self._takes_names else names

    def _word(self, name: str) -> str | None:
        """Return the title word that a feature matches, or None."""
        field, equals, word = name.rpartition("=")
        fits = field in self._fields if equals else self._takes_names
        return word if fits and word in self._counts else None


def _number(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=_KEY_BYTES).digest()) >> 1
