"""Examples as all models accept them: validated values, independent of JSON and of columns."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manylabel_core.datasets.vectors import names_of

Source = Literal["human", "machine", "rule"]
"""Source of the labels of an example: a person, a model whose labels no person has checked, or a rule."""

MAX_REF_BYTES = 128
"""Maximum bytes of the reference of an example."""


class Features(NamedTuple):
    """Features of one example, which has one of three input kinds.

    named    `names` given: a value per name
    sparse   `indices` given: a value per column, ascending and unique
    dense    neither: a value per column, all of them; NaN where it is missing

    A feature that a named or sparse example does not list is missing. `values` is float32, shape (n_values,). A named
    example may also have float32 vectors, by the name of their field; a vector without a value is an empty list.
    """

    names: tuple[str, ...] | None
    indices: NDArray[np.int32] | None
    values: NDArray[np.float32]
    vectors: Mapping[str, NDArray[np.float32]] | None = None

    @property
    def n_values(self) -> int:
        """Number of values, including those of vectors."""
        return len(self.values) + (sum(map(len, self.vectors.values())) if self.vectors else 0)

    def with_numbers_of_vectors(self) -> "Features":
        """Return the features with each number of a vector as a separate feature, for models without blocks of
        vectors."""
        names, values = list(self.names or ()), [self.values]
        for field, vector in (self.vectors or {}).items():
            names += names_of(field, len(vector))
            values.append(vector)
        return Features(tuple(names), None, np.concatenate(values))


class Labels(NamedTuple):
    """True labels of one example.

    `signs` (int8, one per name) holds +1 for relevant and -1 for irrelevant. Labels that are not named are irrelevant
    if `complete`, else unknown.
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
    """Features, true labels, sample weight, source of the true labels, and the client's reference (log only)."""

    x: Features
    y: Labels
    weight: float = 1.0
    source: Source = "human"
    ref: str | None = None
