"""Labels included in the response to a prediction."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from manylabel_service.hosting.predictions import Prediction

MAX_TOP = 1_000_000
"""Maximum `top` of a request; the size of a response has a separate limit."""
MAX_NAMES = 1_000
"""Maximum number of names in `only`, and in `except`."""
PREFIX = "*"
"""Suffix of a prefix of names."""
STAR = "\\*"
"""Suffix of the name of a label that ends in `*`."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of labels, and prefixes of names, which end in `*`; the `*` of a name itself is written `\\*`."""

    names: frozenset[str]
    prefixes: tuple[str, ...]
    """Sorted prefixes, without prefixes that begin with another one; so only the last prefix that sorts before a label
    can match it."""

    @classmethod
    def of(cls, given: Sequence[str]) -> "Names":
        """Return the names, and the prefixes among them."""
        names, found, prefixes = set[str](), list[str](), list[str]()
        for name in given:
            if name.endswith(STAR):
                names.add(name.removesuffix(STAR) + "*")
            elif name.endswith(PREFIX):
                found.append(name.removesuffix(PREFIX))
            else:
                names.add(name)
        for prefix in sorted(found):
            if not (prefixes and prefix.startswith(prefixes[-1])):
                prefixes.append(prefix)
        return cls(frozenset(names), tuple(prefixes))

    def __contains__(self, label: str) -> bool:
        if label in self.names:
            return True
        place = bisect_right(self.prefixes, label)
        return place > 0 and label.startswith(self.prefixes[place - 1])


Learning = Callable[[str], dict[str, float] | None]
"""Function that returns the numbers of seen and needed examples of a label that is still being learnt."""


@dataclass(slots=True)
class Selection:
    """Labels selected by name or score.

    Attributes
    ----------
    most : maximum number of labels in `scores`, the best ones.
    always_ranked : whether labels are always sorted by score; otherwise they keep their order if all are returned.
    only, unwanted : labels to select from (None for all), and labels to omit.
    learning : function that returns the numbers of seen and needed examples of a label; None to omit them.
    """

    most: int
    always_ranked: bool = False
    only: Names | None = None
    unwanted: Names | None = None
    learning: Learning | None = None
    _known: dict[str, bool] = field(default_factory=dict)

    def __call__(self, prediction: Prediction) -> tuple[Prediction, int | None]:
        """Return the selected part of a prediction, and the number of labels if `scores` lists only the best."""
        if self.only is not None or self.unwanted is not None:
            prediction = self._named(prediction)
        n_labels = len(prediction.scores)
        if n_labels <= self.most and not self.always_ranked:
            return prediction, None
        names = list(prediction.scores)
        best = [names[place] for place in _best(prediction, self.most)]
        scores = {name: prediction.scores[name] for name in best}
        likely = prediction.probabilities
        likely = None if likely is None else {name: likely[name] for name in best}
        return prediction._replace(scores=scores, probabilities=likely), n_labels if n_labels > self.most else None

    def _named(self, prediction: Prediction) -> Prediction:
        scores = {name: score for name, score in prediction.scores.items() if self._selects(name)}
        labels = [name for name in prediction.labels if name in scores]
        likely, why = prediction.probabilities, prediction.explanations
        return prediction._replace(
            labels=labels,
            scores=scores,
            probabilities=None if likely is None else {name: likely[name] for name in scores},
            explanations=None if why is None else {name: why[name] for name in labels if name in why},
            auto=None if prediction.auto is None else [name for name in prediction.auto if name in scores],
        )

    def _selects(self, name: str) -> bool:
        selects = self._known.get(name)
        if selects is None:
            wanted = self.only is None or name in self.only
            selects = self._known[name] = wanted and not (self.unwanted is not None and name in self.unwanted)
        return selects


def _best(prediction: Prediction, most: int) -> list[int]:
    """Return the columns of the labels with the highest scores, best first; ties keep their order."""
    margins = prediction.margins
    places = np.arange(len(margins))
    if len(margins) > most:
        least = np.partition(margins, len(margins) - most)[len(margins) - most]
        places = np.flatnonzero(margins >= least)
    best: list[int] = places[np.argsort(-margins[places], kind="stable")][:most].tolist()
    return best
