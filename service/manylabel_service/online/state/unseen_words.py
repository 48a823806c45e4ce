"""Share of unseen words in new texts; if it is high, parts of words may predict better."""

from manylabel_core import Vocabulary
from manylabel_core.records import TextSettings
from manylabel_core.records.encoder import BARE

FIRST, LAST = 1_001, 3_000
"""Numbers of the first and the last example whose words are counted."""
MIN_WORDS = 1_000
"""Minimum number of counted words for a share."""
MAX_WORDS = 2**53
"""Upper bound of the number of words."""


class UnseenWords:
    """Number of words in examples `FIRST` to `LAST`, and number of those words that no earlier example had.

    A word that occurs several times in an example counts once. Words come from the text fields or, without named
    fields, from bare texts.
    """

    def __init__(self, text: TextSettings | None) -> None:
        self._fields = frozenset() if text is None or text.chars else frozenset(text.fields or (BARE,))
        self._examples = self._words = self._unseen = 0

    def count(self, names: tuple[str, ...] | None, known: Vocabulary) -> None:
        """Count the words of an example that is about to be learnt, from the names of its features."""
        if self._examples >= LAST or not self._fields:
            return
        self._examples += 1
        if self._examples < FIRST or names is None:
            return
        # A token with a space is an n-gram.
        parts = ((name, *name.partition("=")) for name in names)
        words = [name for name, field, equals, token in parts if equals and field in self._fields and " " not in token]
        self._words += len(words)
        self._unseen += len(known.unknown(words))

    @property
    def share(self) -> float | None:
        """Share of new words among the counted ones; None below the minimum count."""
        return self._unseen / self._words if self._words >= MIN_WORDS else None

    def state(self) -> list[int]:
        """Return the counts, for `restore`."""
        return [self._examples, self._words, self._unseen]

    def restore(self, state: object) -> None:
        """Restore a `state`; raise ValueError if it is invalid."""
        if not isinstance(state, list) or len(state) != 3 or any(type(count) is not int for count in state):
            raise ValueError("words: the state must be a list of three counts")
        examples, words, unseen = state
        if not (0 <= examples <= LAST and 0 <= unseen <= words < MAX_WORDS):
            raise ValueError("words: the counts are inconsistent")
        self._examples, self._words, self._unseen = examples, words, unseen
