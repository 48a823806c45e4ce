"""Ids of labelled predictions, so that each is learnt once on every replica."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from manylabel_service import ulid as prediction_ids
from manylabel_service.errors import PredictionExpired, PredictionLabelled, PredictionNotFound
from manylabel_service.hosting.examples import Labels
from manylabel_service.online.state.partial_truths import PartialLabels

MAX_LABELLED = 100_000
"""Maximum number of ids per model; above it, the oldest predictions count as expired."""

_ID_BYTES = 160
"""Estimated bytes of an id: the string, and its entries in the set and in the heap."""


class LabelledIds:
    """Ids of the latest labelled predictions.

    Ids sort by age. An id at or below `floor` may have been labelled and then forgotten, so it is rejected. Ids in
    `parts` accept more labels.
    """

    def __init__(self) -> None:
        self.floor = ""
        self.parts = PartialLabels()
        self._ids: set[str] = set()
        self._oldest: list[str] = []  # the same ids as a heap

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        return _ID_BYTES * len(self._ids) + self.parts.nbytes

    def check(
        self, ids: Sequence[str], truths: Sequence[Labels], columns_of: Callable[[Iterable[str]], Sequence[int]]
    ) -> None:
        """Raise an error unless each id can get these labels, none of them twice. Raises PredictionLabelled,
        PredictionExpired or PredictionNotFound.

        Parameters
        ----------
        ids, truths : sequences of equal length.
        columns_of : returns the columns of labels by their names, -1 for unknown ones.
        """
        here: set[str] = set()
        for id, y in zip(ids, truths, strict=True):
            if id in here:
                raise PredictionLabelled(id)
            if id in self._ids:
                self._check_part(id, y, columns_of(y.names))
            if not prediction_ids.valid(id):
                raise PredictionNotFound(id)
            if id <= self.floor:
                raise PredictionExpired(id, f"{MAX_LABELLED:,} later predictions have been labelled")
            here.add(id)

    def _check_part(self, id: str, y: Labels, columns: Sequence[int]) -> None:
        if id not in self.parts:
            raise PredictionLabelled(id)
        repeated = set(self.parts.repeated(id, columns))
        if repeated or y.complete or not y.names:  # an id without labels adds nothing, but may repeat an earlier one
            told = [name for name, column in zip(y.names, columns, strict=True) if column in repeated]
            what = ", ".join(map(repr, told)) or "labels"
            raise PredictionLabelled(
                id, f"already has {what}, and a label is learnt once: send the other labels as an object"
            )

    def add(self, id: str, columns: Sequence[int] | None = None) -> None:
        """Add an id that `check` accepted, and drop the oldest above the limit.

        `columns` are the labels so far if more may follow; None: the labels are complete.
        """
        if id not in self._ids:
            self._ids.add(id)
            heapq.heappush(self._oldest, id)
        if columns is not None:
            self.parts.tell(id, columns)
        while len(self._ids) > MAX_LABELLED:
            self.floor = max(self.floor, oldest := heapq.heappop(self._oldest))
            self._ids.discard(oldest)
            self.parts.close(oldest)

    def to_array(self) -> NDArray[np.uint8]:
        """Return the ids as bytes: the floor, if any, then the ids in ascending order; 26 bytes each."""
        floor = [self.floor] if self.floor else []
        return np.frombuffer("".join(floor + sorted(self._ids)).encode(), dtype=np.uint8)

    @classmethod
    def from_arrays(cls, packed: NDArray[np.uint8], has_floor: bool, parts: NDArray[np.uint8]) -> "LabelledIds":
        """Restore from the outputs of `to_array` of this object and of the parts. Raises ValueError."""
        text = packed.tobytes().decode("ascii")
        ids = [text[begin : begin + 26] for begin in range(0, len(text), 26)]
        if (
            type(has_floor) is not bool
            or not all(map(prediction_ids.valid, ids))
            or any(a >= b for a, b in pairwise(ids))
        ):
            raise ValueError("labelled: ids must ascend, and have 26 characters")
        labelled = cls()
        if has_floor:
            labelled.floor, *ids = ids
        if len(ids) > MAX_LABELLED:
            raise ValueError(f"labelled: at most {MAX_LABELLED:,} ids are allowed")
        labelled._ids, labelled._oldest = set(ids), ids
        labelled.parts = PartialLabels.from_array(parts)
        if not all(id in labelled for id in labelled.parts):
            raise ValueError("parts: each id must be one of the labelled ids")
        return labelled
