"""Explanations of predictions of both kinds of models, by feature names."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from manylabel_core.explanation import NOT_LINEAR, Explanation, NotLinear
from manylabel_service.errors import InvalidField
from manylabel_service.hosting.examples import Features

MAX_EXPLAIN = 100
"""Maximum number of features listed for a label, and maximum number listed against it."""

Name = str | int
"""Name or number of a feature."""


class Part(NamedTuple):
    """Contribution of one feature to a score; the value is that of the request, None for a vector."""

    feature: Name
    value: float | None
    contribution: float


class LabelExplanation(NamedTuple):
    """Contributions to the score of one label, from the largest to the smallest, and the rest.

    `title` is the contribution of the words of the label's title.
    """

    parts: list[Part]
    rest: float
    title: float = 0.0


Explanations = dict[str, LabelExplanation]
"""Explanations of the predicted labels of one example."""


class Explainer:
    """Creator of the explanations of one response, which share a limit.

    Parameters
    ----------
    k : maximum number of features listed for and against a label.
    most_parts : maximum number of contributions in the response; each label counts as one more.
    """

    def __init__(self, k: int, most_parts: int) -> None:
        self._k = k
        self._most_parts = self._left = most_parts

    def explain(
        self,
        x: Features,
        labels: Sequence[str],
        find: Callable[[int], Sequence[Explanation]],
        name_of: Callable[[int], Name],
    ) -> Explanations:
        """Return the explanations of an example. Raises InvalidField.

        Parameters
        ----------
        labels : predicted labels.
        find : explains the scores of these labels by k features.
        name_of : returns the name of a column.
        """
        try:
            found = find(self._k)
        except NotLinear as error:
            raise InvalidField(("explain",), f"must be 0 or omitted: {NOT_LINEAR}") from error
        except ValueError as error:
            raise InvalidField(("explain",), f"is not possible: {error}") from error
        self._left -= sum(1 + len(each.features) for each in found)
        if self._left < 0:
            detail = (
                f"must be smaller, or send fewer examples: a response has at most {self._most_parts:,} contributions"
            )
            raise InvalidField(("explain",), detail)
        value_of = _values(x)
        return {
            label: LabelExplanation(
                [
                    Part(name := name_of(column), value_of(name), contribution)
                    for column, contribution in zip(each.features.tolist(), each.contributions.tolist(), strict=True)
                ],
                each.rest,
                each.title,
            )
            for label, each in zip(labels, found, strict=True)
        }


def _values(x: Features) -> Callable[[Name], float | None]:
    """Return the shortest decimal value of a feature that distinguishes it from other values."""
    if x.names is not None:
        places = {name: place for place, name in enumerate(x.names)}

        def value_of(name: Name) -> float | None:
            is_vector = x.vectors is not None and name in x.vectors
            return None if is_vector else float(str(x.values[places[str(name)]]))

        return value_of
    if x.indices is None:
        return lambda number: float(str(x.values[int(number)]))
    indices = x.indices
    return lambda number: float(str(x.values[np.searchsorted(indices, int(number))]))
