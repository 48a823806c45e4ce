"""Examples in the form that all models accept: validated values, without JSON and columns."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Features:
    """One example's features in one of three forms.

    named    `names` given: a value per name
    sparse   `indices` given: a value per column, ascending and unique
    dense    neither: a value per column, all of them; NaN where it is missing

    What a named or sparse example does not list is missing. `values` is float32, shape (n_values,).
    """

    names: tuple[str, ...] | None
    indices: NDArray[np.int32] | None
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Labels:
    """The truth of one example.

    `signs` (int8, one per name) holds +1 for relevant and -1 for irrelevant. Labels without a
    name here are irrelevant when `complete`, and unknown otherwise.
    """

    names: tuple[str, ...]
    signs: NDArray[np.int8]
    complete: bool

    @classmethod
    def all_of(cls, names: Iterable[str]) -> "Labels":
        """Return the complete set of relevant labels; every other label is irrelevant."""
        names = tuple(names)
        return cls(names, np.ones(len(names), dtype=np.int8), complete=True)


class Example(NamedTuple):
    """An example has features, the truth, and a weight, which its loss is multiplied by."""

    x: Features
    y: Labels
    weight: float = 1.0
