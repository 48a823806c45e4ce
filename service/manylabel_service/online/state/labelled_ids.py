"""The predictions that have been given their labels: each is learnt once, whichever replica is told."""

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from manylabel_service import ulid as prediction_ids
from manylabel_service.errors import PredictionExpired, PredictionLabelled, PredictionNotFound

MAX_LABELLED = 100_000
"""Ids remembered per model; beyond it the oldest predictions count as expired."""

_ID_BYTES = 160
"""Memory of an id: the string, its place in the set and in the heap."""


class LabelledIds:
    """The ids of the latest predictions that were labelled.

    An id at or below `floor` cannot be told from one that was labelled and forgotten, and is refused. Ids sort by
    their age, so these are the oldest.
    """

    def __init__(self) -> None:
        self.floor = ""
        self._ids: set[str] = set()
        self._oldest: list[str] = []  # a heap of the same ids

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    @property
    def nbytes(self) -> int:
        """The bytes of memory held, estimated."""
        return _ID_BYTES * len(self._ids)

    def check(self, ids: Sequence[str]) -> None:
        """Raise if not all of the ids can be labelled, each of them once.

        Raises
        ------
        PredictionLabelled
            One has been, or stands here twice.
        PredictionExpired
            One is so old that nobody knows.
        PredictionNotFound
            One is no id.
        """
        here: set[str] = set()
        for id in ids:
            if id in self._ids or id in here:
                raise PredictionLabelled(id)
            if not prediction_ids.valid(id):
                raise PredictionNotFound(id)
            if id <= self.floor:
                raise PredictionExpired(id, f"because {MAX_LABELLED:,} later ones have got their labels")
            here.add(id)

    def add(self, ids: Sequence[str]) -> None:
        """Take in ids that `check` let pass, and forget the oldest where they become too many."""
        for id in ids:
            self._ids.add(id)
            heapq.heappush(self._oldest, id)
        while len(self._ids) > MAX_LABELLED:
            self.floor = heapq.heappop(self._oldest)
            self._ids.discard(self.floor)

    def to_array(self) -> NDArray[np.uint8]:
        """Return all of it as bytes: the floor, if there is one, and the ids, ascending; 26 bytes each."""
        floor = [self.floor] if self.floor else []
        return np.frombuffer("".join(floor + sorted(self._ids)).encode(), dtype=np.uint8)

    @classmethod
    def from_array(cls, packed: NDArray[np.uint8], has_floor: bool) -> "LabelledIds":
        """Read what `to_array` wrote.

        Raises
        ------
        ValueError
            The bytes are not what it wrote.
        """
        text = packed.tobytes().decode("ascii")
        ids = [text[begin : begin + 26] for begin in range(0, len(text), 26)]
        if (
            type(has_floor) is not bool
            or not all(map(prediction_ids.valid, ids))
            or any(a >= b for a, b in pairwise(ids))
        ):
            raise ValueError("labelled: expected ascending ids of 26 characters")
        labelled = cls()
        if has_floor:
            labelled.floor, *ids = ids
        if len(ids) > MAX_LABELLED:
            raise ValueError("labelled: more ids than are ever remembered")
        labelled._ids, labelled._oldest = set(ids), ids
        return labelled
